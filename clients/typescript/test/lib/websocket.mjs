// A WebSocket for tests: Node 20 has none.
import { randomBytes } from 'node:crypto'
import http from 'node:http'

export async function openWebSocket (port, path, host) {
  const headers = { host, connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': randomBytes(16).toString('base64') }
  const request = http.request({ port, host: '127.0.0.1', path, headers, agent: false })
  const [socket, first] = await new Promise((resolve, reject) => {
    request.on('upgrade', (_, socket, head) => resolve([socket, head]))
    request.on('response', ({ statusCode }) => reject(new Error(`no WebSocket: ${statusCode}`)))
    request.on('error', reject)
    request.end()
  })
  let rest = first
  const waiting = []
  let wake = () => {}
  const take = () => {
    for (;;) {
      if (rest.length < 2) return
      let [size, at] = [rest[1] & 127, 2]
      if (size === 126) {
        if (rest.length < 4) return
        [size, at] = [rest.readUInt16BE(2), 4]
      } else if (size === 127) {
        if (rest.length < 10) return
        [size, at] = [Number(rest.readBigUInt64BE(2)), 10]
      }
      if (rest.length < at + size) return
      const [kind, data] = [rest[0] & 15, rest.subarray(at, at + size)]
      rest = rest.subarray(at + size)
      if (kind === 1) waiting.push({ text: data.toString() })
      else if (kind === 2) waiting.push({ data: data.toString() })
    }
  }
  const ended = () => { waiting.push({ isEnd: true }); wake() }
  socket.on('data', (chunk) => { rest = Buffer.concat([rest, chunk]); take(); wake() }).on('close', ended).on('error', () => {})
  take()
  const send = (kind, text) => {
    const [data, mask] = [Buffer.from(text), randomBytes(4)]
    socket.write(Buffer.concat([Buffer.from([0x80 | kind, 0x80 | data.length]), mask, data.map((byte, i) => byte ^ mask[i % 4])]))
  }
  return {
    text: (text) => send(1, text),
    binary: (text) => send(2, text),
    end: () => socket.destroy(),
    async next () {
      while (waiting.length === 0) await new Promise((resolve) => { wake = resolve })
      if (waiting[0].isEnd) throw new Error('the WebSocket ended')
      return waiting.shift()
    }
  }
}
