import type { Answers } from '../generated/answers.js'
import type { SandboxCommitParams, SandboxCreateParams, SandboxForkParams, SandboxPauseParams, SandboxSnapshotParams, SandboxStopParams, SandboxUpdateParams } from '../generated/sandbox.js'
import type { OperationOptions } from '../internal/asking.js'
import type { LifeEvent, NetworkDecision, NetworkPolicy, SandboxInfo, SnapshotInfo } from './answers.js'
import { Box } from './core.js'
import { SandboxError, SecurityError } from './errors.js'
import { checkSandboxOptions, type Place, placeOf } from './namespace.js'
import type { SandboxHandle } from './native.js'
import { label, previewUrl, suffixOf } from './preview-host.js'
import { optionsOf } from './options.js'
import { ExecutionSession } from './session.js'
import { now, unsetting } from './text.js'
import { fail, invalid, translate } from './translate.js'
import type {
  Abortable, Environment, ExposedPortInfo, ExposePortOptions, ExposePortResult, Namespace, SandboxOptions, SessionDeleteResult, SessionOptions
} from './types.js'

const DEFAULT_SESSION = 'default'
const IDLE_MS = 1_200_000
const RESERVED = ['www', 'api', 'admin', 'root', 'system', 'cloudflare', 'workers']
const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

function checkId (id: unknown): string {
  const refuse = (code: string, why: string): never => { throw fail(SecurityError, code, 400, `the sandbox id ${JSON.stringify(id)} ${why}`, {}) }
  if (typeof id !== 'string' || id.length < 1 || id.length > 63) return refuse('INVALID_SANDBOX_ID_LENGTH', 'has not 1 to 63 characters')
  if (id.startsWith('-') || id.endsWith('-')) return refuse('INVALID_SANDBOX_ID_HYPHENS', 'begins or ends with a hyphen')
  if (!/^[A-Za-z0-9-]+$/.test(id)) return refuse('INVALID_SANDBOX_ID', 'has other characters than letters, digits and hyphens')
  if (RESERVED.includes(id.toLowerCase())) return refuse('RESERVED_SANDBOX_ID', 'is a reserved word')
  return id
}

function durationMs (duration: string | number, option = 'sleepAfter'): number {
  if (typeof duration === 'number' && Number.isFinite(duration) && duration >= 0) return Math.round(duration * 1000)
  const parts = /^(\d+)(ms|s|m|h|d)?$/.exec(String(duration))
  if (parts === null) throw invalid(`${option} is ${JSON.stringify(duration)}; seconds, or "30s", "10m", "1h" are expected`)
  return Number(parts[1]) * (UNITS[parts[2] ?? 's'] ?? 1000)
}

function wantedOf ({ sleepAfter, keepAlive, idleAction, lifetime, endAction, labels, limits, env, network, image, imageSettings, writableRoot, root, mount, volumes, packages, snapshot, startup }: SandboxOptions): SandboxCreateParams {
  const idleMs = keepAlive === true ? 0 : sleepAfter === undefined ? undefined : durationMs(sleepAfter)
  const lifetimeMs = lifetime === undefined ? undefined : durationMs(lifetime, 'lifetime')
  const wanted = { idleMs, idleAction, lifetimeMs, endAction, labels, limits, env, network, image, imageSettings: imageSettings === undefined ? undefined : { ...imageSettings }, writableRoot, root, mount, volumes, packages, snapshot, startup: startup === undefined ? undefined : { ...startup } }
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined))
}

/** A sandbox; its own methods run in the session `default`. */
export class Sandbox extends ExecutionSession {
  private readonly env: Environment = {}
  private sleepMs: number

  /** @internal */
  constructor (box: Box, options: SandboxOptions) {
    super(box, DEFAULT_SESSION, options.enableDefaultSession === false)
    this.sleepMs = options.sleepAfter === undefined ? IDLE_MS : durationMs(options.sleepAfter)
  }

  get name (): string {
    return this.box.name
  }

  /** @internal */
  get place (): Place {
    return this.box.place
  }

  /** The operations of spec/sandbox.md, one to one, for features that are missing here. */
  async native (): Promise<SandboxHandle> {
    return await this.ask('sandbox.create', {}, async (box) => box)
  }

  // -- sessions

  /** Applies to sessions and contexts made later, too. */
  override async setEnvVars (env: Environment, options: Abortable = {}): Promise<void> {
    await super.setEnvVars(env, options)
    Object.assign(this.env, env)
  }

  protected override environment (): Environment {
    return this.env
  }

  async createSession (options: SessionOptions = {}): Promise<ExecutionSession> {
    const { id, name, env, cwd, isolation, commandTimeoutMs, signal } = optionsOf('createSession', options)
    const all = Object.entries(unsetting({ ...this.env, ...env })).filter((entry): entry is [string, string] => entry[1] !== null)
    const params = { session: id ?? name, cwd, isolation, timeoutMs: commandTimeoutMs, env: all.length === 0 ? undefined : Object.fromEntries(all) }
    const { session } = await this.ask('session.create', {}, async (box) => await box.session.create(params, { signal }))
    return this.sessionOf(session)
  }

  private sessionOf (session: string): ExecutionSession {
    return new ExecutionSession(this.box, session, false)
  }

  /** A session by its name; created if missing. */
  async getSession (id: string, options: Abortable = {}): Promise<ExecutionSession> {
    return await this.createSession({ id, ...options })
  }

  async deleteSession (id: string, options: Abortable = {}): Promise<SessionDeleteResult> {
    await this.ask('session.delete', { sessionId: id }, async (box) => await box.session.delete({ session: id }, options))
    return { success: true, sessionId: id, timestamp: now() }
  }

  // -- methods of the package that have no counterpart here

  /** Refused: there is no FUSE client in a sandbox. */
  async mountBucket (): Promise<never> {
    throw notHere('mountBucket', 'copy files with uploadTree and downloadTree, or let the sandbox fetch them (its network: sandbox.update)')
  }

  /** Refused: the URL of a preview serves this purpose. */
  async wsConnect (): Promise<never> {
    throw notHere('wsConnect', 'connect to the URL of exposePort, which passes WebSockets on')
  }

  /** Refused: only previews lead in. */
  get tunnels (): never {
    throw notHere('tunnels', 'exposePort gives a URL')
  }

  // -- ports

  /**
   * Every holder of the URL reaches the port: at the daemon's preview host, or at `hostname`, whose
   * requests go through `proxyToSandbox`.
   */
  async exposePort (port: number, options: ExposePortOptions = {}): Promise<ExposePortResult> {
    const { hostname, name, token, signal } = optionsOf('exposePort', options)
    checkPort(port)
    if (/[A-Z]/.test(this.name)) throw fail(SecurityError, 'INVALID_SANDBOX_ID', 400, capitalsRefused(this.name), { port })
    const before = (await this.ask('port.list', { port }, async (box) => await box.port.list({ signal }))).exposed.find((found) => found.port === port)
    const exposed = await this.ask('port.expose', { port }, async (box) => await box.port.expose({ port, name, token }, { signal }))
    try {
      this.learnHost(exposed.url)
      const url = this.urlOf(exposed, hostname)
      if (exposed.url === undefined) throw notServed(this.name, exposed, url)
      return { url, port, token: exposed.token, ...name === undefined ? {} : { name } }
    } catch (thrown) {
      await this.restorePort(port, before)
      throw thrown
    }
  }

  /** If the URL of a port cannot be made, the port is restored: not exposed, or exposed with its old token and name. */
  private async restorePort (port: number, before: { token: string, name?: string } | undefined): Promise<void> {
    if (before === undefined) return await this.unexposePort(port)
    const { token, name } = before
    await this.ask('port.expose', { port }, async (box) => await box.port.expose({ port, name, token }))
  }

  private learnHost (url: string | undefined): void {
    if (url !== undefined) this.box.place.previewHost ??= suffixOf(url)
  }

  private urlOf ({ port, token, url }: { port: number, token: string, url?: string }, hostname: string | undefined): string {
    if (hostname !== undefined) return previewUrl(port, this.name, token, hostname)
    if (url !== undefined) return url
    throw fail(SecurityError, 'CUSTOM_DOMAIN_REQUIRED', 400, 'the daemon has no preview host (--preview-host), and no hostname was given', { port })
  }

  /** Does nothing for a port that is not exposed. */
  async unexposePort (port: number, options: Abortable = {}): Promise<void> {
    checkPort(port)
    await this.ask('port.unexpose', { port }, async (box) => await box.port.unexpose({ port }, options))
  }

  async getExposedPorts (hostname?: string, options: Abortable = {}): Promise<ExposedPortInfo[]> {
    const { exposed } = await this.ask('port.list', {}, async (box) => await box.port.list(options))
    for (const { url } of exposed) this.learnHost(url)
    return exposed.map((found) => ({
      url: this.urlOf(found, hostname),
      port: found.port,
      ...found.name === undefined ? {} : { name: found.name },
      exposedAt: found.exposedAt,
      status: found.open ? 'active' : 'inactive'
    }))
  }

  async isPortExposed (port: number, options: Abortable = {}): Promise<boolean> {
    const { exposed } = await this.ask('port.list', { port }, async (box) => await box.port.list(options))
    return exposed.some((found) => found.port === port)
  }

  async validatePortToken (port: number, token: string, options: Abortable = {}): Promise<boolean> {
    const { exposed } = await this.ask('port.list', { port }, async (box) => await box.port.list(options))
    return exposed.some((found) => found.port === port && found.token === token)
  }

  // -- life

  /** true: never stopped for being idle. */
  async setKeepAlive (keepAlive: boolean): Promise<void> {
    await this.update({ idleMs: keepAlive ? 0 : this.sleepMs })
  }

  async setSleepAfter (sleepAfter: string | number): Promise<void> {
    this.sleepMs = durationMs(sleepAfter)
    await this.update({ idleMs: this.sleepMs })
  }

  /** Its time from now on, used or not, which replaces the earlier end; 0: no end. */
  async setLifetime (lifetime: string | number, endAction?: 'stop' | 'pause' | 'delete'): Promise<void> {
    await this.update({ lifetimeMs: durationMs(lifetime, 'lifetime'), ...(endAction === undefined ? {} : { endAction }) })
  }

  async setLabels (labels: Record<string, string>): Promise<void> {
    await this.update({ labels })
  }

  /** Permitted connections from now on; open connections that are no longer permitted are cut. */
  async setNetwork (network: NetworkPolicy): Promise<void> {
    await this.update({ network })
  }

  /** Permits further connections, beside those that are permitted. */
  async addNetwork (addNetwork: Omit<NetworkPolicy, 'dns'>): Promise<void> {
    await this.update({ addNetwork })
  }

  private async update (change: SandboxUpdateParams): Promise<void> {
    try {
      await this.box.update(change)
    } catch (thrown) {
      throw translate('sandbox.update', thrown)
    }
  }

  /** State, limits, usage; a stopped sandbox stays stopped. */
  async info (options: OperationOptions = {}): Promise<SandboxInfo> {
    try {
      return await this.box.info(options)
    } catch (thrown) {
      throw translate('sandbox.get', thrown)
    }
  }

  /** Its attempted connections, and the decisions about them. */
  async networkLog (after?: number, options: Abortable = {}): Promise<{ decisions: NetworkDecision[], next: number }> {
    return await this.ask('network.log', {}, async (box) => await box.network.log({ after }, options))
  }

  /** Ports, processes, connections and states, as they come. */
  async events (options: OperationOptions = {}): Promise<AsyncIterable<LifeEvent>> {
    return await this.ask('sandbox.events', {}, async (box) => box.events(options)[Symbol.asyncIterator]())
  }

  /** Saves its files; processes keep running. */
  async save (options: OperationOptions = {}): Promise<void> {
    await this.ask('sandbox.save', {}, async (box) => await box.save(options))
  }

  /** Makes an image of a sandbox with writableRoot: its image with the changes outside of /workspace, /tmp, /home, /root and /run. */
  async commit ({ image, config, comment, key, fileTime, ...options }: OperationOptions & SandboxCommitParams = {}): Promise<Answers['sandbox.commit']> {
    return await this.ask('sandbox.commit', {}, async (box) => await box.commit({ image, config, comment, key, fileTime }, options))
  }

  /** Freezes all its processes, which keep their memory; its files are saved first, unless save is false. The next use lets them go on. With memory: false only its files are kept. */
  async pause ({ save, memory, ...options }: OperationOptions & SandboxPauseParams = {}): Promise<void> {
    await this.unmade('sandbox.pause', async (box) => await box.pause({ save, memory }, options))
  }

  /** Lets it go on if it is paused, or starts it from its saved files; the answer tells which. */
  async resume (options: OperationOptions = {}): Promise<Answers['sandbox.resume']['resumed']> {
    return (await this.unmade('sandbox.resume', async (box) => await box.resume(options))).resumed
  }

  /** New sandboxes with its definition, its files as they are now and its forkable contexts; it goes on. `omitted` has what they do not have. */
  async fork ({ count, names, ...options }: OperationOptions & SandboxForkParams = {}): Promise<Answers['sandbox.fork']> {
    return await this.ask('sandbox.fork', {}, async (box) => await box.fork({ count, names }, options))
  }

  /** Keeps its files as they are now and its definition under a name: `snapshot` of a new sandbox begins with them. */
  async snapshot ({ snapshot, labels, ...options }: OperationOptions & SandboxSnapshotParams = {}): Promise<SnapshotInfo> {
    return await this.ask('sandbox.snapshot', {}, async (box) => await box.snapshot({ snapshot, labels }, options))
  }

  /** Saves its files and ends all processes; the next use starts it again. sync: first write the changes in its mounts to the host. */
  async stop ({ sync, ...options }: OperationOptions & SandboxStopParams = {}): Promise<void> {
    await this.unmade('sandbox.stop', async (box) => await box.stop({ sync }, options))
  }

  /** Ends and deletes it with all its data; the next use creates a new one. */
  async destroy (options: OperationOptions = {}): Promise<void> {
    await this.unmade('sandbox.delete', async (box) => await box.delete(options))
    this.box.forget()
  }

  // Operations that end it do not create it first.
  private async unmade<T> (operation: string, act: (box: SandboxHandle) => Promise<T>): Promise<T> {
    try {
      return await act(await this.box.handle())
    } catch (thrown) {
      throw translate(operation, thrown)
    }
  }
}

const notHere = (name: string, advice: string): Error =>
  fail(SandboxError, 'NOT_IMPLEMENTED', 501, `${name} is not there in Cloche: ${advice}`, { operation: name })

const capitalsRefused = (name: string): string =>
  `ports of ${name} cannot be exposed, because names of hosts have no capital letters: getSandbox(…, {normalizeId: true}) makes the id ${name.toLowerCase()}`

const PORT_MAX = 65535
const HOST_LABEL_MAX = 63

/** The daemon has no URL of its own for it: requests that `proxyToSandbox` forwards would fail there too. */
function notServed (sandbox: string, { port, token }: { port: number, token: string }, url: string): Error {
  const name = label({ port, sandbox, token })
  const isTooLong = label({ port: PORT_MAX, sandbox, token }).length > HOST_LABEL_MAX // the daemon allows for the longest port
  const why = isTooLong
    ? `${name} is too long for the name of a host, which has ${HOST_LABEL_MAX} characters at most between two dots: choose a shorter sandbox id or token`
    : 'the daemon serves no previews: start cloched with --preview-host HOST'
  return fail(SandboxError, 'PREVIEW_HOST_REQUIRED', 501, `exposePort: ${url} would lead nowhere, because ${why}`, { port })
}

function checkPort (port: number): void {
  if (Number.isInteger(port) && port >= 1024 && port <= PORT_MAX) return
  throw fail(SecurityError, 'INVALID_PORT', 400, `port is ${String(port)}; a whole number from 1024 to 65535 is expected`, { port })
}

/** The sandbox of that id; it is created, or restarted, on its first request. */
export function getSandbox (namespace: Namespace, id: string, options: SandboxOptions = {}): Sandbox {
  checkSandboxOptions(options)
  const name = checkId(options.normalizeId === true && typeof id === 'string' ? id.toLowerCase() : id)
  return new Sandbox(new Box(placeOf(namespace), name, wantedOf(options)), options)
}
