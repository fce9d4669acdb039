// Streams, a function of `host` (the kit) run in the guest's realm. They are the ponyfill's, which
// realm.cjs has run in this realm.
'use strict'
const { isObject, provide, stringOf, utf8 } = host
const { Symbol, TypeError, Uint8Array } = globalThis
const NAMES = ['ReadableStream', 'WritableStream', 'TransformStream', 'ByteLengthQueuingStrategy', 'CountQueuingStrategy']
for (const name of NAMES) provide(name, host.streams[name])
const { ReadableStream } = host.streams
const readerOf = host.uncurry(ReadableStream.prototype.getReader)
const isLocked = host.getter(ReadableStream.prototype, 'locked')
const { from } = ReadableStream

function isStream (value) {
  try {
    isLocked(value)
    return true
  } catch {
    return false
  }
}

// A body may be a stream or give its pieces one by one, beside bytes and text. Else undefined.
function streamOf (value) {
  if (!isObject(value)) return undefined
  if (isStream(value)) {
    if (isLocked(value)) throw new TypeError('the body is a stream that somebody reads')
    return value
  }
  return value[Symbol.asyncIterator] !== undefined || host.kind(value) === 'Generator' ? from.call(ReadableStream, value) : undefined
}

// `touched` is called on the first read.
function streamOfBytes (bytes, touched) {
  const source = {
    pull (controller) {
      touched()
      if (bytes.length > 0) controller.enqueue(new Uint8Array(bytes))
      controller.close()
    }
  }
  return new ReadableStream(source, { highWaterMark: 0 })
}

function pieceOf (piece) {
  const bytes = typeof piece === 'string' ? utf8(piece) : host.bytesOf(piece)
  if (bytes === undefined) throw new TypeError(`a body's pieces must be bytes or text, not ${stringOf(piece)}`)
  return bytes
}

// All bytes of a stream; more than `most` are an error.
async function drain (stream, most, tooLarge) {
  const reader = readerOf(stream)
  const pieces = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    const piece = pieceOf(value)
    size += piece.length
    if (size > most) {
      reader.cancel().catch(() => {})
      throw tooLarge()
    }
    pieces.push(new Uint8Array(piece))
  }
  const all = new Uint8Array(size)
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}

return { streamOf, streamOfBytes, drain, pieceOf, readerOf, isStreamLocked: isLocked }
