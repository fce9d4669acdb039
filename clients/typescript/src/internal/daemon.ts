// Ways to a daemon: one that runs already, or one of our own, which lives as long as the connection.
import { spawn } from 'node:child_process'
import { accessSync, constants, readdirSync, statSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { fileURLToPath } from 'node:url'
import { InvalidArgumentError } from '../generated/errors.js'
import { ConnectionError } from './error.js'

export interface DaemonOptions {
  /** Path of a unix socket a daemon listens on. */
  socket?: string | undefined
  /** Where a daemon listens on TCP; needs `token`. */
  host?: string | undefined
  port?: number | undefined
  token?: string | undefined
  /** TLS for TCP: true, or what node:tls takes. */
  tls?: boolean | tls.ConnectionOptions | undefined
  /** The cloched that is started when no socket or port is named. Else $CLOCHE_DAEMON, one on PATH, or the source tree's. */
  daemon?: string | undefined
  /** More arguments for it. */
  daemonArgs?: readonly string[] | undefined
}

export interface Link {
  socket: Duplex
  /** How it is called in errors. */
  name: string
  pid: number | undefined
  explain (what: string): Promise<string>
  /** Resolves when nothing of it is left. */
  gone: Promise<void>
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
  try {
    return readdirSync(root).filter((name) => /^build/.test(name)).sort().map((name) => path.join(root, name, 'cloched'))
  } catch {
    return []
  }
}

/** The program to start; an error names every place that was looked at. */
export function findDaemon (named?: string, environment: NodeJS.ProcessEnv = process.env): string {
  const given = named ?? environment.CLOCHE_DAEMON
  if (given !== undefined && given !== '') {
    if (isProgram(given)) return given
    throw new ConnectionError(`${named === undefined ? '$CLOCHE_DAEMON' : 'the option daemon'} names ${given}, which is no program`)
  }
  const onPath = (environment.PATH ?? '').split(path.delimiter).filter(Boolean).map((folder) => path.join(folder, 'cloched'))
  const found = [...onPath, ...inTree()].find(isProgram)
  if (found !== undefined) return found
  throw new ConnectionError('no cloched: give the option daemon, socket or port, set $CLOCHE_DAEMON, or put it on PATH')
}

export async function reach (options: DaemonOptions, signal?: AbortSignal): Promise<Link> {
  const { socket, port } = options
  if (socket !== undefined && port !== undefined) throw new InvalidArgumentError('socket and port are both given: a client has one daemon')
  if ((socket !== undefined || port !== undefined) && options.daemon !== undefined) {
    throw new InvalidArgumentError('daemon names a program to start; with socket or port there is none')
  }
  if (socket !== undefined) return await dial(() => net.connect(socket), `the daemon at ${socket}`, 'connect', signal)
  if (port === undefined) return start(options)
  const host = options.host ?? '127.0.0.1'
  const name = `the daemon at ${host}:${port}`
  if (!options.tls) return await dial(() => net.connect({ host, port, noDelay: true }), name, 'connect', signal)
  const secure = options.tls === true ? {} : options.tls
  return await dial(() => tls.connect({ host, port, ...secure }), name, 'secureConnect', signal)
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
  return { socket, name, pid: undefined, explain: async (what) => `${name}: ${what}`, gone }
}

const STDERR_CHARS = 4096
const EXIT_WAIT_MS = 2000

function start (options: DaemonOptions): Link {
  const program = findDaemon(options.daemon)
  // A group of its own: Ctrl-C is the host's to handle, and the daemon ends with the connection.
  const child = spawn(program, ['--connect-fd', '3', ...options.daemonArgs ?? []], { stdio: ['ignore', 'ignore', 'pipe', 'pipe'], detached: true })
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
  return { socket, name, pid: child.pid, explain, gone: exited }
}

export async function within (promise: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await Promise.race([promise, new Promise((resolve) => { timer = setTimeout(resolve, ms) })])
  clearTimeout(timer)
}
