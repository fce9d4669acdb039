// Access to the daemon: one lease for all sandboxes of one namespace.
import { Cloche } from '../client.js'
import { type BackupStore, backupStoreOf } from './backup-store.js'
import { InvalidArgumentError } from '../generated/errors.js'
import { checkKnown, type Names } from '../internal/known.js'
import { clientNames } from '../internal/options.js'
import { Leasing } from '../internal/shared.js'
import type { Namespace, NamespaceOptions, SandboxOptions } from './types.js'

const namespaceNames: Names<NamespaceOptions> = { ...clientNames, stateDir: true, previewHost: true, backups: true }
const sandboxNames: Names<SandboxOptions> = {
  sleepAfter: true, keepAlive: true, idleAction: true, lifetime: true, endAction: true, normalizeId: true, enableDefaultSession: true, labels: true, limits: true, env: true, network: true, image: true, imageSettings: true, writableRoot: true, root: true, mount: true, volumes: true, packages: true, snapshot: true, startup: true,
  containerTimeouts: true, transport: true
}

export const checkSandboxOptions = (options: SandboxOptions): void => { checkKnown('getSandbox: the third argument', options, sandboxNames) }

/** The first argument describes the daemon, the third one the sandbox. */
function checkNamespace (options: NamespaceOptions): void {
  const misplaced = Object.keys(options).find((name) => !Object.hasOwn(namespaceNames, name) && Object.hasOwn(sandboxNames, name))
  if (misplaced !== undefined) {
    throw new InvalidArgumentError(`getSandbox: ${misplaced} is an option of the sandbox, and belongs in the third argument: getSandbox(namespace, id, {${misplaced}})`)
  }
  checkKnown('getSandbox: the first argument', options, namespaceNames)
}

/** The daemon's HTTP address: for previews and terminals. */
export interface Web {
  socketPath?: string
  host?: string
  port?: number
  token?: string
  tls?: NamespaceOptions['tls']
}

export class Place {
  /** HOST[:PORT] of the daemon's previews, if known. */
  previewHost: string | undefined
  readonly web: Web | undefined
  readonly backups: BackupStore
  private readonly client: () => Promise<Cloche>

  constructor (namespace: Exclude<Namespace, null | undefined>) {
    if (namespace instanceof Cloche || isPromise(namespace)) {
      this.client = async () => await namespace
      this.backups = backupStoreOf(undefined)
      return
    }
    checkNamespace(namespace)
    const { stateDir, previewHost, backups, daemonArgs = [], ...options } = namespace
    const isRunning = options.client !== undefined || options.socket !== undefined || options.port !== undefined
    if (isRunning && stateDir !== undefined) {
      throw new InvalidArgumentError('stateDir is for a daemon of our own; one that runs already has its own (--state-dir)')
    }
    const args = stateDir === undefined ? daemonArgs : [...daemonArgs, '--state-dir', stateDir]
    const leasing = new Leasing({ ...options, ...args.length > 0 ? { daemonArgs: args } : {} })
    this.client = async () => (await leasing.take()).client
    this.previewHost = previewHost
    this.backups = backupStoreOf(backups)
    this.web = webOf(options)
  }

  async connect (): Promise<Cloche> {
    return await this.client()
  }
}

const isPromise = (value: object): value is PromiseLike<Cloche> => typeof (value as { then?: unknown }).then === 'function'

function webOf ({ socket, host, port, token, tls }: NamespaceOptions): Web | undefined {
  const given = { ...token === undefined ? {} : { token }, ...tls === undefined ? {} : { tls } }
  if (socket !== undefined) return { socketPath: socket, ...given }
  return port === undefined ? undefined : { host: host ?? '127.0.0.1', port, ...given }
}

const ours: NamespaceOptions = {}
const places = new WeakMap<object, Place>()

/** The same place for the same namespace: it has one daemon. */
export function placeOf (namespace: Namespace): Place {
  const key = namespace ?? ours
  const found = places.get(key) ?? new Place(key)
  places.set(key, found)
  return found
}
