// One request that may tell events before it is answered: a promise of the answer, and an iterable of the events.
import type { Received, Waiting } from './connection.js'
import type { Attachments } from './encode.js'
import type { Json } from './values.js'

/** From here on the daemon is asked to hold the request's events, */
const HIGH_BYTES = 2 ** 20
/** until so few wait for their reader. */
const LOW_BYTES = 2 ** 18
/** The weight of an event beside its bytes. */
const EVENT_BYTES = 200

/** `signal` and `timeoutMs` end what was asked, in the sandbox too. */
export interface OperationOptions extends Waiting {
  /** Hears every event as it comes, whoever reads them. @internal */
  tap?: ((event: string, about: unknown) => void) | undefined
}

export interface SandboxEvent<N extends string = string, A = unknown> {
  event: N
  about: A
}

type Make = (attachments: Attachments) => Json

/** The parts of a connection that a request needs. @internal */
export interface Line {
  request (id: number, make: Make): Promise<Received>
  /** Events of the request go there, until it is over. */
  listen (id: number, hear: (event: string, about: unknown, received: Received) => void): void
  forget (id: number): void
  cancel (id: number): void
  hold (id: number, isHeld: boolean): void
}

interface Told<E> { event: E, size: number }

/**
 * Awaited, it is the answer; iterated, the events, after which awaiting it costs nothing. Who only awaits hears no events. Events that wait for
 * their reader are held back at their source; who leaves the loop early cancels the request.
 */
export class Asking<T, E = never> implements Promise<T>, AsyncIterable<E> {
  readonly [Symbol.toStringTag] = 'Asking'
  private readonly waiting: Array<Told<E>> = []
  private readonly answer: Promise<T>
  private waitingBytes = 0
  private isHeld = false
  private isRead = false
  private isUnwanted = false
  private isCancelled = false
  private isOver = false
  private wake: () => void = () => {}

  /** @internal */
  constructor (private readonly line: Line, private readonly id: number, make: Make, decode: (received: Received) => T) {
    line.listen(id, (event, about, received) => { this.hear({ event, about } as E, received.incoming.attachments.length + EVENT_BYTES) })
    this.answer = line.request(id, make).then(decode).finally(() => { this.end() })
    // A caller who only iterates gets the error there.
    this.answer.catch(() => {})
  }

  private hear (event: E, size: number): void {
    if (this.isOver || this.isCancelled || (this.isUnwanted && !this.isRead)) return
    this.waiting.push({ event, size })
    this.weigh(size)
    this.wake()
  }

  private weigh (bytes: number): void {
    this.waitingBytes += bytes
    const isHeld = this.isHeld ? this.waitingBytes > LOW_BYTES : this.waitingBytes > HIGH_BYTES
    if (isHeld === this.isHeld || this.isOver) return
    this.isHeld = isHeld
    this.line.hold(this.id, isHeld)
  }

  private end (): void {
    this.isOver = true
    this.line.forget(this.id)
    this.wake()
  }

  private drop (): void {
    this.waiting.length = 0
    this.weigh(-this.waitingBytes)
  }

  /** Ends what was asked; who iterates comes to the end at once, who awaits when it has ended. */
  cancel (): void {
    if (!this.isOver) this.line.cancel(this.id)
    this.isCancelled = true
    this.isUnwanted = true
    this.drop()
    this.wake()
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator<E, void, undefined> {
    this.isRead = true
    try {
      for (;;) {
        const told = this.waiting.shift()
        if (told !== undefined) {
          this.weigh(-told.size)
          yield told.event
        } else if (this.isCancelled) return
        else if (this.isOver) return void await this.answer
        else await new Promise<void>((resolve) => { this.wake = resolve })
      }
    } finally {
      this.isRead = false
      if (!this.isOver && !this.isCancelled) this.cancel()
    }
  }

  async then<R = T, F = never> (
    fulfilled?: ((value: T) => R | PromiseLike<R>) | null, rejected?: ((reason: unknown) => F | PromiseLike<F>) | null
  ): Promise<R | F> {
    if (!this.isRead) {
      this.isUnwanted = true
      this.drop()
    }
    return await this.answer.then(fulfilled, rejected)
  }

  async catch<F = never> (rejected?: ((reason: unknown) => F | PromiseLike<F>) | null): Promise<T | F> {
    return await this.then(undefined, rejected)
  }

  async finally (settled?: (() => void) | null): Promise<T> {
    return await this.then().finally(settled)
  }
}
