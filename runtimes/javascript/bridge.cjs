'use strict'
// The host's declarations in the main realm of Node: globals, and modules for `import` and
// `require`. Host functions are async. The bare realm has a bridge of its own (realm-bridge.cjs).
const path = require('node:path')
const vm = require('node:vm')

const RESERVED = new Set(['globalThis', 'undefined', 'NaN', 'Infinity'])
const HIDDEN = new Set(['name', 'message', 'stack', '__proto__'])
const BUILT_IN = { __proto__: null, Error, AggregateError, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }
const nameOf = (target) => target.slice(1).join('.')

// The exception of a host function.
function errorOf ({ name, message, fields }) {
  const error = name === 'AggregateError' ? new AggregateError([], message) : new (BUILT_IN[name] ?? Error)(message)
  if (error.name !== name) Object.defineProperty(error, 'name', { value: name, writable: true, configurable: true })
  for (const key of Object.keys(fields ?? {})) if (!HIDDEN.has(key)) error[key] = fields[key]
  return error
}

const evaluate = (text, target) => new vm.Script(`(${text}\n)`, { filename: nameOf(target), columnOffset: -1 }).runInThisContext()

// ask(target, args): resolves to the value or rejects with {name, message, fields}.
function makeBridge ({ ask, program, translate }) {
  function stub (target, shim) {
    const fn = async (...args) => {
      let value
      try {
        value = await ask(target, args)
      } catch (thrown) {
        throw thrown instanceof Error ? thrown : errorOf(thrown)
      }
      return shim === undefined ? value : shim(value)
    }
    Object.defineProperty(fn, 'name', { value: target[target.length - 1], configurable: true })
    return fn
  }

  function make (declaration, target) {
    switch (declaration.kind) {
      case 'function': return stub(target)
      case 'value': return declaration.value
      case 'object': return members(declaration.members, target)
      case 'expression': return evaluate(declaration.text, target)
      case 'shim': return stub(target, evaluate(declaration.text, target))
    }
    throw new TypeError(`${nameOf(target)}: unknown kind of declaration`)
  }

  function place (owner, name, declaration, target) {
    const value = make(declaration, target)
    const free = declaration.kind !== 'value' && declaration.kind !== 'expression'
    Object.defineProperty(owner, name, { value, writable: free, enumerable: declaration.enumerable !== false, configurable: free })
  }

  function members (declared, target) {
    const made = {}
    for (const name of Object.keys(declared)) place(made, name, declared[name], [...target, name])
    return made
  }

  // Evaluated at once, so that `require` can have it too.
  async function addModule (specifier, declaration) {
    if (!Object.hasOwn(declaration, 'source')) {
      program.offer(specifier, await program.namespaceOf(specifier, members(declaration.members, ['import', specifier])))
      return
    }
    const file = path.join(process.cwd(), 'main.js')
    const { createRequire } = require('node:module')
    program.offer(specifier, await program.loadModule(translate(declaration.source, specifier), specifier, program.importer(file, createRequire(file))))
  }

  return async function declare (globals, imports) {
    for (const name of Object.keys(globals)) {
      if (RESERVED.has(name)) throw new TypeError(`the global "${name}" is reserved`)
      place(globalThis, name, globals[name], ['global', name])
    }
    const modules = Object.keys(imports)
    // Modules with a source may import modules without.
    for (const isSource of [false, true]) {
      for (const specifier of modules) if (Object.hasOwn(imports[specifier], 'source') === isSource) await addModule(specifier, imports[specifier])
    }
  }
}

module.exports = { makeBridge }
