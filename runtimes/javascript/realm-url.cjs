// URL and URLSearchParams, a function of `host` (the kit) run in the guest's realm. Parsing is Node's, in strings.
'use strict'
const { define, isObject, provide, stringOf } = host
const { Symbol, TypeError } = globalThis
const text = (value) => host.wellFormed(stringOf(value))

function parseForm (query) {
  const pairs = []
  for (const part of query.split('&')) {
    if (part === '') continue
    const at = part.indexOf('=')
    pairs.push(at < 0 ? [host.formDecode(part), ''] : [host.formDecode(part.slice(0, at)), host.formDecode(part.slice(at + 1))])
  }
  return pairs
}

const showForm = (pairs) => pairs.map(([name, value]) => `${host.formEncode(name)}=${host.formEncode(value)}`).join('&')

// A record, or a sequence of pairs, as an array of pairs. Headers use it too.
function pairsOf (what, init, read) {
  if (init[Symbol.iterator] === undefined || init[Symbol.iterator] === null) {
    return host.ownKeys(init).filter((key) => host.getOwnPropertyDescriptor(init, key)?.enumerable).map((key) => [read(key), read(init[key])])
  }
  return [...init].map((pair) => {
    const parts = isObject(pair) ? [...pair] : []
    if (parts.length !== 2) throw new TypeError(`${what}: each entry must be a pair`)
    return [read(parts[0]), read(parts[1])]
  })
}

let attach
let isParams
let refill
class URLSearchParams {
  #pairs = []
  #changed

  static {
    isParams = (value) => isObject(value) && #pairs in value
    attach = (params, changed) => { params.#changed = changed }
    refill = (params, query) => { params.#pairs = parseForm(query) }
  }

  constructor (init = '') {
    if (isObject(init)) this.#pairs = pairsOf('URLSearchParams', init, text)
    else this.#pairs = parseForm(text(init).replace(/^\?/, ''))
  }

  #set (pairs) {
    this.#pairs = pairs
    this.#changed?.(showForm(pairs))
  }

  get size () { return this.#pairs.length }
  append (name, value) { this.#set([...this.#pairs, [text(name), text(value)]]) }

  delete (name, value = undefined) {
    name = text(name)
    if (value !== undefined) value = text(value)
    this.#set(this.#pairs.filter((pair) => pair[0] !== name || (value !== undefined && pair[1] !== value)))
  }

  get (name) { return this.#pairs.find((pair) => pair[0] === text(name))?.[1] ?? null }
  getAll (name) { return this.#pairs.filter((pair) => pair[0] === text(name)).map((pair) => pair[1]) }
  has (name, value = undefined) { return this.#pairs.some((pair) => pair[0] === text(name) && (value === undefined || pair[1] === text(value))) }

  set (name, value) {
    name = text(name)
    value = text(value)
    const at = this.#pairs.findIndex((pair) => pair[0] === name)
    if (at < 0) return this.append(name, value)
    this.#set(this.#pairs.map((pair, i) => i === at ? [name, value] : pair).filter((pair, i) => i <= at || pair[0] !== name))
  }

  sort () { this.#set([...this.#pairs].sort((a, b) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)) }
  forEach (callback, self = undefined) { for (const [name, value] of this) host.apply(callback, self, [value, name, this]) }
  * entries () { for (let i = 0; i < this.#pairs.length; i++) yield [...this.#pairs[i]] }
  * keys () { for (let i = 0; i < this.#pairs.length; i++) yield this.#pairs[i][0] }
  * values () { for (let i = 0; i < this.#pairs.length; i++) yield this.#pairs[i][1] }
  toString () { return showForm(this.#pairs) }
}
define(URLSearchParams.prototype, Symbol.iterator, URLSearchParams.prototype.entries, false)

const PARTS = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash', 'origin']
let isUrl
let read
let write
class URL {
  #parts
  #params

  static {
    isUrl = (value) => isObject(value) && #parts in value
    read = (url, at) => url.#parts[at]
    write = (url, name, value) => {
      if (name === 'href' && !URL.canParse(value)) throw new TypeError('Invalid URL')
      url.#parts = host.changeUrl(url.#parts[0], name, stringOf(value)).split('\n')
      if (url.#params !== undefined && (name === 'href' || name === 'search')) refill(url.#params, url.#parts[8].slice(1))
    }
  }

  constructor (url, base = undefined) {
    if (arguments.length === 0) throw new TypeError('URL: a text is needed')
    const parsed = host.parseUrl(stringOf(url), base === undefined ? undefined : stringOf(base))
    if (parsed === undefined) {
      const error = new TypeError('Invalid URL')
      define(error, 'code', 'ERR_INVALID_URL')
      define(error, 'input', stringOf(url))
      throw error
    }
    this.#parts = parsed.split('\n')
  }

  static canParse (url, base = undefined) { return host.parseUrl(stringOf(url), base === undefined ? undefined : stringOf(base)) !== undefined }
  static parse (url, base = undefined) { return URL.canParse(url, base) ? new URL(url, base) : null }

  get searchParams () {
    if (this.#params === undefined) {
      this.#params = new URLSearchParams(this.#parts[8])
      attach(this.#params, (query) => { this.#parts = host.changeUrl(this.#parts[0], 'search', query).split('\n') })
    }
    return this.#params
  }

  toString () { return this.#parts[0] }
  toJSON () { return this.#parts[0] }
}

PARTS.forEach((name, at) => {
  const get = { [name] () { return read(this, at) } }[name]
  const set = name === 'origin' ? undefined : { [name] (value) { write(this, name, value) } }[name]
  host.defineProperty(URL.prototype, name, { __proto__: null, get, set, enumerable: true, configurable: true })
})

provide('URL', URL)
provide('URLSearchParams', URLSearchParams)
return { URL, isParams, isUrl, urlText: (url) => read(url, 0), pairsOf }
