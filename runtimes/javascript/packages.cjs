'use strict'
// Packages, before Node looks for them. It remembers for ever that a package has no package.json, so one that is installed after it
// was looked for would be found without its entry: a context does not ask Node for a package of which no directory has anything.
const fs = require('node:fs')
const { builtinModules } = require('node:module')
const path = require('node:path')

const ENDINGS = ['', '.js', '.json', '.node']

// `name`, `name/file` and `@scope/name`; neither a path, nor a URL, nor Node's own.
const isBare = (specifier) => typeof specifier === 'string' && /^[^./#]/.test(specifier) && !/^[a-z][a-z0-9+.-]*:/i.test(specifier) && !builtinModules.includes(specifier)
const packageOf = (specifier) => /^(?:@[^/]*\/)?[^/]*/.exec(specifier)[0]

// The package.json above the file names it: a package may import itself. One that cannot be read is for Node to complain about.
function isSelf (specifier, file) {
  const folder = path.dirname(file)
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')).name === packageOf(specifier)
  } catch (thrown) {
    if (thrown.code !== 'ENOENT') return true
    return folder !== file && isSelf(specifier, folder)
  }
}

// The first of these folders that has anything of it, or that of the file that is in it; undefined: Node would find nothing.
function folderOf (specifier, folders, file) {
  const has = (folder, name) => fs.existsSync(path.join(folder, name))
  const found = folders.find((folder) => has(folder, packageOf(specifier)) || ENDINGS.some((ending) => has(folder, specifier + ending)))
  return found ?? (file !== undefined && isSelf(specifier, file) ? path.dirname(file) : undefined)
}

// Node's own errors.
const notFound = (specifier, file) => Object.assign(new Error(`Cannot find module '${specifier}'\nRequire stack:\n- ${file}`), { code: 'MODULE_NOT_FOUND', requireStack: [file] })
const noPackage = (specifier, file) => Object.assign(new Error(`Cannot find package '${packageOf(specifier)}' imported from ${file}`), { code: 'ERR_MODULE_NOT_FOUND' })

module.exports = { isBare, folderOf, notFound, noPackage }
