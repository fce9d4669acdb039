// From args, kwargs and schema of a request to the arguments of a call. A function of `host`, run in the agent's own realm.
'use strict'
const { types, scan } = host
const has = (object, key) => Object.prototype.hasOwnProperty.call(object, key)
const fail = (what) => { throw new host.TypeError(what) }
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)
const ANNOTATIONS = new Set(['description', 'title', 'examples', '$comment', 'format', 'deprecated', 'name', 'index', 'required', 'default'])

// -- types

function kindOf (value) {
  if (value === null || value === undefined) return 'null'
  if (Array.isArray(value)) return 'array'
  if (types.isUint8Array(value)) return 'bytes'
  if (typeof value === 'bigint') return 'integer'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

const matches = (type, value) => type === 'any' || kindOf(value) === type || (type === 'number' && kindOf(value) === 'integer')
const KNOWN = new Set(['string', 'number', 'integer', 'boolean', 'array', 'object', 'null', 'bytes', 'any'])

const checks = {
  type (wanted, value, path) {
    const list = [].concat(wanted)
    for (const type of list) if (!KNOWN.has(type)) fail(`schema of ${path}: unknown type ${JSON.stringify(type)}`)
    if (!list.some((type) => matches(type, value))) fail(`${path} must be ${list.join(' or ')}, not ${kindOf(value)}`)
  },
  enum (list, value, path) {
    if (!list.some((one) => one === value || JSON.stringify(one) === JSON.stringify(value))) fail(`${path} must be one of ${JSON.stringify(list)}`)
  },
  properties (wanted, value, path) {
    if (isObject(value)) for (const key of Object.keys(wanted)) if (has(value, key)) check(wanted[key], value[key], `${path}.${key}`)
  },
  items (wanted, value, path) {
    if (Array.isArray(value)) value.forEach((item, i) => check(wanted, item, `${path}[${i}]`))
  },
  additionalProperties (wanted, value, path, schema) {
    if (wanted !== false && wanted !== true) fail(`schema of ${path}: additionalProperties must be true or false`)
    if (wanted === false && isObject(value)) for (const key of Object.keys(value)) if (!has(schema.properties ?? {}, key)) fail(`${path} has an unknown property ${JSON.stringify(key)}`)
  },
  minimum (least, value, path) { if (kindOf(value) !== 'string' && value < least) fail(`${path} must be at least ${least}`) },
  maximum (most, value, path) { if (kindOf(value) !== 'string' && value > most) fail(`${path} must be at most ${most}`) },
  minLength (least, value, path) { if (typeof value === 'string' && value.length < least) fail(`${path} must have at least ${least} characters`) },
  maxLength (most, value, path) { if (typeof value === 'string' && value.length > most) fail(`${path} must have at most ${most} characters`) },
  pattern (pattern, value, path) { if (typeof value === 'string' && !new RegExp(pattern, 'u').test(value)) fail(`${path} must match ${pattern}`) }
}

function check (schema, value, path) {
  if (!isObject(schema)) fail(`schema of ${path} must be an object`)
  for (const key of Object.keys(schema)) {
    if (has(checks, key)) checks[key](schema[key], value, path, schema)
    else if (!ANNOTATIONS.has(key)) fail(`schema of ${path}: unknown keyword ${JSON.stringify(key)}`)
  }
  if (Array.isArray(schema.required) && isObject(value)) for (const key of schema.required) if (!has(value, key)) fail(`${path} lacks the property ${JSON.stringify(key)}`)
}

// -- what was given

// {positional, named}; args as an object are keywords, args as {index, value} items go by index.
function given ({ args, kwargs }) {
  const named = { __proto__: null }
  const add = (from) => {
    for (const key of Object.keys(from)) {
      if (key in named) fail(`argument '${key}' is given twice`)
      named[key] = from[key]
    }
  }
  let positional = []
  if (!Array.isArray(args)) add(args)
  else if (args.length && args.every((item) => isObject(item) && Object.keys(item).sort().join() === 'index,value')) {
    for (const { index, value } of args) {
      if (!Number.isInteger(index) || index < 0 || index > 255) fail(`index ${index} of an argument must be a whole number from 0 to 255`)
      if (index in positional) fail(`the argument at index ${index} is given twice`)
      positional[index] = value
    }
  } else positional = Array.from(args)
  add(kwargs)
  return { positional, named }
}

// -- schema

// The parameters of either form, in order: {name, schema, required, default}.
function declared (schema) {
  if (Array.isArray(schema.params)) return schema.params.map((p) => ({ ...p, schema: p.type === undefined ? {} : { type: p.type } }))
  const { input } = schema
  if (Array.isArray(input)) return input.map((one, i) => ({ name: one.name ?? `arg${i}`, schema: one, required: one.required === true, ...(has(one, 'default') && { default: one.default }) }))
  if (!isObject(input)) return []
  const list = Object.keys(input).map((name, i) => ({ name, at: input[name].index ?? i, schema: input[name], required: input[name].required === true, ...(has(input[name], 'default') && { default: input[name].default }) }))
  return list.sort((a, b) => a.at - b.at)
}

const inputSchema = ({ schema }) => Array.isArray(schema.required) || schema.required === undefined ? schema : { ...schema, required: undefined }

function checkDeclared (schema, { positional, named }) {
  const params = declared(schema)
  const open = schema.acceptsKwargs || (schema.input !== undefined && !schema.strict)
  params.forEach((p, i) => {
    const isNamed = p.name in named
    if (isNamed && i in positional) fail(`argument '${p.name}' is given twice`)
    if (!isNamed && !(i in positional)) {
      if (has(p, 'default')) named[p.name] = p.default
      else if (p.required) fail(`missing required argument '${p.name}'`)
      return
    }
    check(inputSchema(p), isNamed ? named[p.name] : positional[i], `argument '${p.name}'`)
  })
  if (positional.length > params.length && !schema.variadic && (schema.params || schema.strict)) fail(`${positional.length} positional arguments, at most ${params.length} are taken`)
  for (const name of Object.keys(named)) if (!open && !params.some((p) => p.name === name)) fail(`unknown argument '${name}'`)
  return params
}

// -- binding

function place (params, { positional, named }) {
  const args = Array.from(positional)
  const rest = params.find((p) => p.rest)
  const last = params[params.length - 1]
  const options = { __proto__: null }
  for (const name of Object.keys(named)) {
    const at = params.findIndex((p) => p.name === name && !p.rest)
    if (at >= 0 && at in positional) fail(`argument '${name}' is given twice`)
    if (at >= 0) args[at] = named[name]
    else if (last?.isOptions && !(params.length - 1 in positional && !isObject(positional[params.length - 1]))) options[name] = named[name]
    else fail(`unknown argument '${name}'`)
  }
  if (Object.keys(options).length) args[params.length - 1] = Object.assign(new host.Object(), args[params.length - 1], options)
  if (Object.keys(named).length) {
    params.forEach((p, i) => {
      if (!p.rest && !p.optional && !p.isOptions && p.name && !(i in args)) fail(`missing required argument '${p.name}'`)
    })
  }
  if (!rest && args.length > params.length && Object.keys(named).length) fail(`${args.length} arguments, at most ${params.length} are taken`)
  return Array.from(args)
}

// {args, source} for a function and a request.
function bind (fn, request) {
  const have = given(request)
  const names = scan.parameters(Function.prototype.toString.call(fn))
  const bySchema = request.schema ? checkDeclared(request.schema, have) : undefined
  if (bySchema) {
    // The schema names the places; what kind of place each is, the function says.
    const params = bySchema.map((p, i) => ({ optional: !p.required, ...names?.[i], name: p.name }))
    if (names) params.push(...names.slice(params.length))
    return { args: place(params, have), source: 'schema' }
  }
  if (names) return { args: place(names, have), source: 'inferred' }
  const args = have.positional
  if (Object.keys(have.named).length) args.push(Object.assign(new host.Object(), have.named))
  return { args, source: 'convention' }
}

function checkOutput (schema, value) {
  if (schema?.output) check(schema.output, value, 'the result')
}

return { bind, checkOutput }
