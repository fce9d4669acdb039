// One started daemon serves all façades of a process that name no other. It ends a while after the
// last of them released it, or with the process.
import { Cloche, type ConnectOptions } from '../client.js'

const LINGER_MS = 5000

export interface Lease {
  client: Cloche
  /** The daemon may serve the next user: it ends a while later. */
  release (): void
  /** Resolves after a started daemon without other users is gone. */
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
  /** A client to use; it stays open. */
  client?: Cloche
}

/** The client of a façade: a given one, or one shared by all with the same options. */
export async function lease ({ client, signal: _, ...options }: ClientOptions): Promise<Lease> {
  if (client !== undefined) return { client, release: () => {}, end: async () => {} }
  return await start(JSON.stringify([options, process.env.CLOCHE_DAEMON ?? '', process.env.CLOCHE_SOCKET ?? '']), options)
}

/** The lease of one façade: taken on first use, and again if its daemon has died since. */
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

  /** Waits for a lease that is still being taken, even if it fails. */
  async release (): Promise<void> {
    const { leasing } = this
    this.leasing = undefined
    ;(await leasing)?.release()
  }

  private forget (leasing: Promise<Lease>): void {
    if (this.leasing === leasing) this.leasing = undefined
  }
}
