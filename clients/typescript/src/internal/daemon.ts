// Connections to a daemon: a running one, or one that this client starts, which lives as long as the connection.
import { execFile, spawn } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import { format, getSystemErrorMap } from 'node:util'
import { faults, installed } from '../generated/discovery.js'
import { InvalidArgumentError } from '../generated/errors.js'
import { ConnectionError } from './error.js'

export interface DaemonOptions {
  /** Path of a daemon's unix socket. Default: $CLOCHE_SOCKET, unless daemon, daemonArgs or optional ask for a private daemon. */
  socket?: string | undefined
  /** The host of a daemon that listens on TCP; needs `token`. */
  host?: string | undefined
  port?: number | undefined
  token?: string | undefined
  /** TLS for TCP: true, or options of node:tls. */
  tls?: boolean | tls.ConnectionOptions | undefined
  /** The cloched to start if no socket or port is given. Default: $CLOCHE_DAEMON, or the first found by findDaemon. */
  daemon?: string | undefined
  /** More arguments for it. */
  daemonArgs?: readonly string[] | undefined
  /**
   * Guards it may lack, by name; default: unless it runs as root, the guards that an ordinary user
   * may lack (docs/reference.md).
   */
  optional?: readonly string[] | undefined
  /** Refuse a daemon that lacks any guard. */
  strict?: boolean | undefined
  /**
   * Use the daemon of the command line, the system's or the user's own, started if none runs; it
   * outlives this client, as its sandboxes do.
   */
  shared?: boolean | undefined
}

export interface Link {
  socket: Duplex
  /** Its name in errors. */
  name: string
  pid: number | undefined
  /** True for the user's own daemon, not a named one: then its notice is for this user. */
  isOurs: boolean
  explain (what: string): Promise<string>
  /** Why the daemon refuses connections; undefined: it does not say. */
  refusal?: () => Promise<string | undefined>
  /** Resolves after its resources are gone. */
  gone: Promise<void>
  /** Kills a started process that does not exit on its own. */
  kill (): void
}

const isProgram = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

function inTree (): string[] {
  // dist/internal/ is three folders below clients/, whose parent holds the builds.
  const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../../..')
  if (!existsSync(path.join(root, 'meson.build'))) return [] // installed: other users may write to that folder
  try {
    return readdirSync(root).filter((name) => /^build/.test(name)).sort().map((name) => path.join(root, name, 'cloched'))
  } catch {
    return []
  }
}

/** The program to start; the order is DISCOVERY_PROGRAM of spec/discovery.def. */
export function findDaemon (named?: string, environment: NodeJS.ProcessEnv = process.env): string {
  const given = named ?? environment.CLOCHE_DAEMON
  if (given !== undefined && given !== '') {
    if (isProgram(given)) return given
    throw new ConnectionError(format(faults.NAMED, named === undefined ? '$CLOCHE_DAEMON' : 'the option daemon', given))
  }
  const onPath = (environment.PATH ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder)) // never the current directory
  const beside = onPath.filter((folder) => path.basename(folder) === 'bin').map((folder) => path.join(folder, '../sbin'))
  const inFolder = (folder: string): string => path.join(folder, 'cloched')
  const found = [...inTree(), ...[...onPath, ...beside, ...installed].map(inFolder)].find(isProgram)
  if (found !== undefined) return found
  throw new ConnectionError(format(faults.MISSING, installed.join(', ')))
}

/** The socket that $CLOCHE_SOCKET names; undefined: the options name another daemon, or ask for a private one. */
function variableSocket ({ port, shared, daemon, daemonArgs, optional }: DaemonOptions): string | undefined {
  const isPrivate = shared !== true && (daemon !== undefined || daemonArgs !== undefined || optional !== undefined)
  return port !== undefined || isPrivate ? undefined : process.env.CLOCHE_SOCKET || undefined
}

const PATH_MAX = 107

async function dialUnix (path: string, signal?: AbortSignal): Promise<Link> {
  const size = Buffer.byteLength(path)
  if (size === 0) throw new InvalidArgumentError(faults.EMPTY)
  if (size > PATH_MAX) throw new InvalidArgumentError(format(faults.LONG, size))
  const link = await dial(() => net.connect({ path }), `the daemon at ${path}`, 'connect', signal, (error) => {
    const words = getSystemErrorMap().get(error.errno ?? 0)?.[1] ?? error.message
    const isClosed = error.code === 'EACCES' || error.code === 'EPERM'
    return format(isClosed ? faults.CLOSED : faults.NONE, path, words.charAt(0).toUpperCase() + words.slice(1))
  })
  return { ...link, refusal: async () => await readRefusal(path) }
}

/** A daemon refuses a connection with an HTTP response, whatever protocol it uses: the reason is the body. */
export function refusalIn (chunk: Uint8Array): string | undefined {
  const text = Buffer.from(chunk.subarray(0, 512)).toString()
  // Other HTTP is no frame, which the reader reports.
  return /^HTTP\/1\.1 (?:403|503) [^]*?\r\n\r\n([^]+)/.exec(text)?.[1]?.trim()
}

const REFUSAL_WAIT_MS = 1000

/** Node discards what came when a write to a closed socket fails: a connection that writes nothing gets the response. */
async function readRefusal (path: string): Promise<string | undefined> {
  const socket = net.connect({ path })
  let refusal: string | undefined
  await within(new Promise<void>((resolve) => {
    socket.once('data', (chunk: Uint8Array) => { refusal = refusalIn(chunk); resolve() })
    socket.once('error', () => { resolve() })
    socket.once('close', () => { resolve() })
  }), REFUSAL_WAIT_MS)
  socket.destroy()
  return refusal
}

export async function reach (options: DaemonOptions, signal?: AbortSignal): Promise<Link> {
  const { port } = options
  const socket = options.socket ?? variableSocket(options)
  if (options.socket !== undefined && port !== undefined) throw new InvalidArgumentError('socket and port are both given: a client has one daemon')
  if ((options.socket !== undefined || port !== undefined) && options.daemon !== undefined) {
    throw new InvalidArgumentError('daemon names a program to start; with socket or port there is none')
  }
  checkGuards(options)
  checkShared(options)
  if (socket !== undefined) return await dialUnix(socket, signal)
  if (options.shared === true) return { ...await dialUnix(await startShared(options, signal), signal), isOurs: true }
  if (port === undefined) return start(options)
  const host = options.host ?? '127.0.0.1'
  const name = `the daemon at ${host}:${port}`
  if (!options.tls) return await dial(() => net.connect({ host, port, noDelay: true }), name, 'connect', signal)
  const secure = options.tls === true ? {} : options.tls
  return await dial(() => tls.connect({ host, port, ...secure }), name, 'secureConnect', signal)
}

/** The names of guards that a started daemon may lack. */
function guardArgs ({ optional, strict }: DaemonOptions): string[] {
  if (strict === true) return []
  return optional === undefined ? ['--profile', 'user'] : optional.flatMap((guard) => ['--optional', guard])
}

function checkShared ({ shared, socket, port, optional, daemonArgs }: DaemonOptions): void {
  if (shared !== true) return
  if (socket !== undefined || port !== undefined) throw new InvalidArgumentError('shared finds a daemon; with socket or port one is named')
  if (optional !== undefined || daemonArgs !== undefined) {
    throw new InvalidArgumentError('optional and daemonArgs are for a daemon of our own; a shared one may run already')
  }
}

/** Prints its socket once it listens there; if it cannot start, the error has its message. */
async function startShared (options: DaemonOptions, signal?: AbortSignal): Promise<string> {
  const program = findDaemon(options.daemon)
  return await new Promise((resolve, reject) => {
    execFile(program, ['--on-demand', '--profile', 'user'], { signal }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout.trimEnd())
      else reject(new ConnectionError(stderr.trim().replace(/^cloched: /, '') || error.message, { cause: error }))
    })
  })
}

function checkGuards ({ optional, strict, socket, port }: DaemonOptions): void {
  if (optional === undefined) return
  if (strict === true) throw new InvalidArgumentError('optional and strict are both given: a guard may be missing, or none may')
  if (socket !== undefined || port !== undefined) throw new InvalidArgumentError('optional is for a daemon that is started; with socket or port there is none')
}

async function dial (open: () => net.Socket, name: string, event: string, signal?: AbortSignal,
  explain = (error: NodeJS.ErrnoException): string => `${name} cannot be reached: ${error.message}`): Promise<Link> {
  signal?.throwIfAborted()
  const socket = open()
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => { socket.destroy(); reject(signal?.reason) }
    const onError = (error: Error): void => { reject(new ConnectionError(explain(error), { cause: error })) }
    signal?.addEventListener('abort', onAbort, { once: true })
    socket.once('error', onError)
    socket.once(event, () => {
      socket.off('error', onError)
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
  })
  const gone = new Promise<void>((resolve) => { socket.once('close', () => { resolve() }) })
  return { socket, name, pid: undefined, isOurs: false, explain: async (what) => `${name}: ${what}`, gone, kill: () => {} }
}

const STDERR_CHARS = 4096
const EXIT_WAIT_MS = 2000

function start (options: DaemonOptions): Link {
  const program = findDaemon(options.daemon)
  // A process group of its own: Ctrl-C is for the host to handle, and the daemon ends with the connection.
  const child = spawn(program, ['--connect-fd', '3', ...guardArgs(options), ...options.daemonArgs ?? []], { stdio: ['ignore', 'ignore', 'pipe', 'pipe'], detached: true })
  const name = `the private daemon ${program}`
  let said = ''
  let end: string | undefined
  child.stderr?.setEncoding('utf8').on('data', (text: string) => { said = (said + text).slice(-STDERR_CHARS) })
  const exited = new Promise<void>((resolve) => {
    child.once('error', (error) => { end ??= `could not be started: ${error.message}`; resolve() })
    child.once('exit', (code, by) => { end ??= by === null ? `exited with ${code}` : `was killed by ${by}`; resolve() })
  })
  const socket = child.stdio[3] as Duplex & { unref (): void }
  child.unref()
  ;(child.stderr as unknown as { unref (): void } | null)?.unref()
  const explain = async (what: string): Promise<string> => {
    await within(exited, EXIT_WAIT_MS)
    const last = said.trim() === '' ? '' : `; it said last: ${said.trim().split('\n').slice(-3).join(' | ')}`
    return `${name} (pid ${child.pid}) ${end ?? `is still there, but ${what}`}${last}`
  }
  return { socket, name, pid: child.pid, isOurs: true, explain, gone: exited, kill: () => { child.kill('SIGKILL') } }
}

export async function within (promise: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([promise, new Promise((resolve) => { timer = setTimeout(resolve, ms) })])
  clearTimeout(timer)
}
