'use strict'
// Files in TypeScript that the code imports or requires: `./lib`, `./lib.ts`, and `./lib.js` where there is a lib.ts instead.
const fs = require('node:fs')
const Module = require('node:module')

const EXTENSIONS = ['.ts', '.mts', '.cts']
const DECLARATIONS = /\.d\.[cm]?ts$/

function makeFiles ({ translate, scan, program }) {
  const modules = new Map()
  const read = (file) => DECLARATIONS.test(file) ? '' : translate(fs.readFileSync(file, 'utf8'), file)

  function resolve (specifier, require) {
    try {
      return require.resolve(specifier)
    } catch (thrown) {
      const other = specifier.replace(/\.([cm]?)js$/, '.$1ts')
      if (thrown?.code !== 'MODULE_NOT_FOUND' || other === specifier) throw thrown
      return require.resolve(other)
    }
  }

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
    // Not linked; undefined when the file is not in TypeScript.
    module (specifier, require) {
      const file = resolve(specifier, require)
      if (!EXTENSIONS.some((extension) => file.endsWith(extension))) return undefined
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
