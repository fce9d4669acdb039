// Frames on descriptor 3 (wire.cjs has their form). A function of `host`, run in the agent's own realm.
'use strict'
const FD = 3
const WAIT_MS_MIN = 0.1
const WAIT_MS_MAX = 16
const { readSync, writeSync, TextDecoder, TextEncoder } = host
const { FrameReader, frameHead } = host.values
const decoder = new TextDecoder('utf-8', { fatal: true })
const encoder = new TextEncoder()
const decodeText = decoder.decode.bind(decoder)
const encodeText = encoder.encode.bind(encoder)
const pause = new Int32Array(new SharedArrayBuffer(4))
let current = new Uint8Array(0)
let rehearsed // in a rehearsal: takes the messages, which are not sent

function retry (thrown, wait_ms) {
  if (thrown.code !== 'EAGAIN' && thrown.code !== 'EINTR') throw thrown
  Atomics.wait(pause, 0, 0, wait_ms)
}

function writeFull (bytes, size = bytes.length) {
  let at = 0
  while (at < size) {
    try {
      at += writeSync(FD, bytes, at, size - at, null)
    } catch (thrown) {
      retry(thrown, 1)
    }
  }
}

let frames = new FrameReader() // bytes that a socket read are here until a frame is whole

function message ({ json, attachments }) {
  current = attachments
  return JSON.parse(decodeText(json))
}

// The next message, or undefined at the end of the stream. Waits for it; `pulse` is called while nothing comes. If
// `pulse` throws, or an interrupt comes, the bytes that came stay for the next reading.
function read (pulse) {
  for (let wait = WAIT_MS_MIN; ;) {
    const frame = frames.next()
    if (frame !== undefined) return message(frame)
    const bytes = new host.Uint8Array(frames.missing)
    try {
      const n = readSync(FD, bytes, 0, bytes.length, null)
      if (n === 0) return undefined
      frames.push(bytes.subarray(0, n))
      wait = WAIT_MS_MIN
    } catch (thrown) {
      retry(thrown, wait)
      pulse?.()
      wait = Math.min(2 * wait, WAIT_MS_MAX)
    }
  }
}

// -- while code runs that asked the host something, answers come through the event loop

let socket

function open (fd, deliver, leave) {
  const opened = host.openSocket(fd)
  opened.on('data', (bytes) => feed(bytes, deliver))
  opened.on('error', () => leave(1))
  opened.on('end', () => leave(0))
  return opened
}

function feed (bytes, deliver) {
  frames.push(new host.Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length))
  for (let frame; (frame = frames.next()) !== undefined;) deliver(message(frame))
}

// The event loop lives while something is awaited.
function listen (deliver) {
  if (rehearsed !== undefined) return
  socket ??= open(FD, deliver, host.exit)
  socket.ref()
}

const rest = () => { socket?.unref() }

function writeFrame (message, attachments) {
  const json = encodeText(JSON.stringify(message))
  const { head, length } = frameHead(json.length, attachments)
  const frame = new host.Uint8Array(4 + length)
  frame.set(head)
  frame.set(json, 8)
  let at = 8 + json.length
  for (const bytes of attachments) {
    frame.set(bytes, at)
    at += bytes.length
  }
  if (rehearsed === undefined) writeFull(frame)
  else rehearsed(message)
}

// Lines of the console are many, and the code that prints them may never yield, or be killed. They wait in memory that the engine reads
// when this process has ended without sending them (spec/agent.md, Lines): a number and a size, then the lines. Without that memory each is sent at once.
const LINES_AT = 8
let getMemory
let memory
let memoryHead
let linesEnd = LINES_AT
let linesNumber = 1

// `get` is called when the first line comes, and gives an ArrayBuffer or undefined.
function keepLines (get) { getMemory = get }

function openLines () {
  const buffer = getMemory()
  getMemory = undefined
  if (buffer === undefined) return
  memory = new host.Uint8Array(buffer)
  memoryHead = new DataView(buffer)
  memoryHead.setUint32(0, linesNumber, true)
}

function tellLine (stream, text) {
  if (getMemory !== undefined) openLines()
  // A unit of a string has at most three bytes.
  const room = 4 + 3 * text.length
  if (memory === undefined || LINES_AT + room > memory.length) return tell('console', { stream, text })
  if (linesEnd + room > memory.length) sendLines()
  const { written } = encoder.encodeInto(text, memory.subarray(linesEnd + 4))
  memoryHead.setUint32(linesEnd, 2 * written + (stream === 'stderr' ? 1 : 0), true)
  linesEnd += 4 + written
  // Last: until then the line is none.
  memoryHead.setUint32(4, linesEnd - LINES_AT, true)
}

function sendLines () {
  const number = linesNumber++
  const lines = memory.subarray(LINES_AT, linesEnd)
  linesEnd = LINES_AT
  writeFrame({ jsonrpc: '2.0', method: 'lines', params: { number } }, [lines])
  // In this order: lines that were sent are known by their number, whenever this process ends.
  memoryHead.setUint32(4, 0, true)
  memoryHead.setUint32(0, linesNumber, true)
}

function write (message, attachments) {
  if (linesEnd > LINES_AT) sendLines()
  writeFrame(message, attachments)
}

// Messages are made here: an object of the main realm would be written as its user's toJSON says.
function texts (list) {
  const own = []
  for (let i = 0; i < list.length; i++) own[i] = list[i]
  return own
}
const writeResult = (id, result, attachments = []) => write({ jsonrpc: '2.0', id, result: { ...result } }, attachments)
const writeError = (id, code, text, data, attachments = []) => write({ jsonrpc: '2.0', id, error: { code, message: text, data: data && { ...data } } }, attachments)
const ask = (id, target, args, attachments) => write({ jsonrpc: '2.0', id, method: 'bridge', params: { target: texts(target), args, kwargs: {} } }, attachments)
const request = (id, method, params, attachments) => write({ jsonrpc: '2.0', id, method, params: { ...params } }, attachments)
const tell = (method, params, attachments = []) => write({ jsonrpc: '2.0', method, params: { ...params } }, attachments)

// A forked child has another socket on the same number.
function renew () {
  frames = new FrameReader()
  socket = getMemory = memory = undefined
  linesEnd = LINES_AT
}

// A context's, forked while it listened: the event loop has the new socket on the old number.
function reborn () {
  frames = new FrameReader()
  socket?._handle.setBlocking(false)
}

// -- rehearsals in a template

function rehearse (onMessage) { rehearsed = onMessage }

// The message as it would come in a frame.
const received = (sent, attachments = new host.Uint8Array(0)) => message({ json: encodeText(JSON.stringify(sent)), attachments })

// The peer of the descriptor has sent a frame, and is gone.
const rehearseSocket = (fd) => new Promise((resolve) => open(fd, () => {}, () => {}).on('close', resolve))

return { rehearse, received, rehearseSocket, reborn, read, listen, rest, isListening: () => socket !== undefined, writeResult, writeError, ask, request, tell, tellLine, keepLines, renew, attachments: () => current }
