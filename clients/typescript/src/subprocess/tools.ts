// Tools: their names in the code, and the checks before the host receives a call.
import type { Declaration, HostFunction } from '../internal/host.js'
import { isPlainObject } from '../internal/host.js'
import { type JsonSchema, schemaCheck } from './schema.js'

export interface Tool {
  /**
   * Colons and dots mean nested objects: `files:read` is `files.read`, `my-files:read-all` in
   * JavaScript `my_files["read-all"]`.
   */
  name: string
  description?: string
  /** JSON Schema of the parameters, an object. */
  inputSchema?: JsonSchema
}

export interface ToolContext {
  /** Aborted if the execution ends before the tool does. */
  signal: AbortSignal
}
// Any, as in the original: executors declare the parameters that they take.
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type ToolExecutor = (name: string, params: any, context: ToolContext) => unknown

/** The name as an identifier: invalid characters become underscores. */
const asIdentifier = (name: string): string => name.replace(/[^\p{ID_Continue}$]/gu, '_').replace(/^(?=\d)/, '_')

/** keepsNames: members of objects may have any name; names in the global scope must be identifiers. */
function stepsOf ({ name }: Tool, i: number, keepsNames: boolean): string[] {
  if (typeof name !== 'string' || name === '') throw new TypeError(`tools[${i}].name must be a string that is not empty`)
  const steps = name.split(/[:.]/).map((step, at) => at > 0 && keepsNames ? step : asIdentifier(step))
  if (steps.some((step) => step === '')) throw new TypeError(`tools[${i}].name ${JSON.stringify(name)} has an empty step`)
  return steps
}

function paramNames ({ inputSchema }: Tool): string[] {
  return isPlainObject(inputSchema?.properties) ? Object.keys(inputSchema.properties) : []
}

/** One object of parameters, from any form: one object, keywords, or positions in the order of the schema. */
function paramsOf (tool: Tool, given: unknown[]): unknown {
  if (given.length === 0) return {}
  if (given.length === 1 && isPlainObject(given[0])) return given[0]
  const last = given.at(-1)
  const names = paramNames(tool)
  const [positions, keywords] = isPlainObject(last) ? [given.slice(0, -1), last] : [given, {}]
  if (positions.length > names.length) {
    throw new TypeError(`${tool.name} takes one object of parameters${names.length > 0 ? `: ${names.join(', ')}` : ''}`)
  }
  return { ...Object.fromEntries(positions.map((value, i) => [names[i], value])), ...keywords }
}

function handlerOf (tool: Tool, i: number, execute: ToolExecutor, signal: AbortSignal): HostFunction {
  let check: (value: unknown) => string | undefined
  try {
    check = tool.inputSchema === undefined ? () => undefined : schemaCheck(tool.inputSchema)
  } catch (thrown) {
    throw new TypeError(`tools[${i}] (${tool.name}).inputSchema: ${(thrown as Error).message}`)
  }
  return async (...given: unknown[]) => {
    const params = paramsOf(tool, given)
    const wrong = check(params)
    if (wrong !== undefined) throw new TypeError(`${tool.name}: ${wrong}`)
    return await unlessAborted(execute(tool.name, params, { signal }), signal)
  }
}

/** The awaited value, or the signal's reason: the work itself goes on unawaited. */
export async function unlessAborted<T> (work: T | PromiseLike<T>, signal: AbortSignal): Promise<T> {
  let onAbort = (): void => {}
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => { reject(signal.reason) }
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

type Members = Record<string, Declaration>

function place (members: Members, [first, ...rest]: string[], declaration: Declaration, name: string): void {
  const step = first as string
  const found = Object.hasOwn(members, step) ? members[step] : undefined
  if (rest.length === 0) {
    if (found !== undefined) throw new TypeError(`the tool ${name} has the place of another in the code: rename one`)
    members[step] = declaration
    return
  }
  if (found !== undefined && found.kind !== 'object') throw new TypeError(`the tool ${name} lies inside another: rename one`)
  const inner: Declaration & { kind: 'object' } = found ?? { kind: 'object', members: {} }
  members[step] = inner
  place(inner.members, rest, declaration, name)
}

/** Members whose names are no identifiers also get an identifier, unless it collides with another tool. */
function addAliases (members: Members): void {
  for (const [name, declaration] of Object.entries(members)) {
    if (declaration.kind === 'object') addAliases(declaration.members)
    const alias = asIdentifier(name)
    if (!Object.hasOwn(members, alias)) members[alias] = declaration
  }
}

export function declareTools (tools: readonly Tool[], execute: ToolExecutor, signal: AbortSignal, keepsNames: boolean): Members {
  if (tools.length > 0 && typeof execute !== 'function') throw new TypeError('toolExecutor must be a function')
  const members: Members = {}
  tools.forEach((tool, i) => { place(members, stepsOf(tool, i, keepsNames), { kind: 'function', handler: handlerOf(tool, i, execute, signal) }, tool.name) })
  addAliases(members)
  return members
}
