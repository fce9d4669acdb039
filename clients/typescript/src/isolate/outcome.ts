// From a run's result to the façade's.
import type { Result } from '../run.js'
import type { BridgeCallEntry, CallResult, RunAborted, RunError, RunErrorCode, RunFailure, RunResult, SandboxExports, WaitUntilResult } from './types.js'
import { makeError } from '../internal/values.js'
import type { Early } from './bodies.js'
import { type Armed, keepLines } from './limits.js'
import { ownStack } from './program.js'

interface Common {
  stdout: string[]
  stderr: string[]
  durationMs: number
  cpuTimeMs: number
  bridgeCalls: BridgeCallEntry[]
  memoryPeakBytes?: number
  heapUsedBytes?: number
}

const nothing = (): Common => ({ stdout: [], stderr: [], durationMs: 0, cpuTimeMs: 0, bridgeCalls: [] })

function common (result: Result, armed: Armed, bridgeCalls: BridgeCallEntry[]): Common {
  const { console: lines = { stdout: [], stderr: [] }, meta: { duration, usage } } = result
  return {
    stdout: keepLines(lines.stdout, armed.maxStdoutBytes),
    stderr: keepLines(lines.stderr, armed.maxStderrBytes),
    durationMs: duration,
    cpuTimeMs: usage.evaluationCpuMs ?? usage.cpuMs,
    bridgeCalls,
    ...usage.memoryPeakBytes === undefined ? {} : { memoryPeakBytes: usage.memoryPeakBytes },
    ...usage.heapUsedBytes === undefined ? {} : { heapUsedBytes: usage.heapUsedBytes }
  }
}

/** Separates lines, calls and times of the work of `waitUntil` from those of the run before it. */
function apart ({ late }: Result, so: Common): Common & { waitUntil?: Promise<WaitUntilResult> } {
  if (late === undefined) return so
  const { status, durationMs, cpuTimeMs, error, ...before } = late
  const of = (name: 'stdout' | 'stderr'): string[] => so[name].splice(before[name])
  const work = { status, durationMs, cpuTimeMs, stdout: of('stdout'), stderr: of('stderr'), bridgeCalls: so.bridgeCalls.splice(before.bridgeCalls) }
  return {
    ...so,
    durationMs: Math.max(0, so.durationMs - durationMs),
    cpuTimeMs: Math.max(0, so.cpuTimeMs - cpuTimeMs),
    waitUntil: Promise.resolve(error === undefined ? work : { ...work, error })
  }
}

export function aborted (reason: unknown, so: Common = nothing()): RunAborted {
  return { status: 'aborted', ok: false, error: { code: 'ERR_ABORTED', name: 'AbortError', message: 'run was aborted' }, reason, ...so }
}

export function failed (code: RunErrorCode, name: string, message: string, so: Common = nothing()): RunFailure {
  return { status: 'failed', ok: false, error: { code, name, message }, ...so }
}

// Messages in the façade's own terms: they name its limit, and what to do.
const limitTexts: Partial<Record<RunErrorCode, (armed: Armed) => string>> = {
  ERR_BRIDGE_CALL_LIMIT_EXCEEDED: ({ maxBridgeCalls }) =>
    `more than ${maxBridgeCalls} calls of host functions (limits.maxBridgeCalls, by default 10; raise it, or set 0 for none)`,
  ERR_BRIDGE_PAYLOAD_TOO_LARGE: ({ maxBridgeCallBytes }) =>
    `a call of a host function with more than ${maxBridgeCallBytes} bytes (limits.maxBridgeCallBytes)`,
  ERR_EXPORT_TOO_LARGE: ({ maxExportBytes }) => `the exports are larger than ${maxExportBytes} bytes (limits.maxExportBytes)`,
  ERR_MEMORY_LIMIT: ({ memoryMb }) => `out of memory; the limit is ${memoryMb} MiB (memoryMb)`,
  ERR_CPU_TIMEOUT: ({ cpuTimeMs }) => `stopped after ${cpuTimeMs} ms of processor time (limits.cpuTimeMs)`,
  ERR_WALL_TIMEOUT: ({ wallTimeMs }) => `stopped after ${wallTimeMs} ms (limits.wallTimeMs)`
}

function errorOf (result: Result, armed: Armed): RunError {
  const { code = 'ERR_INTERNAL', name = 'Error', message = `the run ended as ${result.status}`, stack, fields } = result.error ?? {}
  const made: RunError = { code: code as RunErrorCode, name, message: limitTexts[code as RunErrorCode]?.(armed) ?? message }
  // The stack of an error of the host's lies in the host, which is not shown.
  if (stack !== undefined && code !== 'ERR_HOST_BRIDGE') made.stack = ownStack(stack)
  if (fields !== undefined) {
    made.fields = fields
    // Its name in early versions of the other package.
    Object.defineProperty(made, 'data', { value: fields, writable: true, configurable: true, enumerable: false })
  }
  return made
}

export interface Ended {
  result: Result<Record<string, unknown>>
  armed: Armed
  bridgeCalls: BridgeCallEntry[]
  reason: unknown
}

function unhappy ({ result, armed, bridgeCalls, reason }: Ended): RunFailure | RunAborted {
  const so = common(result, armed, bridgeCalls)
  return result.status === 'terminated' ? aborted(reason, so) : { status: 'failed', ok: false, error: errorOf(result, armed), ...so }
}

/** A run whose exports have bodies that are still being made: `rest` is what the whole run came to. */
export interface Begun { early: Early, armed: Armed, bridgeCalls: BridgeCallEntry[], rest: Promise<Ended | { reason: unknown }> }

/** As a result of the run so far. */
function soFar ({ early, armed, bridgeCalls }: Begun): Ended {
  const { exports, console, wallMs, cpuMs, heapBytes } = early
  const usage = { cpuMs, evaluationCpuMs: cpuMs, heapUsedBytes: heapBytes }
  const result = { status: 'success', success: true, result: exports, console, meta: { duration: wallMs, usage } }
  return { result: result as unknown as Ended['result'], armed, bridgeCalls: bridgeCalls.slice(), reason: undefined }
}

/** Reports lines and calls that came after the exports: as those of the work of `waitUntil` when there is some, else they are added to the result's. */
async function follow ({ early, armed, rest }: Begun, so: Common): Promise<WaitUntilResult> {
  const done = await rest.catch((thrown: unknown) => ({ reason: thrown }))
  if (!('result' in done)) return { status: 'truncated', ...pastOf(nothing()), error: errorTexts(done.reason) }
  const all = common(done.result, armed, done.bridgeCalls)
  const past = pastOf(all, so)
  if (early.isWaiting) {
    const { late, error } = done.result
    if (late === undefined) return { status: 'truncated', ...past, ...error === undefined ? {} : { error: { name: error.name ?? 'Error', message: error.message } } }
    return { ...past, status: late.status, ...late.error === undefined ? {} : { error: late.error } }
  }
  so.stdout.push(...past.stdout)
  so.stderr.push(...past.stderr)
  so.bridgeCalls.push(...past.bridgeCalls)
  return { status: 'settled', ...past }
}

const errorTexts = (reason: unknown): { name: string, message: string } =>
  reason instanceof Error ? { name: reason.name, message: reason.message } : { name: 'Error', message: String(reason) }

function pastOf (all: Common, { stdout, stderr, durationMs, cpuTimeMs, bridgeCalls } = nothing()): Omit<WaitUntilResult, 'status'> {
  return {
    durationMs: Math.max(0, all.durationMs - durationMs),
    cpuTimeMs: Math.max(0, all.cpuTimeMs - cpuTimeMs),
    stdout: all.stdout.slice(stdout.length),
    stderr: all.stderr.slice(stderr.length),
    bridgeCalls: all.bridgeCalls.slice(bridgeCalls.length)
  }
}

export function begunResult<T extends RunResult | CallResult> (begun: Begun, asResult: (ended: Ended) => T): T {
  const made = asResult(soFar(begun))
  const following = follow(begun, made)
  if (made.ok && begun.early.isWaiting) made.waitUntil = following
  return made
}

/** The error for readers of bodies that are still open when the run is over. */
export function endOfBodies (done: Ended | { reason: unknown }): unknown {
  if (!('result' in done)) return done.reason
  const { result: { success, status }, armed, reason } = done
  if (status === 'terminated' && reason instanceof Error) return reason
  if (success) return makeError('Error', 'the run ended before the body did')
  const { code, name, message } = status === 'terminated' ? aborted(reason).error : errorOf(done.result, armed)
  return Object.assign(makeError(name, message), { code })
}

export function runResult (ended: Ended): RunResult {
  const { result, armed, bridgeCalls } = ended
  if (!result.success) return unhappy(ended)
  const exports: SandboxExports = Object.assign({ default: undefined }, result.result)
  return { status: 'completed', ok: true, exports, skippedExports: [], ...apart(result, common(result, armed, bridgeCalls)) }
}

export function callResult (ended: Ended, path: string): CallResult {
  const { result, armed, bridgeCalls } = ended
  if (!result.success) return unhappy(ended)
  const so = common(result, armed, bridgeCalls)
  const { default: value, missing } = result.result ?? {}
  if (missing === true) {
    return failed('ERR_CALL_TARGET_NOT_FOUND', 'TypeError', `the module exports no function ${JSON.stringify(path)}`, so)
  }
  return { status: 'completed', ok: true, value, ...apart(result, so) }
}
