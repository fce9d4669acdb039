// Previews and terminals through a host's own server: requests for
// `<port>-<sandbox>-<token>.<host>` are forwarded to the daemon.
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { isNotFoundError } from '../generated/errors.js'
import { type Place, placeOf, type Web } from './namespace.js'
import { optionsOf } from './options.js'
import { label, type Preview, previewOf, suffixOf } from './preview-host.js'
import { invalid } from './translate.js'
import { type Passing, passFetch, passRequest, passUpgrade, withoutHops } from './tunnel.js'
import { Sandbox } from './sandbox.js'
import type { Namespace, TerminalOptions } from './types.js'

function webOf ({ web }: Place): Web {
  if (web !== undefined) return web
  throw invalid('a preview needs a daemon that listens: give the namespace {socket} or {port}, and --preview-host to the daemon')
}

/** The host under which the daemon serves previews; undefined if there is no such preview. Starts nothing. */
async function hostOf (place: Place, { sandbox, port }: Preview): Promise<string | undefined> {
  if (place.previewHost !== undefined) return place.previewHost
  const box = (await place.connect()).sandbox(sandbox)
  try {
    if ((await box.get()).state !== 'running') return undefined
  } catch (thrown) {
    if (isNotFoundError(thrown)) return undefined
    throw thrown
  }
  const found = (await box.port.list()).exposed.find((exposed) => exposed.port === port)
  if (found === undefined) return undefined
  if (found.url === undefined) throw invalid('the daemon serves no previews: start it with --preview-host')
  place.previewHost = suffixOf(found.url)
  return place.previewHost
}

interface Asked { method: string, path: string, url: string, headers: OutgoingHttpHeaders }

async function passingOf (place: Place, preview: Preview, asked: Asked): Promise<Passing | undefined> {
  const host = await hostOf(place, preview)
  if (host === undefined) return undefined
  const original = { 'x-original-url': asked.url, 'x-sandbox-name': preview.sandbox, 'x-forwarded-host': String(asked.headers.host ?? '') }
  const headers = { ...withoutHops(asked.headers), ...original, host: `${label(preview)}.${host}` }
  return { method: asked.method, path: asked.path, headers }
}

const notFound = (): object => ({ error: { name: 'not_found', fault: 'caller', message: 'there is no such preview' }, code: 'INVALID_TOKEN' })

/**
 * Responds to a request for a preview; null if it is no preview's. env: an object with the
 * namespace as `Sandbox`, or a namespace.
 */
export async function proxyToSandbox (request: Request, env: { Sandbox: Namespace } | Namespace): Promise<Response | null> {
  const url = new URL(request.url)
  const preview = previewOf(url.host)
  if (preview === undefined) return null
  const place = placeOf(namespaceOf(env))
  const web = webOf(place)
  const headers = { ...Object.fromEntries(request.headers), host: url.host }
  const asked = { method: request.method, path: url.pathname + url.search, url: request.url, headers }
  const passing = await passingOf(place, preview, asked)
  if (passing === undefined) return Response.json(notFound(), { status: 404 })
  return await passFetch(web, passing, request)
}

const namespaceOf = (env: { Sandbox: Namespace } | Namespace): Namespace =>
  env !== null && env !== undefined && 'Sandbox' in env ? (env as { Sandbox: Namespace }).Sandbox : env as Namespace

export interface PreviewHandler {
  /** For the event `request` of a server: false if it is no preview's. */
  request (request: IncomingMessage, response: ServerResponse): Promise<boolean>
  /** For the event `upgrade`: WebSockets. */
  upgrade (request: IncomingMessage, socket: Duplex, head: Uint8Array): Promise<boolean>
}

/** The same for servers of node:http. */
export function createPreviewHandler (namespace: Namespace): PreviewHandler {
  const place = placeOf(namespace)
  const web = webOf(place)
  const find = async (request: IncomingMessage, isUpgrade: boolean): Promise<Passing | null | undefined> => {
    const host = request.headers.host ?? ''
    const preview = previewOf(host)
    if (preview === undefined) return null
    const path = request.url ?? '/'
    const passing = await passingOf(place, preview, { method: request.method ?? 'GET', path, url: `http://${host}${path}`, headers: request.headers })
    if (passing !== undefined && isUpgrade) Object.assign(passing.headers, { connection: 'Upgrade', upgrade: request.headers.upgrade })
    return passing
  }
  return {
    async request (request, response) {
      const passing = await find(request, false)
      if (passing === null) return false
      if (passing === undefined) response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(notFound()))
      else passRequest(web, passing, request, response)
      return true
    },
    async upgrade (request, socket, head) {
      const passing = await find(request, true)
      if (passing === null) return false
      if (passing === undefined) socket.end('HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
      else passUpgrade(web, passing, socket, head)
      return true
    }
  }
}

export interface Upgrade { request: IncomingMessage, socket: Duplex, head: Uint8Array }

/**
 * Connects a WebSocket request at a server of node:http to a session's terminal. The server has to
 * authorize it before.
 */
export function proxyTerminal (sandbox: Sandbox, sessionId: string | undefined, upgrade: Upgrade, options: TerminalOptions = {}): void {
  if (!(sandbox instanceof Sandbox)) throw invalid('proxyTerminal: the first argument is what getSandbox answers')
  const { cols, rows, shell } = optionsOf('proxyTerminal', options)
  const web = webOf(sandbox.place)
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries({ session: sessionId, cols, rows, shell })) if (value !== undefined) query.set(name, String(value))
  const { origin: _, host: __, authorization: ___, cookie: ____, ...headers } = withoutHops(upgrade.request.headers)
  const token = web.token === undefined ? {} : { authorization: `Bearer ${web.token}` }
  const own = { host: 'localhost', connection: 'Upgrade', upgrade: 'websocket', ...token }
  const path = `/v1/sandboxes/${sandbox.name}/terminal?${query.toString()}`
  passUpgrade(web, { method: 'GET', path, headers: { ...headers, ...own } }, upgrade.socket, upgrade.head)
}
