'use strict'
// tsconfig.json: the nearest one above a file, with the files it extends. Runs in the box, with the
// rights of the user's code.
const fs = require('node:fs')
const { createRequire } = require('node:module')
const path = require('node:path')

const QUOTED = '("(?:\\\\.|[^"\\\\])*")'
const COMMENT = new RegExp(`${QUOTED}|//.*|/\\*[^]*?\\*/`, 'g')
const LAST_COMMA = new RegExp(`${QUOTED}|,(?=\\s*[}\\]])`, 'g')
const parse = (text) => JSON.parse(text.replace(/^\ufeff/, '').replace(COMMENT, '$1').replace(LAST_COMMA, '$1'))

function nearest (folder) {
  const file = path.join(folder, 'tsconfig.json')
  if (fs.existsSync(file)) return file
  return path.dirname(folder) === folder ? undefined : nearest(path.dirname(folder))
}

const locate = (name, file) => /^\.{0,2}\//.test(name) ? path.resolve(path.dirname(file), name.replace(/(\.json)?$/, '.json')) : createRequire(file).resolve(name)

// The compilerOptions of a file; baseUrl, and pathsFrom, where `paths` begin, are whole paths.
function read (file, readers = []) {
  if (readers.includes(file)) throw new Error(`${file}: extends itself`)
  let config
  try {
    config = parse(fs.readFileSync(file, 'utf8'))
  } catch (thrown) {
    throw new Error(`${file}: ${thrown.message}`)
  }
  const inherited = [config.extends ?? []].flat().map((name) => read(locate(name, file), [...readers, file]))
  const own = { ...config.compilerOptions }
  if (own.baseUrl !== undefined) own.baseUrl = path.resolve(path.dirname(file), own.baseUrl)
  if (own.paths !== undefined) own.pathsFrom = path.dirname(file)
  return Object.assign({}, ...inherited, own)
}

function settingsFor (file) {
  const config = nearest(path.dirname(path.resolve(file)))
  return config === undefined ? {} : read(config)
}

// The text that `*` matches; undefined: the pattern does not match.
function matched (pattern, specifier) {
  const [before, after] = pattern.split('*')
  if (after === undefined) return pattern === specifier ? '' : undefined
  const fits = specifier.length >= before.length + after.length && specifier.startsWith(before) && specifier.endsWith(after)
  return fits ? specifier.slice(before.length, specifier.length - after.length) : undefined
}

const weight = (pattern) => pattern.includes('*') ? pattern.indexOf('*') : Infinity

// The files that a specifier in a file may denote, by `paths` and baseUrl.
function mapped (specifier, file) {
  const { paths = {}, pathsFrom, baseUrl } = settingsFor(file)
  const [pattern] = Object.keys(paths).filter((one) => matched(one, specifier) !== undefined).sort((a, b) => weight(b) - weight(a))
  const targets = pattern === undefined ? [] : paths[pattern].map((target) => path.resolve(baseUrl ?? pathsFrom, target.replace('*', () => matched(pattern, specifier))))
  return baseUrl === undefined ? targets : [...targets, path.join(baseUrl, specifier)]
}

module.exports = { settingsFor, mapped }
