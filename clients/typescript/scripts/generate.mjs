// What the client knows of errors, limits, statuses and operations of sandboxes comes from spec/*.def: `node scripts/generate.mjs` writes src/generated,
// with --check it says what is not as the tables have it.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'

const spec = new URL('../../../spec/', import.meta.url)
const out = new URL('../src/generated/', import.meta.url)

// The arguments of each row: symbols, numbers and string literals (which C joins when they follow each other).
function rows (file, macro) {
  const text = readFileSync(new URL(file, spec), 'utf8').replace(/\/\*[^]*?\*\//g, '')
  const found = []
  for (const line of text.split('\n')) {
    if (!line.startsWith(`${macro}(`)) continue
    const cells = line.slice(macro.length + 1).match(/"(?:[^"\\]|\\.)*"|[\w-]+/g)
    found.push(cells.map((cell) => cell.startsWith('"') ? JSON.parse(cell) : cell))
  }
  if (found.length === 0) throw new Error(`${file}: no row of ${macro}`)
  return found
}

const head = (file) => `// Made from spec/${file} by scripts/generate.mjs.\n`
const className = (name) => name === 'invalid_state' ? 'StateError' : `${name.split('_').map((word) => word[0].toUpperCase() + word.slice(1)).join('')}Error`

function errors () {
  const all = rows('errors.def', 'CLOCHE_ERROR').map(([, name, fault, http, text]) => ({ name, fault: fault.toLowerCase(), http: Number(http), text, made: className(name) }))
  const classes = all.map(({ name, fault, http, text, made }) => `/** ${text} */
export class ${made} extends ClocheError {
  static readonly code = '${name}'
  override readonly name = '${made}'
  override readonly code = '${name}'
  override readonly fault = '${fault}'
  override readonly status = ${http}
}
export const is${made} = (value: unknown): value is ${made} => value instanceof ${made}
`)
  return `${head('errors.def')}import { ClocheError, type ErrorOptions } from '../internal/error.js'

${classes.join('\n')}
export type ErrorCode = ${all.map(({ name }) => `'${name}'`).join(' | ')}
export const errorClasses: Record<ErrorCode, new (message: string, options?: ErrorOptions) => ClocheError> = {
${all.map(({ name, made }) => `  ${name}: ${made}`).join(',\n')}
}
`
}

function limits () {
  const all = rows('limits.def', 'CLOCHE_LIMIT').map(([, json, unit, fallback, min, max, doc]) => ({ json, unit, fallback, min, max, doc }))
  return `${head('limits.def')}/** Limits of a run. What is left out has its default; 0 means none. */
export interface Limits {
${all.map(({ json, unit, fallback, doc }) => `  /** ${doc} In ${unit}; by default ${Number(fallback).toLocaleString('en')}. */\n  ${json}?: number`).join('\n')}
}
export type LimitName = keyof Limits

export const limitTable: Record<LimitName, { unit: string, default: number, min: number, max: number }> = {
${all.map(({ json, unit, fallback, min, max }) => `  ${json}: { unit: '${unit}', default: ${fallback}, min: ${min}, max: ${max} }`).join(',\n')}
}
`
}

function statuses () {
  const all = rows('statuses.def', 'CLOCHE_STATUS').map(([, name, exit, doc]) => ({ name, exit, doc }))
  return `${head('statuses.def')}/**
 * How a run can end.
${all.map(({ name, doc }) => ` * - \`${name}\`: ${doc}`).join('\n')}
 */
export type Status = ${all.map(({ name }) => `'${name}'`).join(' | ')}
export const exitCodes: Record<Status, number> = { ${all.map(({ name, exit }) => `${name}: ${exit}`).join(', ')} }
`
}

// -- operations of sandboxes

const fieldTypes = {
  TEXT: 'string',
  TEXTS: 'readonly string[]',
  TEXT_BY_NAME: 'Record<string, string>',
  TEXT_OR_BYTES: 'string | Uint8Array',
  COUNT: 'number',
  BOOLEAN: 'boolean',
  LIMITS: 'Limits',
  LIST: 'readonly [first: number, last: number]',
  OBJECT: 'Record<string, unknown>'
}
// What an OBJECT is exactly.
const objectTypes = { network: 'NetworkPolicy', env: 'Record<string, string | null>', terminal: 'TerminalSize' }
const pascal = (method) => method.split('.').map((word) => word[0].toUpperCase() + word.slice(1)).join('')

function typeOf (type, name) {
  if (!Object.hasOwn(fieldTypes, type)) throw new Error(`sandbox.def: the field ${name} is of the unknown type ${type}`)
  return type === 'OBJECT' && Object.hasOwn(objectTypes, name) ? objectTypes[name] : fieldTypes[type]
}

function sandbox () {
  const fields = rows('sandbox.def', 'SANDBOX_FIELD').map(([symbol, name, type, need, doc]) => ({ symbol, name, need, doc, type: typeOf(type, name) }))
  const all = rows('sandbox.def', 'SANDBOX_OPERATION').map(([symbol, method, , , , kind, doc]) => {
    const own = fields.filter((field) => field.symbol === symbol)
    return { method, doc, own, isStream: kind === 'STREAM', params: `${pascal(method)}Params`, isFree: own.every(({ need }) => need === 'OPTIONAL') }
  })
  const params = all.filter(({ own }) => own.length > 0).map((operation) => `/** Of ${operation.method}. */
export interface ${operation.params} {
${operation.own.map(({ name, need, doc, type }) => `  /** ${doc} */\n  ${name}${need === 'OPTIONAL' ? '?' : ''}: ${type}${need === 'OPTIONAL' ? ' | undefined' : ''}`).join('\n')}
}
`)
  const groups = new Map()
  for (const operation of all.filter(({ method }) => method !== 'sandbox.list')) groups.set(groupOf(operation), [...groups.get(groupOf(operation)) ?? [], operation])
  const classes = [...groups].map(([group, operations]) => `export class ${pascal(group)}Operations {
  constructor (protected readonly ask: Ask) {}

${operations.map(methodOf).join('\n')}}
`)
  return `${head('sandbox.def')}import type { Asking, OperationOptions } from '../internal/asking.js'
import type { Answers, NetworkPolicy, StreamEvents, TerminalSize } from '../sandbox/answers.js'
import type { Limits } from './limits.js'

${params.join('\n')}
export type Method =
${all.map(({ method }) => `  | '${method}'`).join('\n')}
/** Those that tell events before they are answered. */
export type StreamMethod = ${all.filter(({ isStream }) => isStream).map(({ method }) => `'${method}'`).join(' | ')}
export type EventsOf<M> = M extends keyof StreamEvents ? StreamEvents[M] : never
export type Ask = <M extends Method>(method: M, params: object, options: OperationOptions) => Asking<Answers[M], EventsOf<M>>

${classes.join('\n')}`
}

const groupOf = ({ method }) => method.includes('.') ? method.split('.')[0] : 'sandbox'

function methodOf ({ method, doc, own, isStream, params, isFree }) {
  const given = own.length === 0 ? '' : `params: ${params}${isFree ? ' = {}' : ''}, `
  const passed = own.length === 0 ? '{}' : 'params'
  const answer = isStream ? `Asking<Answers['${method}'], EventsOf<'${method}'>>` : `Promise<Answers['${method}']>`
  return `  /** ${doc} */
  ${isStream ? '' : 'async '}${method.split('.').at(-1)} (${given}options: OperationOptions = {}): ${answer} {
    return ${isStream ? '' : 'await '}this.ask('${method}', ${passed}, options)
  }
`
}

const files = { 'errors.ts': errors(), 'limits.ts': limits(), 'statuses.ts': statuses(), 'sandbox.ts': sandbox() }
const isCheck = process.argv.includes('--check')
mkdirSync(out, { recursive: true })
for (const [name, text] of Object.entries(files)) {
  const url = new URL(name, out)
  if (!isCheck) {
    writeFileSync(url, text)
    continue
  }
  let have
  try {
    have = readFileSync(url, 'utf8')
  } catch {}
  if (have === text) continue
  console.error(`src/generated/${name} is not as spec/ has it: run npm run generate`)
  process.exitCode = 1
}
