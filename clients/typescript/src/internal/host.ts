// The host's functions and data for the code: declarations for the daemon (spec/agent.md), and the
// functions behind them.
import { types } from 'node:util'
import { Attachments, encode } from './encode.js'
import { readBody, UnreadBody } from './classes.js'
import { type Outgoing, Thrown } from './connection.js'
import { holdsErrors, isText, type Json, notFields } from './values.js'

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type HostFunction = (...args: any[]) => unknown

export type Declaration =
  | { kind: 'function', handler: HostFunction, enumerable?: boolean }
  | { kind: 'value', value: unknown, enumerable?: boolean }
  | { kind: 'object', members: Record<string, Declaration>, enumerable?: boolean }
  | { kind: 'expression', text: string, enumerable?: boolean }
  | { kind: 'shim', handler: HostFunction, text: string, enumerable?: boolean }

export type ModuleDeclaration = { source: string } | { members: Record<string, Declaration> }

const isDeclared = Symbol('declaration')

/** Host functions, by their path in the code. */
export type Handlers = Map<string, HostFunction>
export const handlerKey = (target: readonly string[]): string => JSON.stringify(target)

type Marked = Declaration & { [isDeclared]: true }
const mark = (declaration: Declaration): Marked => Object.assign(declaration, { [isDeclared]: true as const })

/** A constant, even if it is an object that may hold functions. */
export const constant = (value: unknown, options: { enumerable?: boolean } = {}): Declaration => mark({ kind: 'value', value, ...options })
/** An expression of the code's own language (JavaScript), evaluated once in the box. */
export const expression = (text: string, options: { enumerable?: boolean } = {}): Declaration =>
  mark({ kind: 'expression', text, ...options })
/** A host function whose result goes through a function (source text, JavaScript) in the box. */
export const shim = (handler: HostFunction, text: string, options: { enumerable?: boolean } = {}): Declaration =>
  mark({ kind: 'shim', handler, text, ...options })

export const isPlainObject = (value: unknown): value is Record<string, unknown> => {
  if (value === null || typeof value !== 'object' || types.isProxy(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/** True when plain objects hold a function, however deep. */
function holdsFunction (value: unknown, seen = new Set<object>()): boolean {
  if (typeof value === 'function') return true
  if (!isPlainObject(value) || seen.has(value)) return false
  seen.add(value)
  return isDeclared in value || Object.values(value).some((item) => holdsFunction(item, seen))
}

/**
 * Declares a value by its type: functions call the host, objects that hold some are objects, all
 * else is a constant.
 */
function declarationOf (value: unknown): Declaration {
  if (typeof value === 'function') return { kind: 'function', handler: value as HostFunction }
  if (!isPlainObject(value)) return { kind: 'value', value }
  if (isDeclared in value) return value as unknown as Declaration
  if (!holdsFunction(value)) return { kind: 'value', value }
  return { kind: 'object', members: declarationsOf(value) }
}

export const declarationsOf = (values: Record<string, unknown>): Record<string, Declaration> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, declarationOf(value)]))

export const modulesOf = (imports: Record<string, string | Record<string, unknown>>): Record<string, ModuleDeclaration> =>
  Object.fromEntries(Object.entries(imports).map(([name, value]) => [name, typeof value === 'string' ? { source: value } : { members: declarationsOf(value) }]))

// -- for the wire

function bare (declaration: Declaration, target: string[], handlers: Handlers): object {
  const more = declaration.enumerable === undefined ? {} : { enumerable: declaration.enumerable }
  switch (declaration.kind) {
    case 'function':
      handlers.set(handlerKey(target), declaration.handler)
      return { kind: 'function', ...more }
    case 'shim':
      handlers.set(handlerKey(target), declaration.handler)
      return { kind: 'shim', text: declaration.text, ...more }
    case 'object': return { kind: 'object', members: bareAll(declaration.members, target, handlers), ...more }
    case 'value': return { kind: 'value', value: declaration.value, ...more }
    case 'expression': return { kind: 'expression', text: declaration.text, ...more }
  }
}

const bareAll = (members: Record<string, Declaration>, target: string[], handlers: Handlers): object =>
  Object.fromEntries(Object.entries(members).map(([name, member]) => [name, bare(member, [...target, name], handlers)]))

/** The wire form, not yet encoded, and its functions. */
export function prepareHost (
  globals: Record<string, Declaration>, imports: Record<string, ModuleDeclaration>
): { globals: object, imports: object, handlers: Handlers } {
  const handlers: Handlers = new Map()
  return {
    globals: bareAll(globals, ['global'], handlers),
    imports: Object.fromEntries(Object.entries(imports).map(([specifier, module]) =>
      [specifier, 'source' in module ? module : { members: bareAll(module.members, ['import', specifier], handlers) }])),
    handlers
  }
}

// -- results

/** Encoded once the bodies of all requests and responses in it are read. */
export async function encodeAnswer (value: unknown, limit = Infinity, views = false): Promise<Outgoing & { size: number }> {
  for (;;) {
    const attachments = new Attachments()
    try {
      const body = { value: encode(value, attachments, { references: true, limit, views }) }
      return { body, attachments, size: attachments.size + JSON.stringify(body).length }
    } catch (thrown) {
      if (!(thrown instanceof UnreadBody)) throw thrown
      await readBody(thrown.carrier)
    }
  }
}

/**
 * Makes the wire form of an error of a host function: name, message and its sendable own
 * properties; never its stack.
 */
export function thrownOf (reason: unknown): Thrown {
  const attachments = new Attachments()
  if (typeof reason !== 'object' || reason === null) {
    const payload = { name: 'Error', message: textOf(reason), ...isText(String(reason)) ? {} : { exact: encode({ message: String(reason) }, attachments) } }
    return new Thrown(payload.message, payload, attachments)
  }
  const { name, message } = reason as { name?: unknown, message?: unknown }
  const payload: { [key: string]: Json } = { name: textOf(name ?? 'Error'), message: textOf(message ?? '') }
  const fields = Object.entries(reason).filter(([key, value]) => !notFields.includes(key) && isSendable(value))
  if (holdsErrors(reason)) fields.push(['errors', reason.errors.map((item) => isSendable(item) ? item : textOf(item))])
  if (fields.length > 0) payload.fields = encode(Object.fromEntries(fields), attachments, { references: true })
  const exact = { name: String(name ?? 'Error'), message: String(message ?? '') }
  if (!isText(exact.name) || !isText(exact.message)) payload.exact = encode(exact, attachments)
  return new Thrown(payload.message as string, payload, attachments)
}

const textOf = (value: unknown): string => Buffer.from(String(value)).toString()

function isSendable (value: unknown): boolean {
  try {
    encode(value, new Attachments(), { references: true, limit: 2 ** 20 })
    return true
  } catch {
    return false
  }
}
