// Frames on descriptor 3: u32 length, u32 JSON length, JSON, attachments; little endian. A function of `host`, run in the
// agent's own realm.
'use strict'
const FD = 3
const { readSync, writeSync, TextDecoder, TextEncoder } = host
const decoder = new TextDecoder('utf-8', { fatal: true })
const encoder = new TextEncoder()
const decodeText = decoder.decode.bind(decoder)
const encodeText = encoder.encode.bind(encoder)
const pause = new Int32Array(new SharedArrayBuffer(4))
let current = new Uint8Array(0)

function retry (thrown) {
  if (thrown.code !== 'EAGAIN' && thrown.code !== 'EINTR') throw thrown
  Atomics.wait(pause, 0, 0, 1)
}

function readFull (size) {
  const bytes = new host.Uint8Array(size)
  let at = 0
  while (at < size) {
    let n = 0
    try {
      n = readSync(FD, bytes, at, size - at, null)
    } catch (thrown) {
      retry(thrown)
      continue
    }
    if (n === 0) return undefined
    at += n
  }
  return bytes
}

function writeFull (bytes) {
  let at = 0
  while (at < bytes.length) {
    try {
      at += writeSync(FD, bytes, at, bytes.length - at, null)
    } catch (thrown) {
      retry(thrown)
    }
  }
}

const u32 = (bytes, at) => (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24) >>> 0

// The next message, or undefined at the end of the stream.
function read () {
  const head = readFull(8)
  if (head === undefined) return undefined
  const size = u32(head, 4)
  const body = readFull(u32(head, 0) - 4)
  if (body === undefined) return undefined
  current = body.subarray(size)
  return JSON.parse(decodeText(body.subarray(0, size)))
}

function write (message, attachments) {
  const json = encodeText(JSON.stringify(message))
  let size = 0
  for (const bytes of attachments) size += bytes.length
  const frame = new host.Uint8Array(8 + json.length + size)
  const view = new DataView(frame.buffer)
  view.setUint32(0, 4 + json.length + size, true)
  view.setUint32(4, json.length, true)
  frame.set(json, 8)
  let at = 8 + json.length
  for (const bytes of attachments) {
    frame.set(bytes, at)
    at += bytes.length
  }
  writeFull(frame)
}

// Messages are made here: an object of the main realm would be written as its user's toJSON says.
const writeResult = (id, value, signatureSource, attachments) => write({ jsonrpc: '2.0', id, result: { value, signatureSource } }, attachments)
const writeError = (id, code, message, data) => write({ jsonrpc: '2.0', id, error: { code, message, data } }, [])

return { read, writeResult, writeError, attachments: () => current }
