// Globals and modules of the host: functions that call it, values, expressions; and import(). A
// function of `host` (the kit) run in the guest's realm. Node's side gets numbers, and values that
// it passes to the encoder.
'use strict'
const { coded, define, defineProperty, describe, getOwnPropertyDescriptor, getPrototypeOf, holdsErrors, isObject, isOwn, own, ownKeys, rebuild } = host
const { Array, Infinity, JSON, Map, Object, Promise, Set, TypeError } = globalThis
const rootPrototype = Object.prototype
const then = host.uncurry(Promise.prototype.then)
const mapEach = host.uncurry(Map.prototype.forEach)
const setEach = host.uncurry(Set.prototype.forEach)
const setHas = host.uncurry(Set.prototype.has)
const setAdd = host.uncurry(Set.prototype.add)
const isArray = Array.isArray

// -- finding unsendable values

const step = (key) => typeof key === 'number' ? `[${key}]` : /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
function pathOf (node) {
  let path = ''
  for (let at = node; at.parent !== undefined; at = at.parent) path = step(at.key) + path
  return `$${path}`
}

// An error's stack is made on first access, with frames of the accessing realm: so access it here.
function format (error) {
  try {
    return error.stack
  } catch {}
}

// Visits the content of a container, without running the guest's getters: the encoder runs them.
function inside (value, visit) {
  if (isArray(value)) {
    for (let i = 0; i < value.length; i++) visit(value[i], i)
    return
  }
  const prototype = getPrototypeOf(value)
  const kind = prototype === rootPrototype ? '' : host.kind(value)
  if (kind === 'Error') {
    format(value)
    if (holdsErrors(value)) visit(value.errors, 'errors')
  }
  let i = 0
  if (kind === 'Map') {
    mapEach(value, (item, key) => {
      visit(key, i)
      visit(item, i++)
    })
  } else if (kind === 'Set') {
    setEach(value, (item) => visit(item, i++))
  } else if (host.typedName(value) === undefined) {
    for (const key of ownKeys(value)) {
      const property = getOwnPropertyDescriptor(value, key)
      if (typeof key === 'string' && property?.enumerable && 'value' in property) visit(property.value, key)
    }
  }
}

function whatOf (value) {
  if (typeof value === 'function') return 'function'
  if (typeof value === 'symbol') return 'symbol'
  return typeof value === 'object' && value !== null && host.kind(value) === 'Promise' ? 'promise' : undefined
}

const NONE = { __proto__: null }

// The first thing of one of these sorts, anywhere inside: `{what, path}` or undefined.
function find (root, sorts, visit = undefined) {
  const seen = new Set()
  const open = [{ value: root, key: undefined, parent: undefined }]
  for (let count = 1; count > 0;) {
    const node = open[--count]
    const what = whatOf(node.value)
    if (sorts[what] === true) return { what, path: pathOf(node) }
    if (what !== undefined || !isObject(node.value) || setHas(seen, node.value) || host.kind(node.value) === 'Proxy') continue
    setAdd(seen, node.value)
    visit?.(node.value)
    inside(node.value, (value, key) => {
      if (isObject(value) || typeof value === 'symbol') define(open, count++, { value, key, parent: node })
    })
  }
}

const everything = (root) => (visit) => { find(root, NONE, visit) }

// -- calls

const pending = { __proto__: null }
let last = 0
let preparing = false

// A promise that Node's side settles by its number.
function ask (start) {
  const id = ++last
  const promise = new Promise((resolve, reject) => { pending[id] = { resolve, reject } })
  try {
    start(id)
  } catch (thrown) {
    take(id).reject(thrown)
  }
  return promise
}

function take (id) {
  const found = pending[id]
  delete pending[id]
  return found
}

const ARGUMENT_SORTS = { __proto__: null, function: true }
const nameOf = (target) => target.slice(1).join('.')

function call (target, number, args) {
  return ask((id) => {
    if (preparing) throw coded('ERR_PREFIX_BRIDGE_CALL', `${nameOf(target)} cannot be called while the prefix is prepared`)
    const bad = find(args, ARGUMENT_SORTS)
    if (bad === undefined) {
      const bodies = host.takeBodies(everything(args), Infinity)
      const send = () => {
        host.bridge(id, number, args)
        bodies.start()
      }
      if (bodies.reading === undefined) send()
      else then(bodies.reading, send, (thrown) => take(id).reject(thrown))
      return
    }
    const thrown = coded('ERR_FUNCTION_ARGUMENT_NOT_SUPPORTED', `${nameOf(target)}: a function cannot be an argument (${bad.path})`)
    host.fatal(describe(thrown))
    throw thrown
  })
}

function stub (target, shim) {
  const number = host.target(JSON.stringify(target))
  const shown = target.slice()
  const name = shown[shown.length - 1]
  const fn = shim === undefined
    ? (...args) => call(shown, number, args)
    : (...args) => then(call(shown, number, args), shim)
  defineProperty(fn, 'name', { __proto__: null, value: name, configurable: true })
  return fn
}

// -- declarations

const has = (object, key) => getOwnPropertyDescriptor(object, key) !== undefined
const isConstant = (declaration) => declaration.kind === 'value' || declaration.kind === 'expression'

function make (declaration, target) {
  switch (declaration.kind) {
    case 'function': return stub(target)
    case 'value': return declaration.value
    case 'object': return makeObject(declaration.members, target)
    case 'expression': return host.compile(declaration.text, nameOf(target))
    case 'shim': return stub(target, host.compile(declaration.text, nameOf(target)))
  }
  throw new TypeError(`${nameOf(target)}: unknown kind of declaration`)
}

function makeObject (members, target) {
  const made = {}
  for (const name of Object.keys(members)) place(made, name, members[name], [...target, name])
  return made
}

function place (owner, name, declaration, target) {
  const value = make(declaration, target)
  const free = !isConstant(declaration)
  const enumerable = !has(declaration, 'enumerable') || declaration.enumerable !== false
  defineProperty(owner, name, { __proto__: null, value, writable: free, enumerable, configurable: free })
}

const reserved = { __proto__: null, globalThis: true, undefined: true, NaN: true, Infinity: true }
function declare (globals) {
  for (const name of host.provided) reserved[name] = true

  for (const name of Object.keys(globals)) {
    if (reserved[name] === true) throw coded('ERR_RESERVED_NAME', `the global "${name}" is reserved`)
    place(globalThis, name, globals[name], ['global', name])
  }
}

// -- entry points for Node's side; none of these throws

const EXPORT_SORTS = { __proto__: null, function: true, symbol: true, promise: true }
function collect (namespace) {
  const exports = {}
  for (const key of ownKeys(namespace)) if (typeof key === 'string') define(exports, key, namespace[key])
  const bad = find(exports, EXPORT_SORTS)
  return bad === undefined ? { __proto__: null, exports } : { __proto__: null, bad: `${bad.path}: a ${bad.what} cannot be exported` }
}

const attempt = (fn) => (a, b) => {
  try {
    return { __proto__: null, value: fn(a, b) }
  } catch (thrown) {
    return { __proto__: null, failed: describe(own(thrown)) }
  }
}

return {
  ask,
  exportedBodies: attempt((exports, most) => host.takeExported(everything(exports), most)),
  importer: (specifier) => ask((id) => host.load(id, `${specifier}`)),
  declare: attempt(declare),
  member: attempt((declaration, target) => make(declaration, JSON.parse(target))),
  collect: attempt(collect),
  resolve: (id, value) => take(id)?.resolve(value),
  // The reason is an error of the host, or one of this realm that the encoder threw.
  reject (id, name, message, fields) { take(id)?.reject(rebuild(name, message, fields)) },
  rejectWith (id, thrown) { take(id)?.reject(isObject(thrown) && !isOwn(thrown) ? own(thrown) : thrown) },
  rejectCoded (id, code, name, message) { take(id)?.reject(coded(code, message, name)) },
  setPreparing (value) { preparing = value },
  format,
  describeOwn: (thrown) => describe(own(thrown)),
  owns: (value) => isObject(value) && isOwn(value),
  // Formats the stacks inside, here: Error.prepareStackTrace is the guest's.
  touch: attempt((value) => find(value, NONE))
}
