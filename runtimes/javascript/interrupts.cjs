'use strict'
// SIGINT ends what runs in `run` or `guarded`; at other times it is only noted. Node's watch for it stays on from a context's opening,
// so that it never ends the process: by `breakOnSigint` alone it would between two cells, and each cell would start a thread.
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

// The watch is a thread, which must not be there when the process is forked.
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

// Handlers of the user's last as long as their cell; with the last of them Node takes the signal's action away.
function dropHandlers () {
  if (process.listenerCount('SIGINT') === 0) return
  process.removeAllListeners('SIGINT')
  stop()
  start()
}

// What was noted before is none of what comes now.
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
