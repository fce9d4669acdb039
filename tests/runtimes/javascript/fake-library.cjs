// Preloaded into an agent: libcloche-guest without the fork. Code after `freeze` is the child; with
// FAKE_BRANCH it is a template too, and code after `branch` is the context itself ("-1") or its
// child ("0").
'use strict'
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const LIBRARY = '/run/cloche/libcloche-guest.so'
const { existsSync } = fs
const branch = process.env.FAKE_BRANCH
fs.existsSync = (path) => path === LIBRARY || existsSync(path)

// A pipe at its end: libcloche-guest's is a socket, which Node cannot make without a loop.
function lonelySocket () {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cloche-'))
  execFileSync('mkfifo', [path.join(folder, 'pipe')])
  const fd = fs.openSync(path.join(folder, 'pipe'), fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
  fs.closeSync(fs.openSync(path.join(folder, 'pipe'), 'w')) // a pipe that never had a writer is not at its end
  fs.rmSync(folder, { recursive: true })
  return fd
}

process.dlopen = (module) => {
  const exit = process.reallyExit.bind(process)
  module.exports = { start: () => 1, shrink: () => 0, freeze: () => undefined, children: () => branch === undefined ? 0 : 1, branches: () => Number(branch), reap () {}, isAsked: () => 0, pid: () => process.pid, exit, exitCode () {}, lonelySocket }
}
