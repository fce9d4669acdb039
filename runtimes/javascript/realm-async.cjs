// The exports of `node:async_hooks` in the bare realm, a function of `host` (the kit) run in the guest's realm.
'use strict'
const { apply, callable } = host

class AsyncLocalStorage {
  #storage = host.storage()

  run (store, callback, ...args) {
    callable('run: the callback', callback)
    let failed = false
    let result
    host.storageRun(this.#storage, store, () => {
      try {
        result = apply(callback, undefined, args)
      } catch (thrown) {
        failed = true
        result = thrown
      }
    })
    if (failed) throw result
    return result
  }

  getStore () { return host.storageGet(this.#storage) }
}

return { AsyncLocalStorage, asyncHooks: { AsyncLocalStorage } }
