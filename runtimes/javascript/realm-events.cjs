// DOMException, events and abort signals, a function of `host` (the kit) run in the guest's realm.
'use strict'
const { callable, constant, define, isObject, provide, report, stringOf } = host
const { Error, TypeError } = globalThis

const LEGACY = [
  '', 'IndexSize', '', 'HierarchyRequest', 'WrongDocument', 'InvalidCharacter', '', 'NoModificationAllowed', 'NotFound', 'NotSupported',
  'InUseAttribute', 'InvalidState', 'Syntax', 'InvalidModification', 'Namespace', 'InvalidAccess', '', 'TypeMismatch', 'Security', 'Network', 'Abort',
  'URLMismatch', 'QuotaExceeded', 'Timeout', 'InvalidNodeType', 'DataClone'
]

class DOMException extends Error {
  #code

  constructor (message = '', options = 'Error') {
    super(stringOf(message))
    const name = isObject(options) ? options.name ?? 'Error' : options
    define(this, 'name', stringOf(name), false)
    if (isObject(options) && 'cause' in options) define(this, 'cause', options.cause, false)
    const at = LEGACY.indexOf(this.name.replace(/Error$/, ''))
    this.#code = at > 0 ? at : 0
  }

  get code () { return this.#code }
}
LEGACY.forEach((name, code) => {
  if (name === '') return
  const long = `${name.replace(/([a-z])([A-Z])/g, '$1_$2').toUpperCase()}_ERR`
  constant(DOMException, long, code)
  constant(DOMException.prototype, long, code)
})

// -- events

const AT_TARGET = 2
let enter

class Event {
  #type
  #options
  #time = host.eventTime()
  #target = null
  #current = null
  #phase = 0
  #prevented = false
  #stopped = false
  #ended = false
  #passive = false

  static {
    // Only the target dispatches; no other code reaches these.
    enter = {
      begin (event, target) {
        if (event.#phase !== 0) throw new DOMException('the event is being dispatched', 'InvalidStateError')
        event.#target = event.#current = target
        event.#phase = AT_TARGET
      },
      ended: (event) => event.#ended,
      passive (event, value) { event.#passive = value },
      finish (event) {
        event.#phase = 0
        event.#current = null
        event.#stopped = event.#ended = false
        return !event.#prevented
      },
      is: (value) => isObject(value) && #type in value
    }
  }

  constructor (type, options = undefined) {
    if (arguments.length === 0) throw new TypeError('Event: a type is needed')
    this.#type = stringOf(type)
    this.#options = { bubbles: Boolean(options?.bubbles), cancelable: Boolean(options?.cancelable), composed: Boolean(options?.composed) }
  }

  get type () { return this.#type }
  get bubbles () { return this.#options.bubbles }
  get cancelable () { return this.#options.cancelable }
  get composed () { return this.#options.composed }
  get target () { return this.#target }
  get srcElement () { return this.#target }
  get currentTarget () { return this.#current }
  get eventPhase () { return this.#phase }
  get timeStamp () { return this.#time }
  get isTrusted () { return false }
  get defaultPrevented () { return this.#prevented }
  get cancelBubble () { return this.#stopped }
  get returnValue () { return !this.#prevented }
  preventDefault () { if (this.#options.cancelable && !this.#passive) this.#prevented = true }
  stopPropagation () { this.#stopped = true }
  stopImmediatePropagation () { this.#stopped = this.#ended = true }
  composedPath () { return this.#current === null ? [] : [this.#current] }
}
;['NONE', 'CAPTURING_PHASE', 'AT_TARGET', 'BUBBLING_PHASE'].forEach((name, value) => {
  constant(Event, name, value)
  constant(Event.prototype, name, value)
})

class EventTarget {
  #listeners = []

  addEventListener (type, callback, options = undefined) {
    if (callback === null || callback === undefined) return
    if (!isObject(callback)) throw new TypeError('addEventListener: the listener must be a function or an object')
    const given = isObject(options) ? options : { capture: options }
    if (given.signal?.aborted) return
    const listener = { type: stringOf(type), callback, capture: Boolean(given.capture), once: Boolean(given.once), passive: Boolean(given.passive), removed: false }
    const isSame = (one) => one.type === listener.type && one.callback === callback && one.capture === listener.capture
    if (this.#listeners.some(isSame)) return
    this.#listeners.push(listener)
    given.signal?.addEventListener('abort', () => this.#remove(listener), { once: true })
  }

  #remove (listener) {
    listener.removed = true
    this.#listeners = this.#listeners.filter((one) => one !== listener)
  }

  removeEventListener (type, callback, options = undefined) {
    const capture = Boolean(isObject(options) ? options.capture : options)
    const found = this.#listeners.find((one) => one.type === stringOf(type) && one.callback === callback && one.capture === capture)
    if (found) this.#remove(found)
  }

  dispatchEvent (event) {
    if (!enter.is(event)) throw new TypeError('dispatchEvent: an Event is needed')
    enter.begin(event, this)
    const listeners = this.#listeners.filter((one) => one.type === event.type)
    for (const listener of [...listeners.filter((one) => one.capture), ...listeners.filter((one) => !one.capture)]) {
      if (enter.ended(event)) break
      if (listener.removed) continue
      if (listener.once) this.#remove(listener)
      enter.passive(event, listener.passive)
      report(() => this.#deliver(listener.callback, event), undefined, [])
      enter.passive(event, false)
    }
    return enter.finish(event)
  }

  #deliver (callback, event) {
    if (typeof callback === 'function') host.apply(callback, this, [event])
    else host.apply(callable('handleEvent', callback.handleEvent), callback, [event])
  }
}

// -- abort

const KEY = {}
let abort
let follow

class AbortSignal extends EventTarget {
  #aborted = false
  #reason
  #handler = null
  #followers = []

  static {
    abort = (signal, reason) => {
      if (signal.#aborted) return
      signal.#aborted = true
      signal.#reason = reason === undefined ? new DOMException('This operation was aborted', 'AbortError') : reason
      for (const follower of signal.#followers) abort(follower, signal.#reason)
      signal.dispatchEvent(new Event('abort'))
    }
    follow = (signal, source) => source.#followers.push(signal)
  }

  constructor (key) {
    if (key !== KEY) throw new TypeError('Illegal constructor')
    super()
  }

  get aborted () { return this.#aborted }
  get reason () { return this.#reason }
  throwIfAborted () { if (this.#aborted) throw this.#reason }
  get onabort () { return this.#handler }
  set onabort (handler) {
    if (this.#handler === null) this.addEventListener('abort', (event) => { if (this.#handler !== null) host.apply(this.#handler, this, [event]) })
    this.#handler = typeof handler === 'function' ? handler : null
  }

  static abort (reason) {
    const signal = new AbortSignal(KEY)
    abort(signal, reason)
    return signal
  }

  static timeout (ms) {
    if (!(ms >= 0)) throw new TypeError('AbortSignal.timeout: a number of milliseconds is needed')
    const signal = new AbortSignal(KEY)
    host.startTimer('AbortSignal.timeout', () => abort(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError')), ms, [], false)
    return signal
  }

  static any (signals) {
    const made = new AbortSignal(KEY)
    for (const signal of [...signals]) {
      if (!isObject(signal) || !(#aborted in signal)) throw new TypeError('AbortSignal.any: abort signals are needed')
      if (signal.aborted) abort(made, signal.reason)
      else follow(made, signal)
    }
    return made
  }
}

class AbortController {
  #signal = new AbortSignal(KEY)
  get signal () { return this.#signal }
  abort (reason) { abort(this.#signal, reason) }
}

const classes = { DOMException, Event, EventTarget, AbortSignal, AbortController }
for (const name in classes) provide(name, classes[name])
return { DOMException, AbortSignal, newSignal: () => new AbortSignal(KEY) }
