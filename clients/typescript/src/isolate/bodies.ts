// Unfinished bodies come piece by piece, by calls of the host (spec/agent.md, Bodies). The code
// waits while they are not read.
import type { Outgoing } from '../internal/connection.js'
import { addFields, makeError } from '../internal/values.js'
import { encodeAnswer } from '../internal/host.js'
import type { Armed } from './limits.js'

/** Unread bytes of one body on this side; the code produces no more until some are read. */
const BUFFERED_BYTES = 256 * 1024
/** Open bodies of one run. */
const OPEN_MAX = 64

type Call = (target: string[], args: unknown[], kwargs: Record<string, unknown>) => Promise<Outgoing>

/** The exports of a run with unfinished bodies, and the state of the run at that time. */
export interface Early {
  exports: Record<string, unknown>
  console: { stdout: string[], stderr: string[] }
  wallMs: number
  cpuMs: number
  heapBytes: number
  isWaiting: boolean
}

/** Bytes that may still come; 0: any number. */
class Budget {
  private used = 0

  constructor (private readonly most: number, private readonly name: string) {}

  spend (bytes: number): Error | undefined {
    this.used += bytes
    if (this.most === 0 || this.used <= this.most) return undefined
    const message = `the body was cut off: more than ${this.most} bytes (limits.${this.name}; raise it, or set 0 for none)`
    return Object.assign(makeError('RangeError', message), { code: this.name === 'maxExportBytes' ? 'ERR_EXPORT_TOO_LARGE' : 'ERR_BRIDGE_PAYLOAD_TOO_LARGE' })
  }
}

class Body {
  readonly stream: ReadableStream<Uint8Array>
  budget: Budget | undefined
  private controller!: ReadableStreamDefaultController<Uint8Array>
  private isOver = false
  private isLeft = false
  private proceed: (() => void) | undefined
  private settle!: (isCancelled: boolean) => void
  /** Resolves at the end: to true if the host cancelled it. */
  readonly cancelled = new Promise<boolean>((resolve) => { this.settle = resolve })

  constructor (private readonly onOver: () => void) {
    this.stream = new ReadableStream<Uint8Array>({
      start: (controller) => { this.controller = controller },
      pull: () => { this.proceed?.() },
      cancel: () => { this.over(true) }
    }, { highWaterMark: BUFFERED_BYTES, size: (piece) => piece?.byteLength ?? 0 })
  }

  private over (isCancelled: boolean): void {
    if (this.isOver) return
    this.isOver = true
    this.settle(isCancelled)
    this.proceed?.()
    this.onOver()
  }

  /** Resolves when there is room for another: to false if none is wanted. */
  async take (piece: Uint8Array): Promise<boolean> {
    if (this.isOver) return false
    const tooMany = this.budget?.spend(piece.byteLength)
    if (tooMany !== undefined) this.fail(tooMany)
    else if (piece.byteLength > 0) this.controller.enqueue(piece)
    this.giveUp()
    if (!this.isOver && (this.controller.desiredSize ?? 0) <= 0) await new Promise<void>((resolve) => { this.proceed = resolve })
    return !this.isOver
  }

  end (): void {
    if (this.isOver) return
    this.controller.close()
    this.over(false)
  }

  fail (error: unknown): void {
    if (this.isOver) return
    this.controller.error(error)
    this.over(true)
  }

  /** Called after the host function that received it has returned. */
  leave (): void {
    this.isLeft = true
    this.giveUp()
  }

  // The run would wait for a reader that never comes.
  private giveUp (): void {
    if (!this.isLeft || this.stream.locked || (this.controller.desiredSize ?? 0) > 0) return
    this.fail(makeError('Error', `the body was given up: the host function returned without reading it, and it is larger than ${BUFFERED_BYTES} bytes`))
  }
}

export class Bodies {
  private readonly open = new Map<number, Body>()
  private readonly fresh: Body[] = []
  private readonly exported: Budget
  private tell!: (early: Early) => void
  /** Resolves when a run has exports with unfinished bodies; else never. */
  readonly early = new Promise<Early>((resolve) => { this.tell = resolve })

  /** call: handles all calls except those of bodies. */
  constructor (private readonly handle: Call, private readonly limits: Armed) {
    this.exported = new Budget(limits.maxExportBytes, 'maxExportBytes')
  }

  /** For the decoder, which finds the number in place of the body. */
  readonly streamOf = (number: unknown): ReadableStream<Uint8Array> => {
    if (!Number.isSafeInteger(number) || this.open.has(number as number)) throw new TypeError('a body has an unknown number')
    if (this.open.size >= OPEN_MAX) throw new RangeError(`more than ${OPEN_MAX} bodies are open`)
    const body = new Body(() => { this.open.delete(number as number) })
    this.open.set(number as number, body)
    this.fresh.push(body)
    return body.stream
  }

  readonly call: Call = async (target, args, kwargs) => {
    // The bodies found while these arguments were decoded: nothing else ran since.
    const own = this.fresh.splice(0)
    if (target[0] === 'body') return await encodeAnswer(await this.step(target[1], args, kwargs, own))
    const budget = new Budget(this.limits.maxBridgeCallBytes, 'maxBridgeCallBytes')
    for (const body of own) body.budget = budget
    try {
      return await this.handle(target, args, kwargs)
    } finally {
      for (const body of own) body.leave()
    }
  }

  private async step (step: string | undefined, args: unknown[], kwargs: Record<string, unknown>, own: Body[]): Promise<boolean> {
    if (step === 'exports') {
      for (const body of own) body.budget = this.exported
      this.tell(earlyOf(args, kwargs))
      return true
    }
    const [number, content, message, fields] = args
    const body = this.open.get(number as number)
    // The host has no such body: the code shall produce no more of it.
    if (body === undefined) return step === 'open'
    if (step === 'open') return await body.cancelled
    if (step === 'piece' && content instanceof Uint8Array) return await body.take(content)
    if (step === 'end') body.end()
    else body.fail(addFields(Object.assign(makeError(String(content), String(message)), { code: 'ERR_USER_CODE' }), Object(fields) as object))
    return false
  }

  /** The run is over: unfinished bodies will never finish. */
  finish (why: unknown): void {
    for (const body of [...this.open.values()]) body.fail(why)
  }
}

const numberAt = (value: unknown): number => typeof value === 'number' && value >= 0 ? value : 0

function earlyOf ([exports, measured]: unknown[], kwargs: Record<string, unknown>): Early {
  const { cpuMs, heapBytes, isWaiting } = Object(measured) as Record<string, unknown>
  const wallMs = numberAt(kwargs.wallMs)
  return {
    exports: Object(exports) as Record<string, unknown>,
    console: kwargs.console as Early['console'],
    wallMs,
    // Reported by the code, so it is limited by the time that passed.
    cpuMs: Math.min(numberAt(cpuMs), wallMs),
    heapBytes: numberAt(heapBytes),
    isWaiting: isWaiting === true
  }
}
