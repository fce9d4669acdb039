// Request and Response, a function of `host` (the kit) run in the guest's realm. A body is bytes,
// or a stream that is read to its end on demand. Bodies that leave the realm are whole, or go piece
// by piece (realm-bodies.cjs).
'use strict'
const { Headers, bytesOf, byteText, headerPairs, isObject, provide, stringOf, utf8 } = host
const { Infinity, JSON, Math, RangeError, TypeError, Uint8Array } = globalThis
const decodeText = (bytes) => host.decode(host.decoder('utf-8', false, false), bytes, false)

// -- bodies

// Bytes that no other code changes, and no type of their own.
class Held {
  constructor (bytes, stream = undefined) {
    this.bytes = bytes
    this.stream = stream
  }
}

function readBody (body) {
  if (body === null || body === undefined) return { bytes: null, type: undefined }
  if (body instanceof Held) return { bytes: body.bytes, type: undefined, stream: body.stream }
  const bytes = bytesOf(body)
  if (bytes !== undefined) return { bytes: new Uint8Array(bytes), type: undefined }
  const stream = host.streamOf(body)
  if (stream !== undefined) return { bytes: null, type: undefined, stream }
  const isForm = host.isParams(body)
  return { bytes: utf8(stringOf(body)), type: isForm ? 'application/x-www-form-urlencoded;charset=UTF-8' : 'text/plain;charset=UTF-8' }
}

// A body that goes piece by piece is sent as its number.
let numberOf
class Sent {
  #number

  static { numberOf = (value) => #number in value ? value.#number : undefined }

  constructor (number) { this.#number = number }
}

let heldIn
let handOver
let copyOf
let isUnread
let wasSent
let sendAs
let readWhole
class Body {
  #bytes
  #stream // also of bytes, after it was accessed
  #used = false
  #sent // once it goes piece by piece

  static {
    // For the encoder: a body that was read is gone. A body behind a getter is first seen by the
    // encoder, when it is too late to read it.
    heldIn = (holder) => {
      if (holder.#sent !== undefined) return holder.#sent
      if (holder.bodyUsed) return null
      if (holder.#bytes === null && holder.#stream !== undefined) throw new TypeError('a body that is a stream cannot be sent from behind a getter: give the value itself')
      return holder.#bytes
    }
    wasSent = (value) => #sent in value && value.#sent !== undefined
    sendAs = (holder, number) => {
      holder.#sent = new Sent(number)
      return holder.#stream
    }
    // To another Request.
    handOver = (holder) => {
      holder.#mustBeFresh()
      const held = new Held(holder.#bytes, holder.#stream)
      if (holder.#bytes !== null || holder.#stream !== undefined) holder.#used = true
      return held
    }
    copyOf = (holder) => {
      holder.#mustBeFresh()
      if (holder.#stream === undefined) return new Held(holder.#bytes)
      const [one, other] = holder.#stream.tee()
      holder.#stream = one
      holder.#bytes = null
      return new Held(null, other)
    }
    isUnread = (value) => #stream in value && value.#stream !== undefined && value.#bytes === null && !value.bodyUsed
    readWhole = async (holder, most, tooLarge) => {
      const stream = holder.#stream
      holder.#bytes = await host.drain(stream, most, tooLarge)
      holder.#stream = undefined
    }
  }

  constructor (bytes, stream) {
    this.#bytes = bytes
    this.#stream = stream
  }

  get body () {
    if (this.#stream === undefined && this.#bytes !== null) this.#stream = host.streamOfBytes(this.#bytes, () => { this.#used = true })
    return this.#stream ?? null
  }

  get bodyUsed () { return this.#used || (this.#stream !== undefined && host.isStreamLocked(this.#stream)) }

  #mustBeFresh () {
    if (this.bodyUsed) throw new TypeError('the body was already read')
  }

  async #take () {
    this.#mustBeFresh()
    if (this.#bytes === null && this.#stream === undefined) return new Uint8Array(0)
    this.#used = true
    return this.#bytes === null ? host.drain(this.#stream, Infinity) : new Uint8Array(this.#bytes)
  }

  async text () { return decodeText(await this.#take()) }
  async json () { return JSON.parse(decodeText(await this.#take())) }
  async bytes () { return this.#take() }
  async arrayBuffer () { return (await this.#take()).buffer }
}

function addType (headers, type) {
  if (type !== undefined && !headers.has('content-type')) headers.append('content-type', type)
  return headers
}

// -- Response

const NULL_BODY = [101, 103, 204, 205, 304]
const REDIRECTS = [301, 302, 303, 307, 308]
function statusText (value) {
  const text = byteText(value)
  if (/[^\t\x20-\x7e\x80-\xff]/.test(text)) throw new TypeError('Response: the status text has a control character')
  return text
}

let sendResponse
let makeResponse
class Response extends Body {
  #parts

  static {
    const make = (parts, held) => {
      const made = new Response(parts.status === 0 ? null : held, { status: parts.status || 200, statusText: parts.statusText, headers: parts.headers })
      made.#parts = { ...made.#parts, ...parts, headers: made.#parts.headers }
      if (parts.type === 'error') host.freezeHeaders(made.#parts.headers)
      return made
    }
    makeResponse = ({ status, statusText = '', headers = [], body = null, url = '', redirected = false, type = 'default' }) => {
      return make({ status, statusText, headers, url, redirected, type }, body instanceof Held ? body : new Held(body))
    }
    sendResponse = (value) => #parts in value ? value.#with(heldIn(value)) : undefined
  }

  constructor (body = null, init = undefined) {
    const status = init?.status === undefined ? 200 : Math.trunc(+init.status)
    if (!(status >= 200 && status <= 599)) throw new RangeError('Response: the status must be from 200 to 599')
    const { bytes, type, stream } = readBody(body)
    if ((bytes !== null || stream !== undefined) && NULL_BODY.includes(status)) throw new TypeError(`Response: status ${status} has no body`)
    super(bytes, stream)
    const headers = addType(new Headers(init?.headers), type)
    this.#parts = { status, statusText: statusText(init?.statusText ?? ''), headers, url: '', redirected: false, type: 'default' }
  }

  static error () { return makeResponse({ status: 0, type: 'error' }) }

  static json (data, init = undefined) {
    const text = JSON.stringify(data)
    if (text === undefined) throw new TypeError('Response.json: the value has no JSON')
    const headers = addType(new Headers(init?.headers), 'application/json')
    return new Response(new Held(utf8(text)), { status: init?.status, statusText: init?.statusText, headers })
  }

  static redirect (url, status = 302) {
    if (!REDIRECTS.includes(status)) throw new RangeError('Response.redirect: the status must be a redirect')
    return new Response(null, { status, headers: { location: stringOf(new host.URL(url)) } })
  }

  get status () { return this.#parts.status }
  get statusText () { return this.#parts.statusText }
  get headers () { return this.#parts.headers }
  get ok () { return this.#parts.status >= 200 && this.#parts.status <= 299 }
  get type () { return this.#parts.type }
  get url () { return this.#parts.url }
  get redirected () { return this.#parts.redirected }
  clone () { return makeResponse(this.#with(copyOf(this))) }
  #with (body) { return { ...this.#parts, headers: headerPairs(this.#parts.headers), body } }
}

// -- Request

const METHODS = ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT']
function methodOf (value) {
  const text = stringOf(value)
  const upper = text.toUpperCase()
  if (!host.isToken(text) || ['CONNECT', 'TRACE', 'TRACK'].includes(upper)) throw new TypeError(`Request: ${JSON.stringify(text)} is no method`)
  return METHODS.includes(upper) ? upper : text
}

function urlOf (input) {
  const url = new host.URL(stringOf(input))
  if (url.username !== '' || url.password !== '') throw new TypeError('Request: the URL has credentials')
  return url.href
}

function signalOf (given) {
  const signal = host.newSignal()
  if (given === null || given === undefined) return signal
  if (!(given instanceof host.AbortSignal)) throw new TypeError('Request: the signal must be an AbortSignal')
  return host.AbortSignal.any([given])
}

let sendRequest
class Request extends Body {
  #parts

  static {
    sendRequest = (value) => #parts in value ? { method: value.method, url: value.url, headers: headerPairs(value.headers), body: heldIn(value), redirect: value.redirect } : undefined
  }

  constructor (input, init = undefined) {
    if (arguments.length === 0) throw new TypeError('Request: a URL is needed')
    const from = isObject(input) && #parts in input ? input : undefined
    const method = init?.method === undefined ? from?.method ?? 'GET' : methodOf(init.method)
    const given = init?.body ?? null
    const { bytes, type, stream } = readBody(given === null && from !== undefined ? handOver(from) : given)
    if ((bytes !== null || stream !== undefined) && (method === 'GET' || method === 'HEAD')) throw new TypeError(`Request: ${method} has no body`)
    super(bytes, stream)
    const signal = init?.signal === undefined ? from?.signal : init.signal
    this.#parts = {
      method,
      url: from?.url ?? urlOf(input),
      headers: addType(new Headers(init?.headers ?? from?.headers), type),
      signal: signalOf(signal),
      redirect: stringOf(init?.redirect ?? from?.redirect ?? 'follow')
    }
    if (!['follow', 'error', 'manual'].includes(this.#parts.redirect)) throw new TypeError('Request: redirect must be follow, error or manual')
  }

  get method () { return this.#parts.method }
  get url () { return this.#parts.url }
  get headers () { return this.#parts.headers }
  get signal () { return this.#parts.signal }
  get redirect () { return this.#parts.redirect }
  clone () { return new Request(this.url, { method: this.method, headers: this.headers, signal: this.signal, redirect: this.redirect, body: copyOf(this) }) }
}

provide('Request', Request)
provide('Response', Response)

// -- for the encoder (spec/values.md, class)

const forms = {
  URL: [(value) => host.isUrl(value) ? host.urlText(value) : undefined, (text) => new host.URL(text)],
  Headers: [(value) => host.isHeaders(value) ? headerPairs(value) : undefined, (pairs) => new Headers(pairs)],
  Request: [sendRequest, ({ url, body = null, ...init }) => new Request(url, { ...init, body: body === null ? null : new Held(body) })],
  Response: [sendResponse, makeResponse]
}
const names = Object.keys(forms)
const HEADERS_MAX = 1024

function encodeClass (value) {
  const number = numberOf(value)
  if (number !== undefined) return { t: 'Stream', v: number }
  const form = formOf(value)
  const headers = form?.t === 'Headers' ? form.v : form?.v.headers
  if (headers?.length > HEADERS_MAX) throw new TypeError(`headers of more than ${HEADERS_MAX} entries cannot be sent`)
  return form
}

function formOf (value) {
  for (const name of names) {
    const v = forms[name][0](value)
    if (v !== undefined) return { t: name, v }
  }
}

const classes = { __proto__: null }
for (const name of names) classes[name] = forms[name][1]

const isPlatform = (value) => formOf(value) !== undefined

return { encodeClass, classes, isPlatform, isUnread, wasSent, sendAs, readWhole }
