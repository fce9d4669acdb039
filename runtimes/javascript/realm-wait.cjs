// Work that goes on after the exports were returned, a function of `host` (the kit) run in the
// guest's realm. The run ends when the work has ended.
'use strict'
const { describe, own, provide } = host
const { Array, Promise } = globalThis
const { resolve } = Promise
const then = host.uncurry(Promise.prototype.then)
const push = host.uncurry(Array.prototype.push)

let waiting = []
let failure

function waitUntil (work) {
  push(waiting, resolve.call(Promise, work))
}

// Calls host.waited with the first failure, once all have ended, also those that were added meanwhile.
function awaitWork () {
  const all = waiting
  waiting = []
  let open = all.length
  if (open === 0) return host.waited(failure)
  const ended = () => { if (--open === 0) awaitWork() }
  for (let i = 0; i < all.length; i++) {
    then(all[i], ended, (thrown) => {
      failure ??= describe(own(thrown))
      ended()
    })
  }
}

function beginWaiting () {
  waiting = []
  failure = undefined
}

provide('waitUntil', waitUntil)
return { waitUntil, awaitWork, beginWaiting, isWaiting: () => waiting.length > 0 }
