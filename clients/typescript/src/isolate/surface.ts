// The host's functions and data for a run: globals and imports as declarations, and replaced handlers for single runs.
import { types } from 'node:util'
import { type Declaration, handlerKey, type Handlers, type HostFunction, isPlainObject, type ModuleDeclaration } from '../internal/host.js'
import type { HostGlobals, Imports, StaticImports } from './types.js'

const RESERVED_WORDS = new Set(('arguments await break case catch class const continue debugger default delete do else enum eval export ' +
  'extends false finally for function if implements import in instanceof interface let new null package private protected public return ' +
  'static super switch this throw true try typeof var void while with yield').split(' '))
const isIdentifier = (name: string): boolean => /^[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*$/u.test(name) && !RESERVED_WORDS.has(name)

const option = ({ enumerable }: { enumerable?: boolean }): { enumerable?: boolean } => enumerable === undefined ? {} : { enumerable }
const functionAt = (value: unknown, where: string): HostFunction => {
  if (typeof value !== 'function') throw new TypeError(`${where} must be a function, not ${value === null ? 'null' : typeof value}`)
  return value as HostFunction
}
const textAt = (value: unknown, where: string): string => {
  if (typeof value !== 'string') throw new TypeError(`${where} must be a string, not ${value === null ? 'null' : typeof value}`)
  return value
}

function globalOf (name: string, value: HostGlobals[string]): Declaration {
  const where = `globals.${name}`
  if (typeof value === 'function') return { kind: 'function', handler: value }
  if (typeof value === 'string') return { kind: 'expression', text: value }
  switch (Object(value).kind) {
    case 'bridge':
      return { kind: 'function', handler: functionAt((value as { handler: unknown }).handler, `${where}.handler`), ...option(value) }
    case 'bridge-with-shim': {
      const { handler, shim } = value as { handler: unknown, shim: unknown }
      return { kind: 'shim', handler: functionAt(handler, `${where}.handler`), text: textAt(shim, `${where}.shim`), ...option(value) }
    }
    case 'data': return { kind: 'value', value: (value as { value: unknown }).value, ...option(value) }
    case 'string': return { kind: 'expression', text: textAt((value as { expr: unknown }).expr, `${where}.expr`), ...option(value) }
  }
  throw new TypeError(`${where} must be a function, an expression as a string, or an object whose kind is bridge, bridge-with-shim, data or string`)
}

export const globalsOf = (globals: HostGlobals = {}): Record<string, Declaration> =>
  Object.fromEntries(Object.entries(globals).map(([name, value]) => [name, globalOf(name, value)]))

// -- modules

function memberOf (value: unknown, where: string, open: Set<object>): Declaration {
  if (typeof value === 'function') return { kind: 'function', handler: value as HostFunction }
  if (!isPlainObject(value)) return { kind: 'value', value: dataAt(value, where, new Set()) }
  if (open.has(value)) throw new TypeError(`${where} is a cycle, which a module cannot have`)
  open.add(value)
  const members = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, memberOf(member, `${where}.${name}`, open)]))
  open.delete(value)
  // Data alone is one constant, so that sharing within it is preserved.
  return Object.values(members).every((member) => member.kind === 'value') ? { kind: 'value', value } : { kind: 'object', members }
}

function dataAt (value: unknown, where: string, seen: Set<object>): unknown {
  if (typeof value === 'function') throw new TypeError(`${where} is a function inside data: functions stand in plain objects only`)
  if (typeof value !== 'object' || value === null || seen.has(value)) return value
  seen.add(value)
  if (Array.isArray(value)) value.forEach((item, i) => dataAt(item, `${where}[${i}]`, seen))
  else if (isPlainObject(value)) for (const [name, item] of Object.entries(value)) dataAt(item, `${where}.${name}`, seen)
  else if (!isKnownData(value)) throw new TypeError(`${where} is an instance of ${classOf(value)}: its methods would be lost; give a plain object`)
  return value
}

const isKnownData = (value: object): boolean =>
  ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value) || types.isDate(value) || types.isRegExp(value) || types.isMap(value) ||
  types.isSet(value) || types.isNativeError(value) || types.isBoxedPrimitive(value) ||
  value instanceof URL || value instanceof Headers || value instanceof Request || value instanceof Response
const classOf = (value: object): string => value.constructor?.name ?? 'a class'
const kindOf = (value: unknown): string => value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value

function moduleOf (specifier: string, value: Imports[string]): ModuleDeclaration {
  if (typeof value === 'string') return { source: value }
  const where = `imports[${JSON.stringify(specifier)}]`
  if (!isPlainObject(value)) {
    throw new TypeError(`${where} must be the source of a module or a plain object, not ${kindOf(value)}`)
  }
  for (const name of Object.keys(value)) {
    if (name !== 'default' && !isIdentifier(name)) throw new TypeError(`${where}: ${JSON.stringify(name)} cannot be the name of an export`)
  }
  const open = new Set<object>([value])
  return { members: Object.fromEntries(Object.entries(value).map(([name, member]) => [name, memberOf(member, `${where}.${name}`, open)])) }
}

/** Converts the first versions' form, `{static: {specifier: {kind, source | exports}}}`, to the present one. */
function flat (imports: Imports | StaticImports): Imports {
  const modules: unknown = Object.hasOwn(imports, 'static') ? (imports as StaticImports).static : undefined
  if (!isPlainObject(modules) || !Object.values(modules).every((one) => isPlainObject(one) && (one.kind === 'source' || one.kind === 'host'))) {
    return imports as Imports
  }
  const others = Object.keys(imports).filter((name) => name !== 'static')
  if (others.length > 0) throw new TypeError(`imports.${others[0]} cannot be used beside imports.static: modules are found by their specifier alone`)
  return Object.fromEntries(Object.entries(modules as StaticImports['static']).map(([specifier, one]) => {
    const where = `imports.static[${JSON.stringify(specifier)}]`
    if (one.kind === 'source') return [specifier, textAt(one.source, `${where}.source`)]
    if (!isPlainObject(one.exports)) throw new TypeError(`${where}.exports must be a plain object, not ${kindOf(one.exports)}`)
    return [specifier, one.exports]
  }))
}

export const importsOf = (imports: Imports | StaticImports = {}): Record<string, ModuleDeclaration> =>
  Object.fromEntries(Object.entries(flat(imports)).map(([specifier, value]) => [specifier, moduleOf(specifier, value)]))

// -- rebinding

/** A run rebinds a name that the prefix has not declared as a function. */
export class Undeclared extends Error {}

/** The prefix's handlers with those of one run in their place. */
export function rebind (declared: Handlers, globals: object = {}, imports: object = {}): Handlers {
  const handlers = new Map(declared)
  for (const [name, value] of Object.entries(globals)) replace(handlers, ['global', name], value, `globals.${name}`)
  for (const [specifier, members] of Object.entries(flat(imports as Imports))) {
    const where = `imports[${JSON.stringify(specifier)}]`
    if (!isPlainObject(members)) throw new Undeclared(`${where}: only functions of host modules can be rebound`)
    for (const [name, value] of Object.entries(members)) replaceMember(handlers, ['import', specifier, name], value, `${where}.${name}`)
  }
  return handlers
}

function replaceMember (handlers: Handlers, target: string[], value: unknown, where: string): void {
  if (!isPlainObject(value)) return replace(handlers, target, value, where)
  for (const [name, member] of Object.entries(value)) replaceMember(handlers, [...target, name], member, `${where}.${name}`)
}

function replace (handlers: Handlers, target: string[], value: unknown, where: string): void {
  const key = handlerKey(target)
  if (!handlers.has(key)) throw new Undeclared(`${where} was not declared as a function when the prefix was made`)
  handlers.set(key, functionAt(value, where))
}
