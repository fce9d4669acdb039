// Preloaded into an agent: libcloche-guest without the fork. What comes after `freeze` is the child.
'use strict'
const fs = require('node:fs')
const LIBRARY = '/run/cloche/libcloche-guest.so'
const { existsSync } = fs
fs.existsSync = (path) => path === LIBRARY || existsSync(path)
process.dlopen = (module) => {
  const exit = process.reallyExit.bind(process)
  module.exports = { start: () => 1, freeze: () => undefined, children: () => 0, isAsked: () => 0, pid: () => process.pid, exit, exitCode () {} }
}
