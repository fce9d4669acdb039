'use strict'
// The modules of a bare realm: the code, its imports, and nothing else. Each specifier has one
// module, shared by the prefix and the code that runs after it.
const vm = require('node:vm')
const { locate } = require('./realm-locate.cjs')
const { withoutImports } = require('./realm-imports.cjs')

const IMPORTER = 'cloche:import'
const ASYNC_HOOKS = 'node:async_hooks'
// Its evaluation prints the lines of the set-up's console.
const SET_UP = 'cloche:set-up'
const RUNTIMES = ['iso4:runtime', 'cloche:runtime']

// A failure in the contract's terms: the agent's own, or the description of an error of the guest's realm.
class Failure {
  #ours // checked by this: instanceof would call a proxy of the guest's

  static is (value) { return typeof value === 'object' && value !== null && #ours in value }

  constructor (code, name, message, stack, fields) {
    Object.assign(this, { code, name, message, stack, fields })
  }

  static of ({ code, name, message, stack, fields }) {
    return new Failure(code, name, message, stack, fields)
  }
}

// A module failed when it was evaluated, and fails so for every importer.
class Errored {
  #ours

  static is (value) { return typeof value === 'object' && value !== null && #ours in value }

  constructor (error) { this.error = error }
}

class Modules {
  constructor (context, guest, language, showLines) {
    this.showLines = showLines
    this.context = context
    this.guest = guest
    this.language = language
    this.found = new Map()
    this.declared = new Map()
    this.linking = Promise.resolve()
    this.importer = this.synthetic(IMPORTER, ['load'], () => [guest.importer])
    this.allowBuiltIns = true
    this.fresh = []
  }

  synthetic (specifier, names, valuesOf) {
    return new vm.SyntheticModule(names, function () {
      valuesOf().forEach((value, i) => this.setExport(names[i], value))
    }, { context: this.context, identifier: specifier })
  }

  declare (imports) {
    for (const specifier of Object.keys(imports)) this.declared.set(specifier, imports[specifier])
  }

  withdraw (specifier) {
    this.declared.delete(specifier)
    this.found.delete(specifier)
  }

  // -- compiling

  source (code, identifier) {
    return new vm.SourceTextModule(code, { context: this.context, identifier })
  }

  compiles (code) {
    try {
      this.source(code, 'test')
      return true
    } catch {
      return false
    }
  }

  compile (given, identifier) {
    const code = this.translated(given, identifier)
    try {
      const module = this.source(code, identifier)
      const plain = withoutImports(code, (text) => this.compiles(text))
      if (plain.name === undefined) return module
      return this.source(`${plain.code}\n;import { load as ${plain.name} } from '${IMPORTER}'`, identifier)
    } catch (thrown) {
      throw this.compileFailure(thrown, identifier, code)
    }
  }

  translated (code, identifier) {
    try {
      return this.language.translate(code, identifier, true)
    } catch ({ message }) {
      throw new Failure('ERR_COMPILE', 'SyntaxError', message, `SyntaxError: ${message}`)
    }
  }

  compileFailure (thrown, identifier, code) {
    const { name, message } = this.guest.describeOwn(thrown)
    const stack = `${name}: ${message}\n    at ${identifier}${code === undefined ? '' : locate(code, message, identifier)}`
    const said = this.language.named(name, message)
    return new Failure('ERR_COMPILE', name, said, this.language.place(stack).replace(message, () => said))
  }

  // An expression of the host's, compiled into a value of the guest's realm.
  expression (text, identifier) {
    const body = `return (${text}\n)`
    const make = (code, params) => vm.compileFunction(code, params, { parsingContext: this.context, filename: identifier, columnOffset: -8 })
    const errorOf = (code) => {
      try {
        make(code, [])
      } catch (thrown) {
        return this.guest.describeOwn(thrown)
      }
    }
    const failed = errorOf(body)
    if (failed !== undefined) throw this.guest.coded('ERR_COMPILE', failed.message, failed.name)
    const compiles = (code) => errorOf(code) === undefined
    const plain = withoutImports(body, compiles)
    return make(plain.code, plain.name === undefined ? [] : [plain.name])(this.guest.importer)
  }

  // -- finding

  resolve (specifier, importedBy) {
    if (specifier === IMPORTER) return this.importer
    const known = this.found.get(specifier)
    if (known !== undefined && (specifier !== ASYNC_HOOKS || this.allowBuiltIns || this.declared.has(specifier))) return known
    const module = this.create(specifier)
    if (module === undefined) throw new Failure('ERR_MODULE_NOT_FOUND', 'TypeError', `Cannot find module '${specifier}'${importedBy ? ` imported from ${importedBy}` : ''}`)
    this.found.set(specifier, module)
    this.fresh.push(specifier)
    return module
  }

  create (specifier) {
    const declared = this.declared.get(specifier)
    if (declared !== undefined) return Object.hasOwn(declared, 'source') ? this.compile(declared.source, specifier) : this.hostModule(specifier, declared.members)
    if (RUNTIMES.includes(specifier)) return this.synthetic(specifier, ['waitUntil', 'graceMs'], () => [this.guest.waitUntil, this.guest.setGrace])
    if (specifier === SET_UP) {
      return this.synthetic(specifier, [], () => {
        this.showLines()
        return []
      })
    }
    if (specifier !== ASYNC_HOOKS || !this.allowBuiltIns) return undefined
    const { AsyncLocalStorage } = this.guest
    return this.synthetic(specifier, ['AsyncLocalStorage', 'default'], () => [AsyncLocalStorage, this.guest.asyncHooks])
  }

  hostModule (specifier, members) {
    const names = Object.keys(members)
    const values = names.map((name) => {
      const made = this.guest.member(members[name], JSON.stringify(['import', specifier, name]))
      if (made.failed) throw Failure.of(made.failed)
      return made
    })
    return this.synthetic(specifier, names, () => values.map((made) => made.value))
  }

  // -- linking and running

  // One at a time: two that link a shared module would each find the other's work half done.
  link (find) {
    const step = this.linking.then(() => this.linkNow(find))
    this.linking = step.catch(() => {})
    return step
  }

  async linkNow (find) {
    this.fresh = []
    let identifier
    try {
      const module = find()
      identifier = module.identifier
      if (module.status === 'unlinked') await module.link((specifier, from) => this.usable(this.resolve(specifier, from.identifier)))
      return module
    } catch (thrown) {
      // Half linked modules cannot be used again; the next import compiles them anew.
      for (const specifier of this.fresh) this.found.delete(specifier)
      if (Errored.is(thrown)) throw thrown.error
      throw Failure.is(thrown) ? thrown : this.compileFailure(thrown, identifier)
    }
  }

  usable (module) {
    if (module.status === 'errored') throw new Errored(module.error)
    return module
  }

  async load (specifier) {
    const module = await this.link(() => this.resolve(specifier))
    await module.evaluate()
    return { module }
  }
}

module.exports = { Failure, Modules }
