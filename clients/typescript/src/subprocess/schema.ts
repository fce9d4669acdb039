// JSON Schema, as far as the parameters of tools use it. Unknown keywords are refused when the tool
// is given, not ignored.

export interface JsonSchema { [keyword: string]: unknown }

type Check = (value: unknown, path: string, scope: Scope) => string | undefined
interface Scope { root: JsonSchema, depth: number }

const ANNOTATIONS = new Set([
  'title', 'description', 'examples', 'format', 'default', 'deprecated', 'readOnly', 'writeOnly', '$comment', '$schema', '$id', '$defs', 'definitions',
  'contentEncoding', 'contentMediaType'
])
/** A pattern is the host's, the text a guest's: the cost of a slow pattern is bounded by the length of the text. */
const PATTERN_TEXT_MAX = 4096
const DEPTH_MAX = 100

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && [null, Object.prototype].includes(Object.getPrototypeOf(value) as null)
const isNumber = (value: unknown): value is number | bigint => typeof value === 'number' || typeof value === 'bigint'
const step = (key: string): string => /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
const shown = (value: unknown): string => typeof value === 'bigint' ? `${value}` : JSON.stringify(value) ?? String(value)

const typeTests: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  number: isNumber,
  integer: (value) => typeof value === 'bigint' || Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  array: Array.isArray,
  object: isObject,
  null: (value) => value === null
}
function typeOf (value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value !== 'object' || isObject(value) ? typeof value : value.constructor?.name ?? 'object'
}

function equal (a: unknown, b: unknown): boolean {
  if (Object.is(a, b) || a === b) return true
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => equal(item, b[i]))
  if (!isObject(a) || !isObject(b)) return false
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && equal(a[key], b[key]))
}

/** A keyword about numbers, strings, …: it accepts all other values. */
const about = <T>(is: (value: unknown) => value is T, holds: (value: T, bound: never) => boolean, what: (bound: unknown) => string) =>
  (bound: unknown): Check =>
  (value, path) => !is(value) || holds(value, bound as never) ? undefined : `${path} ${what(bound)}, not ${shown(value).slice(0, 100)}`
const isString = (value: unknown): value is string => typeof value === 'string'
const isArray = (value: unknown): value is unknown[] => Array.isArray(value)
const lengthOf = (text: string): number => [...text].length

function patternCheck (source: unknown): Check {
  const pattern = new RegExp(source as string, 'u')
  return (value, path) => {
    if (typeof value !== 'string') return undefined
    if (value.length > PATTERN_TEXT_MAX) {
      return `${path} has more than ${PATTERN_TEXT_MAX} characters, too many to be held against a pattern`
    }
    return pattern.test(value) ? undefined : `${path} must match ${String(source)}`
  }
}

function propertiesCheck (properties: unknown): Check {
  const known = Object.entries(properties as Record<string, JsonSchema | boolean>).map(([name, schema]) => ({ name, check: compile(schema) }))
  return (value, path, scope) => {
    if (!isObject(value)) return undefined
    for (const { name, check } of known) {
      if (!Object.hasOwn(value, name) || value[name] === undefined) continue
      const wrong = check(value[name], path + step(name), scope)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
}

function additionalCheck (allowed: unknown, { properties = {}, patternProperties = {} }: JsonSchema): Check {
  const check = compile(allowed as JsonSchema | boolean)
  const patterns = Object.keys(patternProperties as object).map((source) => new RegExp(source, 'u'))
  const isOther = (name: string): boolean => !Object.hasOwn(properties as object, name) && !patterns.some((pattern) => pattern.test(name))
  return (value, path, scope) => {
    if (!isObject(value)) return undefined
    for (const name of Object.keys(value).filter(isOther)) {
      if (allowed === false) {
        return `${path} has no parameter ${JSON.stringify(name)}; there are ${Object.keys(properties as object).join(', ') || 'none'}`
      }
      const wrong = check(value[name], path + step(name), scope)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
}

function patternPropertiesCheck (schemas: unknown): Check {
  const known = Object.entries(schemas as Record<string, JsonSchema>).map(([source, schema]) => ({ pattern: new RegExp(source, 'u'), check: compile(schema) }))
  return (value, path, scope) => {
    for (const [name, item] of isObject(value) ? Object.entries(value) : []) {
      for (const { pattern, check } of known) {
        const wrong = pattern.test(name) ? check(item, path + step(name), scope) : undefined
        if (wrong !== undefined) return wrong
      }
    }
    return undefined
  }
}

function itemsCheck (schema: unknown): Check {
  const check = compile(schema as JsonSchema | boolean)
  return (value, path, scope) => {
    for (const [i, item] of isArray(value) ? value.entries() : []) {
      const wrong = check(item, `${path}[${i}]`, scope)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
}

const eachOf = (schemas: unknown): Check[] => (schemas as Array<JsonSchema | boolean>).map((schema) => compile(schema))
const fits = (checks: Check[], value: unknown, path: string, scope: Scope): number =>
  checks.filter((check) => check(value, path, scope) === undefined).length

function refCheck (ref: unknown): Check {
  const unescape = (name: string): string => decodeURIComponent(name).replace(/~1/g, '/').replace(/~0/g, '~')
  const path = /^#(\/.*)?$/.exec(String(ref))?.[1]?.slice(1).split('/').map(unescape) ?? []
  if (!String(ref).startsWith('#')) throw new TypeError(`$ref ${shown(ref)} leads out of the schema`)
  let found: Check | undefined
  return (value, at, scope) => {
    if (scope.depth > DEPTH_MAX) return `${at} is nested deeper than ${DEPTH_MAX}`
    found ??= compile(path.reduce<unknown>((schema, name) => isObject(schema) ? schema[name] : undefined, scope.root) as JsonSchema)
    return found(value, at, { ...scope, depth: scope.depth + 1 })
  }
}

const keywords: Record<string, (bound: unknown, schema: JsonSchema) => Check> = {
  type: (bound) => {
    const names = [bound].flat() as string[]
    for (const name of names) if (typeTests[name] === undefined && name !== 'any') throw new TypeError(`there is no type ${shown(name)}`)
    return (value, path) => names.some((name) => name === 'any' || typeTests[name]?.(value)) ? undefined : `${path} must be ${names.join(' or ')}, not ${typeOf(value)}`
  },
  enum: (bound) => (value, path) => (bound as unknown[]).some((one) => equal(one, value)) ? undefined : `${path} must be one of ${shown(bound)}`,
  const: (bound) => (value, path) => equal(bound, value) ? undefined : `${path} must be ${shown(bound)}`,
  minimum: about(isNumber, (value, bound: number) => value >= bound, (bound) => `must be at least ${String(bound)}`),
  maximum: about(isNumber, (value, bound: number) => value <= bound, (bound) => `must be at most ${String(bound)}`),
  exclusiveMinimum: about(isNumber, (value, bound: number) => value > bound, (bound) => `must be more than ${String(bound)}`),
  exclusiveMaximum: about(isNumber, (value, bound: number) => value < bound, (bound) => `must be less than ${String(bound)}`),
  multipleOf: about(isNumber, (value, bound: number) => Number.isInteger(Number(value) / bound), (bound) => `must be a multiple of ${String(bound)}`),
  minLength: about(isString, (value, bound: number) => lengthOf(value) >= bound, (bound) => `must have at least ${String(bound)} characters`),
  maxLength: about(isString, (value, bound: number) => lengthOf(value) <= bound, (bound) => `must have at most ${String(bound)} characters`),
  pattern: patternCheck,
  minItems: about(isArray, (value, bound: number) => value.length >= bound, (bound) => `must have at least ${String(bound)} items`),
  maxItems: about(isArray, (value, bound: number) => value.length <= bound, (bound) => `must have at most ${String(bound)} items`),
  uniqueItems: (bound) => (value, path) =>
    bound !== true || !isArray(value) || value.every((item, i) => !value.slice(0, i).some((one) => equal(one, item)))
      ? undefined
      : `${path} must not hold a value twice`,
  items: itemsCheck,
  minProperties: about(isObject, (value, bound: number) => Object.keys(value).length >= bound, (bound) => `must have at least ${String(bound)} members`),
  maxProperties: about(isObject, (value, bound: number) => Object.keys(value).length <= bound, (bound) => `must have at most ${String(bound)} members`),
  properties: propertiesCheck,
  patternProperties: patternPropertiesCheck,
  additionalProperties: additionalCheck,
  // `required: true` inside a parameter is an older habit, which does not restrict its value.
  required: (bound) => (value, path) => {
    if (!isObject(value) || !Array.isArray(bound)) return undefined
    const missing = (bound as string[]).find((name) => !Object.hasOwn(value, name) || value[name] === undefined)
    return missing === undefined ? undefined : `${path}${step(missing)} is missing`
  },
  allOf: (bound) => {
    const checks = eachOf(bound)
    return (value, path, scope) => {
      for (const check of checks) {
        const wrong = check(value, path, scope)
        if (wrong !== undefined) return wrong
      }
      return undefined
    }
  },
  anyOf: (bound) => {
    const checks = eachOf(bound)
    return (value, path, scope) => fits(checks, value, path, scope) > 0 ? undefined : `${path} fits none of the ${checks.length} alternatives`
  },
  oneOf: (bound) => {
    const checks = eachOf(bound)
    return (value, path, scope) => fits(checks, value, path, scope) === 1 ? undefined : `${path} must fit exactly one of ${checks.length} alternatives`
  },
  not: (bound) => {
    const check = compile(bound as JsonSchema)
    return (value, path, scope) => check(value, path, scope) === undefined ? `${path} must not be so` : undefined
  },
  $ref: refCheck
}

function compile (schema: JsonSchema | boolean): Check {
  if (typeof schema === 'boolean') return (_, path) => schema ? undefined : `${path} must not be there`
  if (!isObject(schema)) throw new TypeError(`a schema must be an object, true or false, not ${typeOf(schema)}`)
  const checks = Object.entries(schema).filter(([name]) => !ANNOTATIONS.has(name)).map(([name, bound]) => {
    const make = Object.hasOwn(keywords, name) ? keywords[name] : undefined
    if (make === undefined) throw new TypeError(`the keyword ${shown(name)} of JSON Schema is not known here`)
    try {
      return make(bound, schema)
    } catch (thrown) {
      throw new TypeError(`${name}: ${(thrown as Error).message}`)
    }
  })
  return (value, path, scope) => {
    for (const check of checks) {
      const wrong = check(value, path, scope)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
}

/** Describes the fault of a value; undefined if it has none. */
export function schemaCheck (schema: JsonSchema, name = 'params'): (value: unknown) => string | undefined {
  const check = compile(schema)
  return (value) => check(value, name, { root: schema, depth: 0 })
}
