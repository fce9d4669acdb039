'use strict'
// TypeScript files that the code imports or requires: `./lib`, `./lib.ts`, and `./lib.js` if there
// is a lib.ts instead; and names mapped by tsconfig.json.
const fs = require('node:fs')
const Module = require('node:module')
const packages = require('./packages.cjs')

const EXTENSIONS = ['.ts', '.tsx', '.mts', '.cts', '.jsx']
const DECLARATIONS = /\.d\.[cm]?ts$/
const isOwn = (file) => EXTENSIONS.some((extension) => file.endsWith(extension))
const mapped = (specifier, file) => require('./tsconfig.cjs').mapped(specifier, file) // loaded on first use
const isNoPath = (specifier) => !/^(\.{0,2}\/|\.{1,2}$)/.test(specifier) && !Module.builtinModules.includes(specifier.replace(/^node:/, ''))

// The names under which a file may be found for a specifier of a file in TypeScript.
const namesOf = (specifier, file) => [...isNoPath(specifier) ? mapped(specifier, file) : [], specifier]
  .flatMap((name) => [name, ...['.$1ts', '.$1tsx'].map((other) => name.replace(/\.([cm]?)jsx?$/, other))].filter((one, i, all) => all.indexOf(one) === i))

const { _resolveFilename: resolvePlainly } = Module
Module._resolveFilename = { _resolveFilename (specifier, parent, ...rest) {
  const resolve = (name) => {
    if (packages.isBare(name) && packages.folderOf(name, Module._resolveLookupPaths(name, parent), parent?.filename) === undefined) throw packages.notFound(name, parent?.filename)
    return resolvePlainly.call(this, name, parent, ...rest)
  }
  if (!isOwn(parent?.filename ?? '')) return resolve(specifier)
  for (const name of namesOf(specifier, parent.filename)) {
    try {
      return resolve(name)
    } catch (thrown) {
      if (thrown?.code !== 'MODULE_NOT_FOUND' && !`${thrown?.code}`.startsWith('ERR_')) throw thrown
    }
  }
  return resolve(specifier) // which fails, with its own message
} }._resolveFilename

function makeFiles ({ translate, scan, program }) {
  const modules = new Map()
  const read = (file) => DECLARATIONS.test(file) ? '' : translate(fs.readFileSync(file, 'utf8'), file)

  function make (file) {
    const code = read(file)
    const require = Module.createRequire(file)
    if (scan(code).isModule) return program.sourceModule(code, file, program.importer(file, require))
    const exports = require(file)
    return program.synthetic(file, { ...exports, default: exports })
  }

  for (const extension of EXTENSIONS) {
    Module._extensions[extension] = (module, file) => {
      const code = read(file)
      if (scan(code).isModule) throw new TypeError(`${file} is an ES module: it can be imported, not required`)
      module._compile(code, file)
    }
  }

  return {
    // Not linked; undefined if the file is not in TypeScript.
    module (specifier, require) {
      const file = require.resolve(specifier)
      if (!isOwn(file)) return undefined
      if (!modules.has(file)) modules.set(file, make(file))
      return modules.get(file)
    },
    // Half linked modules cannot be used again.
    forget () {
      for (const [file, { status }] of modules) if (status === 'unlinked' || status === 'linking') modules.delete(file)
    }
  }
}

module.exports = { makeFiles }
