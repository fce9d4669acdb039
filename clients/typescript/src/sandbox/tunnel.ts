// Forwards requests to the daemon over HTTP: from a fetch-style handler, and from servers of node:http, WebSockets too.
import http from 'node:http'
import https from 'node:https'
import { Readable, type Duplex } from 'node:stream'
import type { Web } from './namespace.js'

/** Headers about one connection are not forwarded. */
const HOP_BY_HOP = [
  'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'
]
const NO_BODY = [204, 205, 304]

export interface Passing {
  method: string
  path: string
  headers: http.OutgoingHttpHeaders
}

export const withoutHops = (headers: http.OutgoingHttpHeaders): http.OutgoingHttpHeaders => {
  const named = String(headers.connection ?? '').toLowerCase().split(',').map((name) => name.trim())
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name) && !named.includes(name)))
}

function ask (web: Web, { method, path, headers }: Passing, signal?: AbortSignal): http.ClientRequest {
  const { socketPath, host, port, tls } = web
  const where = socketPath === undefined ? { host, port } : { socketPath }
  // A connection of its own: a kept one would keep the host's process alive.
  const options = { ...where, method, path, headers, agent: false as const, ...signal === undefined ? {} : { signal } }
  if (!tls) return http.request(options)
  return https.request({ ...options, ...tls === true ? {} : tls })
}

const pairsOf = (raw: string[]): Array<[string, string]> =>
  Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i] as string, raw[2 * i + 1] as string])

const passed = (raw: string[]): Array<[string, string]> => pairsOf(raw).filter(([name]) => !HOP_BY_HOP.includes(name.toLowerCase()))

/** fetch-style. */
export async function passFetch (web: Web, passing: Passing, request: Request): Promise<Response> {
  const asked = ask(web, passing, request.signal)
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => {
    asked.once('response', resolve)
    asked.once('error', reject)
  })
  if (request.body === null) asked.end()
  else Readable.fromWeb(request.body as never).on('error', (error) => { asked.destroy(error) }).pipe(asked)
  const answer = await answered
  const status = answer.statusCode ?? 502
  const headers = new Headers(passed(answer.rawHeaders))
  if (request.method === 'HEAD' || NO_BODY.includes(status)) {
    answer.resume()
    return new Response(null, { status, headers })
  }
  return new Response(Readable.toWeb(answer) as ReadableStream<Uint8Array>, { status, statusText: answer.statusMessage ?? '', headers })
}

/** For the `request` event of a server. */
export function passRequest (web: Web, passing: Passing, request: http.IncomingMessage, response: http.ServerResponse): void {
  const asked = ask(web, passing)
  asked.once('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, passed(answer.rawHeaders).flat())
    answer.on('error', () => { response.destroy() }).pipe(response)
  })
  asked.once('error', () => {
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end()
  })
  // A client that disconnected gets no response.
  response.once('close', () => { asked.destroy() })
  request.pipe(asked)
}

const headOf = ({ statusCode, statusMessage, rawHeaders }: http.IncomingMessage, isUpgraded: boolean): string => {
  const lines = (isUpgraded ? pairsOf(rawHeaders) : passed(rawHeaders)).map(([name, value]) => `${name}: ${value}`)
  return [`HTTP/1.1 ${statusCode} ${statusMessage}`, ...lines, ...isUpgraded ? [] : ['Connection: close'], '', ''].join('\r\n')
}

/** For the `upgrade` event of a server. */
export function passUpgrade (web: Web, passing: Passing, socket: Duplex, head: Uint8Array): void {
  const asked = ask(web, passing)
  const end = (): void => { socket.destroy() }
  asked.once('upgrade', (answer, upstream, first) => {
    socket.write(headOf(answer, true), 'latin1')
    socket.write(first)
    upstream.write(head)
    upstream.on('error', end).on('close', end).pipe(socket)
    socket.pipe(upstream)
  })
  asked.once('response', (answer) => {
    socket.write(headOf(answer, false), 'latin1')
    answer.on('error', end).pipe(socket)
  })
  asked.once('error', () => { socket.end('HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\nContent-Length: 0\r\n\r\n') })
  socket.on('error', () => { asked.destroy() }).once('close', () => { asked.destroy() })
  asked.end()
}
