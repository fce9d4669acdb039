// Preloaded into an agent: libcloche-guest without the fork. Code after `freeze` is the child; with
// FAKE_BRANCH it is a template too, and code after `branch` is the context itself ("-1") or its
// child ("0").
'use strict'
const fs = require('node:fs')
const LIBRARY = '/run/cloche/libcloche-guest.so'
const { existsSync } = fs
const branch = process.env.FAKE_BRANCH
fs.existsSync = (path) => path === LIBRARY || existsSync(path)
process.dlopen = (module) => {
  const exit = process.reallyExit.bind(process)
  module.exports = { start: () => 1, freeze: () => undefined, children: () => branch === undefined ? 0 : 1, branches: () => Number(branch), reap () {}, isAsked: () => 0, pid: () => process.pid, exit, exitCode () {} }
}
