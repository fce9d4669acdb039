'use strict'
// Maps source text to the function to call, or to the value of code that is the function's body.
const { createRequire, builtinModules, Module } = require('node:module')
const path = require('node:path')
const { pathToFileURL } = require('node:url')
const vm = require('node:vm')
const packagesOnFirstUse = () => require('./packages.cjs') // only notebooks use it

const isCallable = (value) => typeof value === 'function' && !/^class\b/.test(Function.prototype.toString.call(value))
const isClass = (value) => typeof value === 'function' && !isCallable(value)
const isName = (text) => /^[A-Za-z_$][\w$]*$/.test(text)
const isPublic = (name) => !name.startsWith('_')

let userCodeBegins = () => {}
const beforeUserCode = (fn) => { userCodeBegins = fn }

// The host's modules for import, by specifier: namespaces.
const offered = new Map()
const offer = (specifier, namespace) => offered.set(specifier, namespace)

// Node's own, from the working directory: also packages that are modules only.
let plainImport
function makePlainImport () {
  const { USE_MAIN_CONTEXT_DEFAULT_LOADER: loader } = vm.constants ?? {} // Node 20.12
  return loader && new vm.Script('(specifier, attributes) => import(specifier, attributes)', { importModuleDynamically: loader }).runInThisContext()
}

// Files of a compiled language: the object that its files.cjs makes.
let files
const useFiles = (made) => { files = made }

// TypeScript imports JSON without an attribute. Older versions of Node call attributes assertions.
function bring (url, attributes) {
  const given = files !== undefined && `${url}`.endsWith('.json') ? { type: 'json', ...attributes } : attributes ?? {}
  return Object.keys(given).length > 0 ? import(url, { with: given, assert: given }) : import(url)
}

// Node's own resolution from the working directory: the host's modules, built-ins, virtual files, node_modules.
function importer (file, require) {
  const isElsewhere = (specifier) => offered.has(specifier) || builtinModules.includes(specifier.replace(/^node:/, '')) || /^(file|data):/.test(specifier)
  const importModule = async (specifier, referrer, attributes) => {
    if (offered.has(specifier)) return offered.get(specifier)
    if (isElsewhere(specifier)) return bring(specifier, attributes)
    const own = importModule.own(specifier)
    return own === undefined ? bring(pathToFileURL(require.resolve(specifier)), attributes) : run(own)
  }
  importModule.own = (specifier) => isElsewhere(specifier) ? undefined : files?.module(specifier, require)
  return importModule
}

function requirer (file) {
  const require = createRequire(file)
  if (offered.size === 0) return require
  return Object.assign((specifier) => offered.has(specifier) ? offered.get(specifier) : require(specifier), require)
}

// By module: its importer, and the modules found so far. V8 keeps its half of a linked module,
// Node's goes with the JavaScript object: a garbage collection between linking and evaluating an
// otherwise unreferenced SyntheticModule is a SIGSEGV (Node 20).
const importers = new WeakMap()
function sourceModule (code, file, importModule) {
  const options = { identifier: file, importModuleDynamically: importModule, initializeImportMeta (meta) { meta.url = pathToFileURL(file).href } }
  const module = new vm.SourceTextModule(code, options)
  importers.set(module, { importModule, imported: [] })
  return module
}

// One at a time: two that link a shared module would each find the other's work half done.
let linking = Promise.resolve()
function link (module) {
  const step = linking.then(() => module.status === 'unlinked' ? module.link(imported) : undefined)
  linking = step.catch(() => files?.forget())
  return step
}

async function imported (specifier, from, { attributes, assert } = {}) {
  const importer = importers.get(from)
  const module = importer.importModule.own(specifier) ?? synthetic(specifier, await importer.importModule(specifier, from, attributes ?? assert))
  importer.imported.push(module)
  return module
}

async function run (module) {
  await link(module)
  userCodeBegins()
  await module.evaluate()
  return module.namespace
}

const loadModule = (code, file, importModule) => run(sourceModule(code, file, importModule))

function synthetic (identifier, members) {
  const names = Object.keys(members)
  return new vm.SyntheticModule(names, function () { for (const name of names) this.setExport(name, members[name]) }, { identifier })
}

// A module that exports the members.
async function namespaceOf (specifier, members) {
  const module = synthetic(specifier, members)
  await module.link(() => {})
  await module.evaluate()
  return module.namespace
}

// An unclosed bracket is found only in the text that the agent appends: the error then has a line
// that the user does not have. The code alone, or with nothing appended, fails with the engine's
// own message at the user's place.
function compiled (code, whole, alone) {
  try {
    return whole()
  } catch (thrown) {
    if (lineOf(thrown) > code.split('\n').length) alone()
    throw thrown
  }
}

const lineOf = (thrown) => Number(/^[^\n]*:(\d+)\n/.exec(thrown.stack)?.[1] ?? 0)

const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname', 'args', 'kwargs', '$find']

// As a CommonJS module, whose scope stays open for looking names up: `$find` takes the eval of its end.
function loadScript (code, names, given, importModule) {
  let evaluate
  const values = [...valuesOf(given), (fn) => { evaluate = fn }]
  const make = (text) => vm.compileFunction(text, PARAMETERS, { filename: given.shown, importModuleDynamically: importModule })
  const fn = compiled(code, () => make(`${code}\n;$find((name) => eval(name))`), () => make(code))
  userCodeBegins()
  fn.apply(given.module.exports, values)
  return (name) => {
    try {
      return evaluate?.(name)
    } catch (thrown) {
      if (thrown instanceof ReferenceError) return undefined
      throw thrown
    }
  }
}

// Code that is a function's body. With return or await it is one; else its last expression is the value.
function runBody (code, given, facts, importModule) {
  const options = { filename: given.shown, importModuleDynamically: importModule }
  const values = valuesOf(given)
  userCodeBegins()
  if (!facts.hasReturn && !facts.hasAwait) {
    expose(values)
    // In a block the code's declarations do not collide with those of a set-up.
    const text = prepared ? `{${code}\n}` : code
    const whole = () => new vm.Script(text, prepared ? { ...options, columnOffset: -1 } : options)
    return compiled(code, whole, () => new vm.Script(code, options)).runInThisContext()
  }
  const head = `(async function (${PARAMETERS.slice(0, -1).join(', ')}) {`
  const text = facts.hasReturn ? code : withReturn(code)
  return asynchronous(code, head, `${text}\n})`, options, facts.hasAwait).runInThisContext().apply(undefined, values)
}

// A body that awaits compiles in an async function only, whose head has a line of its own: the
// first line shown is the user's.
function asynchronous (code, head, rest, options, hasAwait) {
  const make = (text) => new vm.Script(`${head}\n${text}`, { ...options, lineOffset: -1 })
  const alone = hasAwait ? () => make(code) : () => vm.compileFunction(code, PARAMETERS, { filename: options.filename })
  return compiled(code, () => make(rest), alone)
}

// The last line's expression becomes the value of a body with await if the body compiles with a return before it.
function withReturn (code) {
  const lines = code.trimEnd().split('\n')
  const last = lines.pop()
  const changed = [...lines, last.replace(/^(\s*)/, '$1return ')].join('\n')
  try {
    return new vm.Script(`(async () => {${changed}\n})`) && changed
  } catch {
    return code
  }
}

function reach (root, parts, whole) {
  let self
  let value = root
  for (const part of parts) {
    self = value
    value = value === undefined || value === null ? undefined : value[part]
  }
  if (!isCallable(value)) throw new TypeError(`'${whole}' is not a function`)
  return { fn: value, self }
}

function chooseOne (candidates, get) {
  const found = [...new Set(candidates)].filter((name) => isPublic(name) && isCallable(get(name)))
  if (found.length > 1) throw new TypeError(`the code defines several public functions (${found.join(', ')}): name one`)
  return found[0]
}

function byName (wanted, get, known) {
  const [first, ...rest] = wanted.split('.')
  const root = isName(first) || first === 'default' ? get(first) : undefined
  if (root === undefined) {
    const names = known.filter((name) => isCallable(get(name)))
    throw new ReferenceError(`function '${wanted}' is not defined in the code; it defines: ${names.join(', ') || 'none'}`)
  }
  if (rest.length) return reach(root, rest, wanted)
  if (!isCallable(root)) throw new TypeError(`'${wanted}' is not a function`)
  return { fn: root, self: undefined }
}

const hasArguments = ({ args, kwargs }) => args?.length > 0 || Object.keys(kwargs ?? {}).length > 0
const classOf = (space, names) => names.find((name) => isClass(space[name]))

// Code that only defines a class would drop its arguments silently.
function refuseUnused (given, name) {
  if (name === undefined || !hasArguments(given)) return
  throw new TypeError(`the code defines no function that could take the arguments, but the class ${name}: define a function that uses it`)
}

async function fromModule (code, given, wanted, importModule) {
  const space = await loadModule(code, given.shown, importModule)
  const get = (name) => space[name]
  const known = Object.keys(space)
  const name = wanted ?? (isCallable(space.default) ? 'default' : chooseOne(known, get))
  if (name === undefined) {
    if (space.default === undefined || isClass(space.default)) refuseUnused(given, classOf(space, known))
    return { body: true, value: space.default }
  }
  return byName(name, get, known)
}

function fromScript (code, given, wanted, facts, importModule) {
  const find = loadScript(code, facts.functions, given, importModule)
  const { exports } = given.module
  const exported = isCallable(exports) ? [] : Object.keys(exports ?? {})
  const get = (name) => exported.includes(name) ? exports[name] : find(name)
  if (wanted === null && isCallable(exports)) return { fn: exports, self: undefined }
  const known = exported.length ? exported : facts.functions
  const name = wanted ?? chooseOne(known, get)
  if (name === undefined) return undefined
  return byName(name, get, [...new Set([...known, ...facts.functions])])
}

function givenFor (filename, request) {
  const file = path.join(process.cwd(), filename)
  const module = { exports: {}, id: '.', filename: file, loaded: false, children: [], paths: [] }
  return { module, require: requirer(file), file, shown: filename, args: request?.args, kwargs: request?.kwargs }
}

const valuesOf = (given) => [given.module.exports, given.require, given.module, given.file, path.dirname(given.file), given.args, given.kwargs]
const expose = (values) => {
  PARAMETERS.slice(0, -1).forEach((name, i) => Object.defineProperty(globalThis, name, { value: values[i], writable: true, configurable: true }))
}
// After rehearsals.
function withdraw () {
  for (const name of [...PARAMETERS, '$warm']) delete globalThis[name]
  offered.clear()
}

async function load (code, filename, wanted, request, scan) {
  const facts = scan(code)
  const given = givenFor(filename, request)
  const importModule = importer(given.file, given.require)
  if (facts.isModule) return fromModule(code, given, wanted, importModule)
  if (wanted !== null || facts.functions.some(isPublic) || facts.usesExports) {
    const found = fromScript(code, given, wanted, facts, importModule)
    if (found) return found
    const { exports } = given.module
    refuseUnused(given, isClass(exports) ? exports.name || 'of module.exports' : classOf(exports ?? {}, Object.keys(exports ?? {})))
    return { body: true, value: undefined }
  }
  request.isBody()
  if (hasArguments(given)) refuseUnused(given, scan.onlyClass(code))
  return { body: true, value: runBody(code, given, facts, importModule) }
}

// -- set-up: its top-level declarations, or its exports, are global for the code that runs after it

let prepared = false
const publish = (space) => {
  for (const name of Object.keys(space)) {
    if (name !== 'default') Object.defineProperty(globalThis, name, { value: space[name], writable: true, enumerable: true, configurable: true })
  }
}

async function prepare (code, filename, scan, isScript) {
  const facts = scan(code)
  const given = givenFor(filename)
  if (isScript) given.require.main = given.module
  const importModule = importer(given.file, given.require)
  prepared = true
  if (facts.isModule) return publish(await loadModule(code, given.shown, importModule))
  expose(valuesOf(given).slice(0, 5))
  userCodeBegins()
  const options = { filename: given.shown, importModuleDynamically: importModule }
  if (facts.hasAwait) publish(await awaiting(code, facts, options))
  else new vm.Script(code, options).runInThisContext({ displayErrors: false })
  const { exports } = given.module
  if (exports !== null && typeof exports === 'object') publish(exports)
}

const compiles = (code) => {
  try {
    return new vm.Script(code) !== undefined
  } catch {
    return false
  }
}

// A script has no await at its top, an async function has; its names are exported at its end.
function awaiting (code, facts, options) {
  const names = [...new Set([...facts.functions, ...facts.bindings])].filter(isName)
  const head = '(async () => {'
  return asynchronous(code, head, `${code}\n;return { ${names.join(', ')} }\n})`, options, facts.hasAwait).runInThisContext()()
}

// The globals that cells have of a module whose file would be in the working directory.
function notebook (filename) {
  const packages = packagesOnFirstUse()
  const given = givenFor(filename)
  const { module, file } = given
  const folderOf = (specifier) => packages.isBare(specifier) ? packages.folderOf(specifier, given.require.resolve.paths(specifier), file) : ''
  const require = Object.assign((specifier) => {
    if (!offered.has(specifier) && folderOf(specifier) === undefined) throw packages.notFound(specifier, file)
    return given.require(specifier)
  }, given.require, { main: module })
  const importOne = importer(file, given.require)
  plainImport ??= makePlainImport()
  const importModule = async (specifier, attributes) => {
    if (plainImport === undefined || offered.has(specifier) || importOne.own(specifier) !== undefined) return importOne(specifier)
    const folder = folderOf(specifier)
    if (folder === undefined) throw packages.noPackage(specifier, file)
    if (Module.globalPaths.includes(folder)) return importOne(specifier) // Node's own does not look there
    return plainImport(specifier, attributes)
  }
  return { require, module, exports: module.exports, __filename: file, __dirname: path.dirname(file), importModule }
}

module.exports = { load, notebook, prepare, withdraw, importer, loadModule, sourceModule, synthetic, namespaceOf, offer, useFiles, beforeUserCode, compiles }
