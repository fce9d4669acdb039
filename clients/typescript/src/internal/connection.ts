// JSON-RPC 2.0 over frames, with requests in both directions. One connection: requests sent,
// requests received, and its end.
import { refusalIn } from './daemon.js'
import type { Duplex } from 'node:stream'
import { errorClasses, InternalError, ProtocolError, type ErrorCode } from '../generated/errors.js'
import { decodeFailure, Incoming } from './decode.js'
import { Attachments } from './encode.js'
import { type ClocheError, ConnectionError, RequestTimeoutError } from './error.js'
import { FrameReader, frameParts, type Frame } from './frames.js'
import type { Json } from './values.js'

/** Above this many unsent bytes new requests wait until the daemon has read some. */
const CONGESTED_BYTES = 16 * 2 ** 20
const PREAMBLE = 'CLOCHE1\n'

export interface Outgoing {
  body: Json
  attachments: Attachments
}

/** A response or a request, with the attachments of its values. */
export interface Received {
  body: unknown
  incoming: Incoming
}

export interface Peer {
  /** A request from the daemon; an exception becomes its error response. */
  asked (method: string, params: Received): Promise<Outgoing>
  told (method: string, params: Received): void
}

/** An error of a host function, in the daemon's form. */
export class Thrown extends Error {
  constructor (message: string, readonly payload: { [key: string]: Json }, readonly attachments: Attachments) {
    super(message)
  }
}

export interface Waiting {
  signal?: AbortSignal | undefined
  timeoutMs?: number | undefined
}

interface Pending {
  method: string
  resolve: (received: Received) => void
  reject: (error: Error) => void
}

interface Message { id?: unknown, method?: unknown, params?: unknown, result?: unknown, error?: unknown }
interface Socketlike extends Duplex { ref? (): unknown, unref? (): unknown }

const decoder = new TextDecoder('utf-8', { fatal: true })

function remoteError ({ error, incoming }: { error: unknown, incoming: Incoming }, method: string): ClocheError {
  const { message, data } = Object(error) as { message?: unknown, data?: unknown }
  const { name, failure, ...rest } = Object(data) as Record<string, unknown>
  const text = `${method}: ${typeof message === 'string' ? message : 'the daemon gave no reason'}`
  const Known = typeof name === 'string' && Object.hasOwn(errorClasses, name) ? errorClasses[name as ErrorCode] : undefined
  const decoded = incoming.decode(rest) as Record<string, unknown>
  if (failure !== undefined) decoded.failure = decodeFailure(Object(failure) as Record<string, unknown>, incoming)
  if (Known === undefined) return new InternalError(`${text} (unknown error ${JSON.stringify(name)})`, { data: decoded })
  return new Known(text, { data: decoded })
}

export class Connection {
  private readonly reader = new FrameReader()
  private readonly pending = new Map<number, Pending>()
  private readonly drained: Array<() => void> = []
  private lastId = 0
  private answering = 0
  private isHeard = false
  private isRefused = false
  private reason: string | undefined
  /** Resolves to the reason after the connection has ended. */
  readonly ended: Promise<string>
  private tellEnd: (reason: string) => void = () => {}

  /**
   * explain: returns why a broken connection broke, called once; for a private daemon, its exit status.
   * refusal: returns why the daemon refuses connections, for one that broke before anything came.
   */
  constructor (private readonly socket: Socketlike, private readonly peer: Peer, private readonly explain: (what: string) => Promise<string>,
    private readonly refusal?: () => Promise<string | undefined>) {
    this.ended = new Promise((resolve) => { this.tellEnd = resolve })
    socket.on('data', (chunk: Uint8Array) => { this.receive(chunk) })
    socket.on('drain', () => { this.flush() })
    socket.on('error', (error) => { void this.broke(error.message) })
    socket.on('close', () => { void this.broke(this.reader.isInside ? 'the connection ended within a message' : 'the connection ended') })
    socket.write(PREAMBLE)
    this.settleRef()
  }

  get isOpen (): boolean {
    return this.reason === undefined
  }

  /** Values are encoded at once unless this holds: later changes by the caller are not sent. */
  get isCongested (): boolean {
    return this.socket.writableLength > CONGESTED_BYTES
  }

  get open (): number {
    return this.pending.size
  }

  nextId (): number {
    return ++this.lastId
  }

  // -- sending requests

  /** make is called when there is room to send, and not at all if the caller gave up before. */
  async request (id: number, method: string, make: () => Outgoing, { signal, timeoutMs }: Waiting = {}): Promise<Received> {
    signal?.throwIfAborted()
    if (this.isCongested) await this.room(signal)
    if (this.reason !== undefined) throw this.gone(method, id)
    const { body, attachments } = make()
    const parts = this.partsOf({ jsonrpc: '2.0', id, method, params: body }, attachments)
    return await new Promise<Received>((resolve, reject) => {
      const release = this.arm(id, method, { signal, timeoutMs }, reject)
      this.pending.set(id, {
        method,
        resolve: (received) => { release(); resolve(received) },
        reject: (error) => { release(); reject(error) }
      })
      this.write(parts)
    })
  }

  private arm (id: number, method: string, { signal, timeoutMs }: Waiting, reject: (reason: unknown) => void): () => void {
    const giveUp = (reason: unknown): void => {
      this.pending.delete(id)
      release()
      this.settleRef()
      reject(reason)
    }
    const onAbort = (): void => { giveUp(signal?.reason) }
    signal?.addEventListener('abort', onAbort, { once: true })
    const late = (): void => { giveUp(new RequestTimeoutError(`${method}: no answer within ${timeoutMs} ms`)) }
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs)
    const release = (): void => {
      signal?.removeEventListener('abort', onAbort)
      clearTimeout(timer)
    }
    return release
  }

  /** Waits for room to send, or until the caller gives up. */
  async room (signal: AbortSignal | undefined): Promise<void> {
    while (this.reason === undefined && this.isCongested) {
      await new Promise<void>((resolve) => {
        this.drained.push(resolve)
        signal?.addEventListener('abort', () => { resolve() }, { once: true })
      })
      signal?.throwIfAborted()
    }
  }

  private flush (): void {
    for (const resume of this.drained.splice(0)) resume()
  }

  private partsOf (message: { [key: string]: Json }, attachments: Attachments): Uint8Array[] {
    return frameParts(Buffer.from(JSON.stringify(message)), attachments.parts)
  }

  private write (parts: Uint8Array[]): void {
    this.socket.cork()
    for (const part of parts) this.socket.write(part)
    this.socket.uncork()
    this.settleRef()
  }

  // An idle client does not keep Node alive.
  private settleRef (): void {
    if (this.pending.size + this.answering > 0) this.socket.ref?.()
    else this.socket.unref?.()
  }

  // -- receiving

  private receive (chunk: Uint8Array): void {
    const refusal = this.isHeard ? undefined : refusalIn(chunk)
    this.isHeard = true
    if (refusal !== undefined) {
      this.isRefused = true
      void this.broke(refusal)
      return
    }
    try {
      for (const frame of this.reader.push(chunk)) {
        if (this.reason !== undefined) return
        this.dispatch(frame)
      }
    } catch (thrown) {
      void this.broke(`the daemon broke the protocol: ${(thrown as Error).message}`)
    }
  }

  private dispatch (frame: Frame): void {
    let message: Message
    try {
      message = JSON.parse(decoder.decode(frame.json)) as Message
    } catch (thrown) {
      throw new ProtocolError(`a message is not JSON: ${(thrown as Error).message}`)
    }
    if (message === null || typeof message !== 'object' || Array.isArray(message)) throw new ProtocolError('a message is no object')
    const incoming = new Incoming(frame.attachments)
    if (typeof message.method !== 'string') this.answered(message, incoming)
    else if (message.id === undefined) this.peer.told(message.method, { body: message.params, incoming })
    else void this.answer(message.id as number | string, message.method, { body: message.params, incoming })
  }

  private answered (message: Message, incoming: Incoming): void {
    const found = this.pending.get(message.id as number)
    // The request of this response was given up.
    if (found === undefined) return
    this.pending.delete(message.id as number)
    this.settleRef()
    if (message.error === undefined) return found.resolve({ body: message.result, incoming })
    try {
      found.reject(remoteError({ error: message.error, incoming }, found.method))
    } catch (thrown) {
      found.reject(thrown as Error)
    }
  }

  private async answer (id: number | string, method: string, params: Received): Promise<void> {
    this.answering++
    this.settleRef()
    let parts: Uint8Array[]
    try {
      const { body, attachments } = await this.peer.asked(method, params)
      parts = this.partsOf({ jsonrpc: '2.0', id, result: body }, attachments)
    } catch (thrown) {
      parts = this.failure(id, thrown)
    }
    this.answering--
    if (this.reason === undefined) this.write(parts)
    else this.settleRef()
  }

  private failure (id: number | string, thrown: unknown): Uint8Array[] {
    const isOurs = thrown instanceof Thrown
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    const data = isOurs ? thrown.payload : { name: thrown instanceof Error ? thrown.name : 'Error', message }
    return this.partsOf({ jsonrpc: '2.0', id, error: { code: -32000, message, data } }, isOurs ? thrown.attachments : new Attachments())
  }

  // -- the end

  private gone (method: string, id: number): ConnectionError {
    if (this.isRefused && this.reason !== undefined) return new ConnectionError(this.reason)
    return new ConnectionError(`${method} (request ${id}) has no answer: ${this.reason ?? 'the connection ended'}`)
  }

  private async broke (what: string): Promise<void> {
    if (this.reason !== undefined) return
    this.reason = what
    this.socket.destroy()
    // The error of pending requests says how the daemon ended, which is known a moment after the connection broke.
    const refusal = this.isHeard ? undefined : await this.refusal?.()
    if (refusal !== undefined) {
      this.isRefused = true
      this.reason = refusal
    }
    if (!this.isRefused) this.reason = await this.explain(what)
    this.finish()
  }

  private finish (): void {
    for (const [id, { method, reject }] of this.pending) reject(this.gone(method, id))
    this.pending.clear()
    this.flush()
    this.tellEnd(this.reason ?? '')
  }

  close (reason: string): void {
    if (this.reason !== undefined) return
    this.reason = reason
    // Half-closed first: pending output is read before the daemon sees the end.
    this.socket.end()
    this.finish()
    const timer = setTimeout(() => { this.socket.destroy() }, 1000)
    timer.unref()
    this.socket.once('close', () => { clearTimeout(timer) })
    this.socket.resume()
  }
}
