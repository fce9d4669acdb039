// The host's side of a run's calls: handlers, and the record of what was called.
import type { Outgoing } from '../internal/connection.js'
import { OversizeError } from '../internal/values.js'
import { encodeAnswer, handlerKey, type Handlers } from '../internal/host.js'
import type { BridgeCallEntry } from './types.js'

/** The record of calls is bounded also where their number is not. */
const ENTRIES_MAX = 10_000

export class Bridge {
  readonly entries: BridgeCallEntry[] = []
  private readonly started = performance.now()

  /** answerBytes: the most of one answer; 0 for none. */
  constructor (private readonly handlers: Handlers, private readonly answerBytes: number) {}

  readonly call = async (target: string[], args: unknown[]): Promise<Outgoing> => {
    const handler = this.handlers.get(handlerKey(target))
    if (handler === undefined) throw new ReferenceError(`${target.slice(1).join('.')} is no function of the host`)
    const begun = performance.now()
    const entry: BridgeCallEntry = {
      name: target.slice(1).join('.'),
      startMs: begun - this.started,
      durationMs: 0,
      argBytes: sizeOf(args),
      responseBytes: 0,
      ok: false,
      blocked: false
    }
    if (this.entries.length < ENTRIES_MAX) this.entries.push(entry)
    try {
      const answer = await this.encoded(await handler(...args), entry.name)
      entry.responseBytes = answer.size
      entry.ok = true
      return answer
    } finally {
      entry.durationMs = performance.now() - begun
    }
  }

  private async encoded (value: unknown, name: string): Promise<Outgoing & { size: number }> {
    try {
      return await encodeAnswer(value, this.answerBytes === 0 ? Infinity : this.answerBytes, true)
    } catch (thrown) {
      if (thrown instanceof OversizeError) {
        throw new RangeError(`${name}: the answer is larger than ${this.answerBytes} bytes (limits.maxBridgePayloadBytes)`)
      }
      throw thrown
    }
  }
}

/** Roughly the bytes of values, counting what is shared once. */
function sizeOf (root: unknown): number {
  const seen = new Set<object>()
  const open: unknown[] = [root]
  let size = 0
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'string') size += Buffer.byteLength(value)
    else if (typeof value !== 'object' || value === null) size += 8
    else if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) size += value.byteLength
    else if (!seen.has(value)) {
      seen.add(value)
      if (value instanceof Map) for (const pair of value) open.push(...pair)
      else if (value instanceof Set) open.push(...value)
      else for (const [key, item] of Object.entries(value)) open.push(Array.isArray(value) ? 0 : key, item)
    }
  }
  return size
}
