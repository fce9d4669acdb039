import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { FRAME_BYTES_MAX, FrameReader, frameParts } from '../dist/internal/frames.js'

const vectors = JSON.parse(readFileSync(new URL('../../../tests/vectors/frames.json', import.meta.url)))

function read (pieces) {
  const reader = new FrameReader()
  const frames = []
  for (const piece of pieces) {
    for (const { json, attachments } of reader.push(piece)) frames.push({ json: Buffer.from(json).toString(), attachments: Buffer.from(attachments).toString('hex') })
  }
  return { frames, more: reader.isInside }
}

const cuts = { 'in one piece': (bytes) => [bytes], 'byte by byte': (bytes) => Array.from(bytes, (byte) => Buffer.of(byte)), 'in threes': (bytes) => Array.from({ length: Math.ceil(bytes.length / 3) }, (_, i) => bytes.subarray(3 * i, 3 * i + 3)) }
for (const { name, hex, frames, more, error } of vectors) {
  for (const [how, cut] of Object.entries(cuts)) {
    test(`${name}, ${how}`, () => {
      const pieces = cut(Buffer.from(hex, 'hex'))
      if (error !== undefined) return assert.throws(() => read(pieces), (thrown) => thrown.code === error)
      assert.deepEqual(read(pieces), { frames, more })
    })
  }
}

test('what is written is read again, however it is cut', () => {
  const sent = Array.from({ length: 40 }, (_, i) => ({ json: JSON.stringify({ i, text: 'ä'.repeat(i * 7) }), attachments: Buffer.alloc(i * 13, i) }))
  const stream = Buffer.concat(sent.flatMap(({ json, attachments }) => frameParts(Buffer.from(json), [attachments.subarray(0, 5), attachments.subarray(5)])))
  let seed = 1
  for (let round = 0; round < 50; round++) {
    const pieces = []
    for (let at = 0; at < stream.length;) {
      seed = seed * 48271 % 2147483647
      const size = 1 + seed % 997
      pieces.push(stream.subarray(at, at + size))
      at += size
    }
    assert.deepEqual(read(pieces).frames, sent.map(({ json, attachments }) => ({ json, attachments: attachments.toString('hex') })))
  }
})

test('a message over the hard maximum is refused before it is sent', () => {
  const part = new Uint8Array(new ArrayBuffer(0))
  Object.defineProperty(part, 'length', { value: FRAME_BYTES_MAX })
  assert.throws(() => frameParts(Buffer.from('{}'), [part]), { name: 'TooLargeError', code: 'too_large' })
})
