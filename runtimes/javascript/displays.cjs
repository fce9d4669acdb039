// A display on the wire: bytes as bytes, JSON data as JSON, and large values kept in a file of the
// box. A function of `host`, run in the agent's own realm.
'use strict'
const { fs, types, values, wellFormed } = host
const FOLDER_OF_LARGE = '/tmp/.cloche-display'
const SHORT = 1000
const FRAME_BYTES_MAX = 1 << 30
const NODES_MAX = 10000
const DEPTH_MAX = 100
const BASE64_KINDS = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf'])
const ENDINGS = {
  __proto__: null,
  'text/plain': 'txt', 'text/html': 'html', 'text/markdown': 'md', 'text/latex': 'tex', 'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpg',
  'image/gif': 'gif', 'application/pdf': 'pdf', 'application/javascript': 'js'
}

// -- the form of a value

const isListOrRecord = (value) => {
  if (value === null || typeof value !== 'object' || types.isProxy(value)) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === host.Object.prototype || prototype === null || Array.isArray(value)
}

// A copy of a value that JSON holds exactly, or undefined; no getter is run.
function faithful (value) {
  let left = NODES_MAX
  const isOpen = new Set()
  const refused = {}

  function scalar (item) {
    switch (typeof item) {
      case 'string': case 'boolean': return item
      case 'number': return Number.isFinite(item) && !Object.is(item, -0) && (!Number.isInteger(item) || Number.isSafeInteger(item)) ? item : refused
      default: return item === null ? item : refused
    }
  }

  function container (item) {
    const keys = Reflect.ownKeys(item)
    const isList = Array.isArray(item)
    if (keys.length > left || (isList && keys.length !== item.length + 1)) return refused
    const made = isList ? [] : {}
    for (const key of keys) {
      const { enumerable, value: inner } = Object.getOwnPropertyDescriptor(item, key)
      if (isList && key === 'length') continue
      const copy = typeof key === 'string' && enumerable && inner !== undefined ? copyOf(inner) : refused
      if (copy === refused) return refused
      Object.defineProperty(made, key, { value: copy, writable: true, enumerable: true, configurable: true })
    }
    return made
  }

  function copyOf (item) {
    if (--left < 0) return refused
    if (!isListOrRecord(item)) return scalar(item)
    if (isOpen.has(item) || isOpen.size >= DEPTH_MAX) return refused
    isOpen.add(item)
    const made = container(item)
    isOpen.delete(item)
    return made
  }

  const copy = copyOf(value)
  return copy === refused ? undefined : copy
}

const ofItself = host.Symbol.for('Jupyter.display')

// {kind: data}, or a promise of it.
function look (value) {
  const own = value !== null && (typeof value === 'object' || typeof value === 'function') && !types.isProxy(value) ? value[ofItself] : undefined
  if (typeof own === 'function') return Reflect.apply(own, value, [])
  const data = { 'text/plain': host.inspect(value) }
  if (isListOrRecord(value)) {
    const copy = faithful(value)
    if (copy !== undefined) data['application/json'] = copy
  }
  return data
}

// -- packing

// The value after a round trip through JSON, in this realm.
function jsonOf (value) {
  const text = JSON.stringify(value)
  if (text === undefined) throw new host.TypeError(`${typeof value} is nothing that JSON can hold`)
  return JSON.parse(text)
}

function bytesOf (text) {
  const compact = text.replace(/\s/g, '')
  if (compact.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) throw new host.TypeError('this is no base64')
  return host.fromBase64(compact)
}

const isBytes = (value) => types.isUint8Array(value) || types.isUint8ClampedArray(value) || types.isAnyArrayBuffer(value) || types.isDataView(value)

function sendable (kind, value) {
  if (isBytes(value)) return value
  if (typeof value === 'string') return BASE64_KINDS.has(kind) ? bytesOf(value) : wellFormed(value)
  return jsonOf(value)
}

const sizeOf = (value) => typeof value === 'string' ? value.length : isBytes(value) ? value.byteLength : 0

// The kinds that can be sent; for others the metadata holds the reason.
function sendableOf (given, metadata) {
  const data = {}
  if (given === null || typeof given !== 'object') throw new host.TypeError(`a display is an object of kinds and their data, not ${given === null ? 'null' : typeof given}`)
  for (const kind of Object.keys(given)) {
    if (given[kind] === undefined) continue
    try {
      data[wellFormed(kind)] = sendable(kind, given[kind])
    } catch (thrown) {
      if (host.isInterrupt(thrown)) throw thrown
      metadata[wellFormed(kind)] = { error: wellFormed(`${thrown?.message ?? thrown}`) }
    }
  }
  return data
}

// {params, attachments} of a display; request: {data, metadata, isResult, id, isUpdate}.
function pack (request, storeBytes) {
  const params = { data: undefined, metadata: request.metadata === undefined ? {} : jsonOf(request.metadata), isResult: request.isResult }
  if (request.id !== undefined) params.displayId = wellFormed(`${request.id}`)
  if (request.isUpdate) params.isUpdate = true
  params.data = sendableOf(request.data, params.metadata)
  const whole = encoded(params, storeBytes)
  if (whole !== undefined) return whole
  Object.assign(params, stored(params.data))
  return values.encode(params, FRAME_BYTES_MAX)
}

function encoded (params, storeBytes) {
  let rough = 0
  for (const kind of Object.keys(params.data)) rough += sizeOf(params.data[kind])
  if (rough > storeBytes) return undefined
  const made = values.encode(params, FRAME_BYTES_MAX)
  const size = made.attachments.reduce((sum, { length }) => sum + length, JSON.stringify(made.value).length)
  return size <= storeBytes ? made : undefined
}

const contentOf = (value) => typeof value === 'string' ? host.Buffer.from(value) : isBytes(value) ? value : host.Buffer.from(JSON.stringify(value))

// The largest of the kinds is kept as a file, the others are dropped.
function stored (data) {
  const content = Object.entries(data).map(([kind, value]) => [kind, contentOf(value)]).sort(([, a], [, b]) => b.byteLength - a.byteLength)
  const [kind, bytes] = content[0]
  const plain = typeof data['text/plain'] === 'string' ? data['text/plain'] : `<${kind} of ${bytes.byteLength} bytes>`
  const short = plain.length > SHORT ? `${wellFormed(plain.slice(0, SHORT))}... (${plain.length} characters in all)` : plain
  try {
    return { data: { 'text/plain': short }, metadata: { stored: { mime: kind, path: write(kind, bytes), bytes: bytes.byteLength } } }
  } catch (thrown) {
    return { data: { 'text/plain': short }, metadata: { error: `${kind} of ${bytes.byteLength} bytes could not be kept in ${FOLDER_OF_LARGE}: ${thrown.message}` } }
  }
}

function write (kind, bytes) {
  fs.mkdirSync(FOLDER_OF_LARGE, { recursive: true })
  const path = `${FOLDER_OF_LARGE}/${host.randomBytes(8).toString('hex')}.${ENDINGS[kind] ?? (kind.includes('json') ? 'json' : 'bin')}`
  try {
    fs.writeFileSync(path, isBytes(bytes) && !types.isAnyArrayBuffer(bytes) ? bytes : new host.Uint8Array(bytes), { flag: 'wx' })
  } catch (thrown) {
    try { fs.unlinkSync(path) } catch {}
    throw thrown
  }
  return path
}

return { look, pack, faithful }
