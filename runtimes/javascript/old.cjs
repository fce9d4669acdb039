'use strict'
// Replaces the agent if the image's Node is too old: the response to every request is an error with the reason.
const fs = require('fs')
const FD = 3
const THREW = -32000

function again (error) {
  if (error.code !== 'EAGAIN' && error.code !== 'EINTR') throw error
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
  return 0
}

// All of it, or undefined at the end.
function read (size) {
  const bytes = Buffer.alloc(size)
  for (let at = 0; at < size;) {
    try {
      const n = fs.readSync(FD, bytes, at, size - at, null)
      if (n === 0) return undefined
      at += n
    } catch (error) {
      again(error)
    }
  }
  return bytes
}

function write (bytes) {
  for (let at = 0; at < bytes.length;) {
    try {
      at += fs.writeSync(FD, bytes, at, bytes.length - at, null)
    } catch (error) {
      again(error)
    }
  }
}

function answer (id, message) {
  const error = { code: THREW, message: message, data: { type: 'UnsupportedVersion', message: message, stack: '' } }
  const json = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: id, error: error }))
  const head = Buffer.alloc(8)
  head.writeUInt32LE(json.length + 4, 0)
  head.writeUInt32LE(json.length, 4)
  write(Buffer.concat([head, json]))
}

function next () {
  const head = read(8)
  const body = head && read(head.readUInt32LE(0) - 4)
  return body && body.slice(0, head.readUInt32LE(4))
}

module.exports = function refuse (least) {
  const message = 'this image has Node ' + process.versions.node + ', and the agent needs Node ' + least + ' or later: use an image with one (Debian 12 or later)'
  if (process.argv.length > 2) { // a script: there is no channel
    process.stderr.write(message + '\n')
    process.exit(1)
  }
  for (let json = next(); json; json = next()) {
    const request = JSON.parse(json)
    if (request.id !== undefined) answer(request.id, message)
  }
}
