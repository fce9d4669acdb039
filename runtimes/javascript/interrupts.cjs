'use strict'
// SIGINT ends code that runs in `run` or `guarded`; at other times it is only recorded. Node's
// watchdog for it stays on from a context's opening, so that the signal never ends the process:
// with `breakOnSigint` alone it would between two cells, and each cell would start a thread.
const vm = require('node:vm')

const { apply } = Reflect
const { runInThisContext } = vm.Script.prototype
const watch = process.binding('contextify')
const OPTIONS = { breakOnSigint: true, displayErrors: false }
const CODE = 'ERR_SCRIPT_EXECUTION_INTERRUPTED'
const NAME = '__cloche_guarded__'
const call = new vm.Script(`${NAME}()`, { filename: __filename })
let work
Object.defineProperty(globalThis, NAME, { value: () => work(), writable: false, enumerable: false, configurable: false })

let isWatching = false
function start () {
  isWatching = true
  watch.startSigintWatchdog()
}

// The watchdog is a thread, which must not exist when the process is forked.
function stop () {
  if (isWatching) watch.stopSigintWatchdog()
  isWatching = false
}

// Around a fork the signal is ignored instead.
const ignore = () => {}
function pause () {
  stop()
  process.on('SIGINT', ignore)
}

function resume () {
  process.removeListener('SIGINT', ignore)
  start()
}

const run = (script) => apply(runInThisContext, script, [OPTIONS])
function guarded (fn) {
  work = fn
  return run(call)
}

// The user's handlers last as long as their cell; with the last of them Node removes the signal's action.
function dropHandlers () {
  if (process.listenerCount('SIGINT') === 0) return
  process.removeAllListeners('SIGINT')
  stop()
  start()
}

// Forget signals recorded before.
function clear () {
  watch.startSigintWatchdog()
  watch.stopSigintWatchdog()
}

const error = () => Object.assign(new Error('the cell was interrupted'), { code: CODE })

module.exports = {
  start, stop, pause, resume, clear, run, guarded, dropHandlers, error,
  isPending: () => watch.watchdogHasPendingSigint(),
  isInterrupt: (thrown) => thrown?.code === CODE
}
