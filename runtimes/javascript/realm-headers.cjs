// Headers, a function of `host` (the kit) run in the guest's realm.
'use strict'
const { apply, define, isObject, pairsOf, provide, stringOf } = host
const { JSON, Set, Symbol, TypeError } = globalThis

const TOKEN = /^[!#$%&'*+.^_`|~\w-]+$/
const byteText = (value) => {
  const text = stringOf(value)
  if (/[^\0-\xff]/.test(text)) throw new TypeError('Headers: a value has characters beyond one byte')
  return text
}
function headerName (name) {
  const text = stringOf(name)
  if (!TOKEN.test(text)) throw new TypeError(`Headers: ${JSON.stringify(text)} is no header name`)
  return text.toLowerCase()
}
function headerValue (value) {
  const text = byteText(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '')
  if (/[\0\r\n]/.test(text)) throw new TypeError('Headers: a value has a line break or a NUL')
  return text
}

let isHeaders
let freeze
let pairsIn
class Headers {
  #pairs = []
  #frozen = false

  static {
    isHeaders = (value) => isObject(value) && #pairs in value
    pairsIn = (headers) => headers.#pairs.map((pair) => [...pair])
    freeze = (headers) => { headers.#frozen = true }
  }

  constructor (init = undefined) {
    if (init === undefined) return
    if (!isObject(init)) throw new TypeError('Headers: an object is needed')
    const pairs = isHeaders(init) ? init.#pairs : pairsOf('Headers', init, stringOf)
    for (const [name, value] of pairs) this.append(name, value)
  }

  #guard () { if (this.#frozen) throw new TypeError('Headers: these are immutable') }

  append (name, value) {
    const pair = [headerName(name), headerValue(value)]
    this.#guard()
    this.#pairs.push(pair)
  }

  delete (name) {
    name = headerName(name)
    this.#guard()
    this.#pairs = this.#pairs.filter((pair) => pair[0] !== name)
  }

  get (name) {
    name = headerName(name)
    const found = this.#pairs.filter((pair) => pair[0] === name)
    return found.length === 0 ? null : found.map((pair) => pair[1]).join(', ')
  }

  has (name) {
    name = headerName(name)
    return this.#pairs.some((pair) => pair[0] === name)
  }

  set (name, value) {
    const pair = [headerName(name), headerValue(value)]
    this.#guard()
    const at = this.#pairs.findIndex((one) => one[0] === pair[0])
    if (at < 0) this.#pairs.push(pair)
    else this.#pairs = this.#pairs.map((one, i) => i === at ? pair : one).filter((one, i) => i <= at || one[0] !== pair[0])
  }

  getSetCookie () { return this.#pairs.filter((pair) => pair[0] === 'set-cookie').map((pair) => pair[1]) }

  // Sorted by name, values of a name joined; cookies stay apart.
  #sorted () {
    const names = [...new Set(this.#pairs.map((pair) => pair[0]))].sort()
    return names.flatMap((name) => name === 'set-cookie' ? this.getSetCookie().map((value) => [name, value]) : [[name, this.get(name)]])
  }

  forEach (callback, self = undefined) { for (const [name, value] of this) apply(callback, self, [value, name, this]) }
  * entries () { yield * this.#sorted() }
  * keys () { for (const pair of this.#sorted()) yield pair[0] }
  * values () { for (const pair of this.#sorted()) yield pair[1] }
}
define(Headers.prototype, Symbol.iterator, Headers.prototype.entries, false)

provide('Headers', Headers)
return { Headers, byteText, isToken: (text) => TOKEN.test(text), isHeaders, freezeHeaders: freeze, headerPairs: pairsIn }
