// Connections to a daemon: a running one, or one that this client starts, which lives as long as the connection.
import { execFile, spawn } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, statSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import { InvalidArgumentError } from '../generated/errors.js'
import { ConnectionError } from './error.js'

export interface DaemonOptions {
  /** Path of a daemon's unix socket. */
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

/** Usual directories; $PATH of ordinary users has no sbin. */
const INSTALLED = ['/usr/local/sbin', '/usr/sbin', '/usr/local/libexec/cloche', '/usr/libexec/cloche']

/** The program to start: $CLOCHE_DAEMON, or the first in PATH, the source tree's builds, sbin beside each bin of PATH, and INSTALLED. */
export function findDaemon (named?: string, environment: NodeJS.ProcessEnv = process.env): string {
  const given = named ?? environment.CLOCHE_DAEMON
  if (given !== undefined && given !== '') {
    if (isProgram(given)) return given
    throw new ConnectionError(`${named === undefined ? '$CLOCHE_DAEMON' : 'the option daemon'} names ${given}, which is no program`)
  }
  const onPath = (environment.PATH ?? '').split(path.delimiter).filter((folder) => path.isAbsolute(folder)) // never the current directory
  const beside = onPath.filter((folder) => path.basename(folder) === 'bin').map((folder) => path.join(folder, '../sbin'))
  const inFolder = (folder: string): string => path.join(folder, 'cloched')
  const found = [...onPath.map(inFolder), ...inTree(), ...beside.map(inFolder), ...INSTALLED.map(inFolder)].find(isProgram)
  if (found !== undefined) return found
  throw new ConnectionError(`there is no cloched on PATH, in sbin beside it, in a source tree, or in ${INSTALLED.join(', ')}: ` +
    'give the option daemon, socket or port, or set $CLOCHE_DAEMON. cloched is part of Cloche: install its package, or build it from ' +
    'the source tree with make (see "A daemon" in the README of this package)')
}

export async function reach (options: DaemonOptions, signal?: AbortSignal): Promise<Link> {
  const { socket, port } = options
  if (socket !== undefined && port !== undefined) throw new InvalidArgumentError('socket and port are both given: a client has one daemon')
  if ((socket !== undefined || port !== undefined) && options.daemon !== undefined) {
    throw new InvalidArgumentError('daemon names a program to start; with socket or port there is none')
  }
  checkGuards(options)
  checkShared(options)
  if (options.shared === true) {
    const path = await startShared(options, signal)
    return { ...await dial(() => net.connect(path), `the daemon at ${path}`, 'connect', signal), isOurs: true }
  }
  if (socket !== undefined) return await dial(() => net.connect(socket), `the daemon at ${socket}`, 'connect', signal)
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
      else reject(new ConnectionError(`no shared daemon: ${stderr.trim() === '' ? error.message : stderr.trim()}`, { cause: error }))
    })
  })
}

function checkGuards ({ optional, strict, socket, port }: DaemonOptions): void {
  if (optional === undefined) return
  if (strict === true) throw new InvalidArgumentError('optional and strict are both given: a guard may be missing, or none may')
  if (socket !== undefined || port !== undefined) throw new InvalidArgumentError('optional is for a daemon that is started; with socket or port there is none')
}

async function dial (open: () => net.Socket, name: string, event: string, signal?: AbortSignal): Promise<Link> {
  signal?.throwIfAborted()
  const socket = open()
  await new Promise<void>((resolve, reject) => {
    const onAbort = (): void => { socket.destroy(); reject(signal?.reason) }
    const onError = (error: Error): void => { reject(new ConnectionError(`${name} cannot be reached: ${error.message}`, { cause: error })) }
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
