// A scripted daemon for tests: frames on a unix socket.
import { mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FrameReader, frameParts } from '../../dist/internal/frames.js'

export const frame = (message, ...attachments) => Buffer.concat(frameParts(Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)), attachments))

class Link {
  constructor (socket, answer, greets) {
    Object.assign(this, { socket, answer, greets, asked: [], answers: new Map(), lastId: 0, reader: new FrameReader(), preamble: '' })
    socket.on('data', (chunk) => this.receive(chunk))
    socket.on('error', () => {})
  }

  receive (chunk) {
    const missing = 8 - this.preamble.length
    this.preamble += chunk.subarray(0, missing).toString()
    for (const { json, attachments } of this.reader.push(chunk.subarray(missing))) {
      const message = { ...JSON.parse(Buffer.from(json)), attachments }
      if (message.method === undefined) this.answers.get(message.id)?.(message)
      else this.take(message)
    }
  }

  take (message) {
    this.asked.push(message)
    if (message.method === 'hello' && this.greets) return this.result(message.id, { server: 'cloche', version: 'test', protocol: 1, ...this.greets })
    this.answer?.(message, this)
  }

  /** The first request of that method, when it comes. */
  async next (method) {
    for (;;) {
      const found = this.asked.find((message) => message.method === method)
      if (found !== undefined) return found
      await sleep(1)
    }
  }

  send (message, ...attachments) { this.socket.write(frame(message, ...attachments)) }
  result (id, result, ...attachments) { this.send({ jsonrpc: '2.0', id, result }, ...attachments) }
  error (id, name, message, data = {}) { this.send({ jsonrpc: '2.0', id, error: { code: -32000, message, data: { name, ...data } } }) }
  tell (method, params, ...attachments) { this.send({ jsonrpc: '2.0', method, params }, ...attachments) }
  ask (method, params) {
    const id = ++this.lastId
    return new Promise((resolve) => {
      this.answers.set(id, resolve)
      this.send({ jsonrpc: '2.0', id, method, params })
    })
  }
}

/**
 * answer(message, link) is called for every request but hello, to which this responds itself unless
 * it does not greet. greets: true, or further members of that response.
 */
export async function startPeer (answer, { greets = true } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-peer-'))
  const peer = { socket: path.join(folder, 's'), links: [] }
  const server = net.createServer((socket) => peer.links.push(new Link(socket, answer, greets)))
  await new Promise((resolve) => server.listen(peer.socket, resolve))
  peer.close = async () => {
    for (const { socket } of peer.links) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
    rmSync(folder, { recursive: true })
  }
  return peer
}

export const result = (value, more = {}) => ({
  status: 'success', success: true, result: value, error: null, stdout: '', stderr: '', exitCode: 0, files: { created: [], modified: [], deleted: [], denied: [] },
  meta: { duration: 1, signatureSource: 'inferred', usage: {}, limitsHit: [], limits: {}, warnings: [] }, ...more
})
