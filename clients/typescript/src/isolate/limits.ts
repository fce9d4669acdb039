import { type LimitName, limitTable, type Limits } from '../generated/limits.js'
import { InvalidArgumentError } from '../generated/errors.js'
import type { ResourceLimits } from './types.js'

const MIB = 2 ** 20

/** The default limits. */
export const defaults: Required<ResourceLimits> = {
  memoryMb: 128,
  cpuTimeMs: 5000,
  wallTimeMs: 30_000,
  maxBridgeCalls: 10,
  maxBridgeCallBytes: 16 * MIB,
  maxBridgePayloadBytes: 16 * MIB,
  maxExportBytes: 16 * MIB,
  maxStdoutBytes: MIB,
  maxStderrBytes: MIB,
  graceMs: 30_000
}

/** A box holds a whole Node. */
const MEMORY_MB_MIN = 8

export type Armed = Required<ResourceLimits>

/** Checks the limits that the caller gave. */
export function given (limits: ResourceLimits): ResourceLimits {
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(defaults, name)) {
      throw new InvalidArgumentError(`limits.${name} is no limit; there are ${Object.keys(defaults).join(', ')}`)
    }
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 0)) {
      throw new InvalidArgumentError(`limits.${name} is ${String(value)}; a whole number from 0 (none) is expected`)
    }
  }
  const { memoryMb = 0 } = limits
  if (memoryMb > 0 && memoryMb < MEMORY_MB_MIN) {
    throw new InvalidArgumentError(`limits.memoryMb is ${memoryMb}; at least ${MEMORY_MB_MIN} are needed for the interpreter itself, 0 is none`)
  }
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined)) as ResourceLimits
}

export function arm (limits: ResourceLimits = {}, memoryMb = defaults.memoryMb): Armed {
  const own = given(limits)
  const armed = { ...defaults, memoryMb, ...own }
  // Two names of one limit, of which each may be given alone.
  if (own.maxBridgeCallBytes === undefined && own.maxBridgePayloadBytes !== undefined) armed.maxBridgeCallBytes = own.maxBridgePayloadBytes
  return armed
}

// 0 is none, which is more than any number.
const larger = (a: number, b: number): number => a === 0 || b === 0 ? 0 : Math.max(a, b)

/** Clamps limits to the daemon's maximum. */
const capped = (limits: Limits): Limits =>
  Object.fromEntries(Object.entries(limits).map(([name, value]) => [name, Math.min(value, limitTable[name as LimitName].max)]))

/** The daemon's form. It has one limit for both streams; the smaller one is applied on arrival. */
export function forDaemon (armed: Armed): Limits {
  return capped({
    memoryBytes: armed.memoryMb * MIB,
    cpuMs: armed.cpuTimeMs,
    wallMs: armed.wallTimeMs,
    bridgeCalls: armed.maxBridgeCalls,
    bridgeBytes: armed.maxBridgeCallBytes,
    resultBytes: armed.maxExportBytes,
    outputBytes: larger(armed.maxStdoutBytes, armed.maxStderrBytes)
  })
}

/** A line that would cross the bound is dropped whole; shorter ones after it may still fit. */
export function keepLines (lines: string[], bound: number): string[] {
  if (bound === 0) return lines
  let total = 0
  return lines.filter((line) => {
    const size = Buffer.byteLength(line)
    if (total + size > bound) return false
    total += size
    return true
  })
}
