// One daemon of our own serves all façades of a process that name no other. It ends a while after the last of them let go of it,
// or with the process.
import { Cloche, type ConnectOptions } from '../client.js'

const LINGER_MS = 5000

export interface Lease {
  client: Cloche
  /** The daemon may serve the next one: it ends a while later. */
  release (): void
  /** Nothing is left of a daemon of our own that nobody else uses. */
  end (): Promise<void>
}

interface Shared {
  connecting: Promise<Cloche>
  users: number
  timer: NodeJS.Timeout | undefined
}

const open = new Map<string, Shared>()

async function start (key: string, options: ConnectOptions): Promise<Lease> {
  const found = open.get(key)
  const shared = found ?? { connecting: Cloche.connect(options), users: 0, timer: undefined }
  if (found === undefined) open.set(key, shared)
  shared.users++
  clearTimeout(shared.timer)
  let client: Cloche
  try {
    client = await shared.connecting
  } catch (thrown) {
    forget(key, shared)
    throw thrown
  }
  if (!client.alive) {
    forget(key, shared)
    return await start(key, options)
  }
  let isLeft = false
  const isFirst = (): boolean => !isLeft && (isLeft = true)
  return {
    client,
    release: () => { if (isFirst()) leave(key, shared, client) },
    end: async () => { if (isFirst()) await end(key, shared, client) }
  }
}

async function end (key: string, shared: Shared, client: Cloche): Promise<void> {
  if (--shared.users > 0) return
  forget(key, shared)
  await client.close()
}

function forget (key: string, shared: Shared): void {
  if (open.get(key) === shared) open.delete(key)
}

function leave (key: string, shared: Shared, client: Cloche): void {
  if (--shared.users > 0) return
  shared.timer = setTimeout(() => {
    forget(key, shared)
    void client.close()
  }, LINGER_MS)
  shared.timer.unref()
}

export interface ClientOptions extends ConnectOptions {
  /** A client to use; it is left open. */
  client?: Cloche
}

/** The client of a façade: the one it was given, or one shared by all that ask for the same daemon. */
export async function lease ({ client, signal: _, ...options }: ClientOptions): Promise<Lease> {
  if (client !== undefined) return { client, release: () => {}, end: async () => {} }
  return await start(JSON.stringify([options, process.env.CLOCHE_DAEMON ?? '']), options)
}

/** The lease of one façade: taken when it is first wanted, and anew when its daemon died since. */
export class Leasing {
  private leasing: Promise<Lease> | undefined

  constructor (private readonly options: ClientOptions) {}

  async take (): Promise<Lease> {
    this.leasing ??= lease(this.options)
    const leasing = this.leasing
    try {
      const held = await leasing
      if (held.client.alive || this.options.client !== undefined) return held
      held.release()
    } catch (thrown) {
      this.forget(leasing)
      throw thrown
    }
    this.forget(leasing)
    return await this.take()
  }

  /** Waits for a lease that is still being taken, whatever becomes of it. */
  async release (): Promise<void> {
    const { leasing } = this
    this.leasing = undefined
    ;(await leasing)?.release()
  }

  private forget (leasing: Promise<Lease>): void {
    if (this.leasing === leasing) this.leasing = undefined
  }
}
