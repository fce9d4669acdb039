import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSafeFetch } from '../../dist/safe-fetch/index.js'

// 127.0.0.1 stands for the public internet; all other addresses of 127.0.0.0/8 stay private.
export const PUBLIC = '127.0.0.1'
export const PRIVATE = '127.0.0.2'

export const allow = () => true
export const to = (...addresses) => () => addresses.map((address) => ({ address }))

/** A safe fetch whose names are all at 127.0.0.1, unless the options differ. */
export function make (options = {}) {
  const rules = options.policy === undefined && options.rules === undefined ? { policy: allow } : {}
  return createSafeFetch({ lookup: to(PUBLIC), allowPrivate: [`${PUBLIC}/32`], ...rules, ...options })
}

const listen = async (server, host) => {
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, host, resolve))
  return server.address().port
}

async function serve (t, server, host, wrap = (it) => it) {
  const sockets = new Set()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  })
  const port = await listen(server, host)
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return wrap({ port, sockets, server })
}

/** An HTTP server of this test alone, with the requests it got. */
export async function httpServer (t, handler = (_request, response) => response.end('ok'), host = PUBLIC) {
  const requests = []
  const server = http.createServer((request, response) => {
    request.localAddress = request.socket.localAddress
    requests.push(request)
    handler(request, response, requests.length)
  })
  return { ...await serve(t, server, host), requests }
}

/** One for raw bytes: `answer(socket, head)` after the head of a request. */
export async function rawServer (t, answer, host = PUBLIC) {
  const heads = []
  const server = net.createServer((socket) => {
    let text = ''
    let isAnswered = false
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (isAnswered || !text.includes('\r\n\r\n')) return
      isAnswered = true
      heads.push(text)
      answer(socket, text)
    })
  })
  return { ...await serve(t, server, host), heads }
}

export async function httpsServer (t, certificate, handler = (_request, response) => response.end('ok'), host = PUBLIC) {
  const names = []
  const requests = []
  const SNICallback = (name, done) => {
    names.push(name)
    done(null)
  }
  const server = https.createServer({ key: certificate.key, cert: certificate.cert, SNICallback }, (request, response) => {
    request.isSessionReused = request.socket.isSessionReused()
    requests.push(request)
    handler(request, response)
  })
  server.on('tlsClientError', () => {})
  return { ...await serve(t, server, host), requests, names }
}

/** A self-signed certificate for these names (`DNS:good.test`, `IP:127.0.0.1`). */
export function certificateFor (t, names) {
  const dir = mkdtempSync(join(tmpdir(), 'safe-fetch-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=test']
  const out = ['-addext', `subjectAltName=${names}`, '-keyout', join(dir, 'key'), '-out', join(dir, 'cert')]
  execFileSync('openssl', ['req', ...kind, ...out], { stdio: 'pipe', timeout: 60_000 })
  return { key: readFileSync(join(dir, 'key'), 'utf8'), cert: readFileSync(join(dir, 'cert'), 'utf8') }
}

/** A handler that returns the request. */
export async function echo (request, response) {
  const { method, url, headers } = request
  response.end(JSON.stringify({ method, url, headers, body: (await bytesOf(request)).toString() }))
}

export async function bytesOf (request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export const textOf = ({ body }) => Buffer.from(body).toString()
export const jsonOf = (response) => JSON.parse(textOf(response))

/** For assert.rejects. */
export const denied = (message) => ({ name: 'SafeFetchError', code: 'ERR_FETCH_DENIED', ...message === undefined ? {} : { message } })
export const failed = (code) => ({ name: 'SafeFetchError', code: `ERR_FETCH_${code}` })

/** Waits for a condition that must come true; the runner's own limit ends a futile wait. */
export async function until (condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5))
}
