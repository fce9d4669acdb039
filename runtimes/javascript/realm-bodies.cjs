// Bodies of requests and responses that leave the realm, a function of `host` (the kit) run in the
// guest's realm. Unfinished ones go to the host piece by piece, each piece once the host has room
// for it (spec/agent.md, Bodies), if the host accepts that; else they are read to their ends first.
'use strict'
const { ask, coded, define, describe, own, pieceOf, readerOf, uncurry } = host
const { Math, Promise, TypeError, Uint8Array } = globalThis
const { isUnread, readWhole, sendAs, wasSent } = host
const then = uncurry(Promise.prototype.then)
const setIn = uncurry(Uint8Array.prototype.set)
const sliceOf = uncurry(Uint8Array.prototype.slice)
const BODIES_MAX = 64
const PIECE_BYTES = 65536

let isStreaming = false
let open = { __proto__: null } // by number; false after the end was sent
let count = 0
let last = 0

// `each` calls its argument with every object of a message. `reading` is undefined, or a promise
// that the message can be sent; call `start` after it was.
function takeBodies (each, most) {
  const unread = []
  let size = 0
  each((value) => {
    if (wasSent(value)) throw new TypeError('the body of a request or response was sent already: send a clone()')
    if (isUnread(value)) define(unread, size++, value)
  })
  const left = isStreaming ? Math.min(size, BODIES_MAX - count) : 0
  const going = []
  for (let i = 0; i < left; i++) {
    const number = ++last
    open[number] = true
    count++
    define(going, i, { __proto__: null, number, stream: sendAs(unread[i], number) })
  }
  const start = () => { for (let i = 0; i < left; i++) pump(going[i].number, readerOf(going[i].stream)) }
  return { __proto__: null, reading: left < size ? readAll(unread, left, size, most) : undefined, start, streams: left }
}

async function readAll (unread, from, size, most) {
  const tooLarge = () => coded('ERR_EXPORT_TOO_LARGE', `a body is larger than ${most} bytes`, 'RangeError')
  for (let i = from; i < size; i++) await readWhole(unread[i], most, tooLarge)
}

// -- a body on its way

const tell = (step, args) => ask((id) => host.body(id, step, args))
const quiet = () => {}

async function pump (number, reader) {
  const sending = new Sending(number)
  const cancel = () => { then(reader.cancel(), quiet, quiet) }
  then(tell('open', [number]), (isCancelled) => { if (isCancelled) cancel() }, cancel)
  try {
    for (let isWanted = true; isWanted;) {
      const { done, value } = await reader.read()
      if (done) break
      isWanted = await sending.add(pieceOf(value))
      if (!isWanted) cancel()
    }
    await sending.done()
    await finish(number, 'end', [number])
  } catch (thrown) {
    cancel()
    await sending.done()
    await fail(number, describe(own(thrown)))
  }
}

// The first bytes go at once; those that come meanwhile go together.
class Sending {
  #number
  #parts = []
  #count = 0
  #size = 0
  #flight
  #isWanted = true

  constructor (number) { this.#number = number }

  // Resolves to false if the host wants no more.
  async add (bytes) {
    define(this.#parts, this.#count++, sliceOf(bytes))
    this.#size += bytes.length
    this.#flight ??= this.#send()
    if (this.#size >= PIECE_BYTES) await this.#flight
    return this.#isWanted
  }

  async done () { await this.#flight }

  async #send () {
    try {
      while (this.#size > 0 && this.#isWanted) this.#isWanted = await sendPieces(this.#number, this.#take())
    } catch {
      this.#isWanted = false
    }
    this.#flight = undefined
  }

  #take () {
    const all = new Uint8Array(this.#size)
    let at = 0
    for (let i = 0; i < this.#count; i++) {
      setIn(all, this.#parts[i], at)
      at += this.#parts[i].length
    }
    this.#parts = []
    this.#count = this.#size = 0
    return all
  }
}

async function sendPieces (number, bytes) {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    if (!await tell('piece', [number, sliceOf(bytes, at, at + PIECE_BYTES)])) return false
  }
  return true
}

const fail = (number, { name, message, fields }) =>
  finish(number, 'fail', [number, name, message, fields])

async function finish (number, step, args) {
  if (open[number] !== true) return
  open[number] = false
  try {
    await tell(step, args)
  } catch {}
  if (!(number in open)) return
  delete open[number]
  if (--count === 0) host.bodiesSent()
}

// Fails all open bodies: nothing can settle the promises that their sources await.
function abandonBodies () {
  for (const number in open) fail(+number, { name: 'Error', message: 'the body awaits a promise that nothing can settle' })
}

// -- entry points for Node's side

let exported
// `streams`: number of bodies that go with the exports. With `isReading` host.exportsRead is called
// once the others are read, with the failure if there was one.
function takeExported (each, most) {
  exported = takeBodies(each, most)
  const { reading, streams } = exported
  if (reading !== undefined) then(reading, () => host.exportsRead(undefined), (thrown) => host.exportsRead(describe(own(thrown))))
  return { __proto__: null, streams, isReading: reading !== undefined }
}

function beginBodies (streaming) {
  isStreaming = streaming
  open = { __proto__: null }
  count = 0
}

return { takeBodies, takeExported, startExported: () => exported.start(), abandonBodies, beginBodies, bodiesOpen: () => count }
