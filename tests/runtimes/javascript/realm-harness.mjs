// A bare realm with a host in memory: what crosses is encoded and decoded as on the wire.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import vm from 'node:vm'

const folder = new URL('../../../runtimes/javascript/', import.meta.url)
const { createRealm } = createRequire(import.meta.url)(new URL('realm.cjs', folder).pathname)
const LIMIT = 1 << 20
const realms = []

const agent = vm.createContext(Object.create(null))
const compile = (name, params) => vm.compileFunction(readFileSync(new URL(name, folder), 'utf8'), params, { parsingContext: agent })
const wire = {}
compile('wire.cjs', ['module'])(wire)
const loadValues = (host) => compile('values.cjs', ['host', 'makeWire'])(host, wire.exports)
const plain = loadValues({
  typed: { u8: Uint8Array, f64: Float64Array, i16: Int16Array }, types: (await import('node:util')).types,
  ...Object.fromEntries(['Array', 'ArrayBuffer', 'BigInt', 'Date', 'Error', 'Map', 'Object', 'RegExp', 'Set', 'TypeError', 'RangeError', 'Uint8Array'].map((name) => [name, globalThis[name]])),
  classes: Object.fromEntries(['URL', 'Headers', 'Request', 'Response'].map((t) => [t, (v) => ({ t, v })]))
})

const join = (attachments) => Buffer.concat(attachments)
const across = (value, from, to) => {
  const sent = from.encode(value, LIMIT, true)
  return to.decode(JSON.parse(JSON.stringify(sent.value)), join(sent.attachments))
}

// Promises of the guest that nobody handles are its own affair, as the agent must see it too.
process.on('unhandledRejection', (reason, promise) => {
  if (!realms.some((realm) => realm.owns(promise))) throw reason
})

// `host(target, args)` works with values of this realm, as a host's function does.
export function makeRealm (host = () => undefined) {
  const lines = []
  const calls = []
  const bridge = async (target, args) => {
    const given = across(args, realm.values, plain)
    calls.push(target)
    try {
      return { value: across(await host(target, given), plain, realm.values) }
    } catch (thrown) {
      const { name, message, ...fields } = Object(thrown) === thrown ? thrown : {}
      throw { name: name ?? thrown.name ?? 'Error', message: message ?? String(thrown), fields: across(fields, plain, realm.values) } // eslint-disable-line no-throw-literal
    }
  }
  const tell = (stream, text) => lines.push(['console', stream, text])
  const realm = createRealm({ bridge, tell, values: loadValues })
  realms.push(realm)
  const params = (code, globals, imports) => ({
    code, filename: 'user.mjs', resultBytes: LIMIT, globals: across(globals, plain, realm.values), imports: across(imports, plain, realm.values)
  })
  return {
    realm,
    lines,
    calls,
    prepare: (code, globals = {}, imports = {}) => realm.prepare(params(code, globals, imports)),
    async evaluate (code, globals = {}, imports = {}, limit = LIMIT) {
      const { exports } = await realm.evaluate(params(code, globals, imports))
      const sent = realm.encodeExports(exports, limit)
      return plain.decode(JSON.parse(JSON.stringify(sent.value)), join(sent.attachments))
    }
  }
}

// The default export of code in a realm of its own.
export const run = async (code, globals, imports) => (await makeRealm().evaluate(code, globals, imports)).default

export const fails = (promise) => promise.then((value) => { throw new Error(`it gave ${JSON.stringify(value)}`) }, (failure) => {
  if (failure instanceof Error) throw failure
  return failure
})

export const fn = { kind: 'function' }
