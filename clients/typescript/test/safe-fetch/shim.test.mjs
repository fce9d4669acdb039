import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import vm from 'node:vm'
import { SHIM } from '../../dist/safe-fetch/shim.js'
import { httpServer, make } from './helpers.mjs'

// A realm with ECMAScript and nothing else; `body` is made in it, as the bridge does.
function realm (globals = {}) {
  const context = vm.createContext(Object.assign(Object.create(null), globals))
  const shim = vm.runInContext(`(${SHIM}\n)`, context)
  const intern = vm.runInContext('(bytes) => Uint8Array.from(bytes)', context)
  return (response) => shim({ statusText: '', headers: {}, ...response, body: response.body instanceof Uint8Array ? intern(response.body) : response.body })
}
const bare = realm()
const respond = (bytes) => bare({ status: 200, body: Uint8Array.from(bytes) })

describe('the shim', () => {
  it('runs in a realm that has nothing', () => {
    const names = vm.runInContext('Object.getOwnPropertyNames(globalThis)', vm.createContext(Object.create(null)))
    for (const name of ['TextDecoder', 'Buffer', 'process', 'require', 'URL', 'fetch']) assert.ok(!names.includes(name), name)
    assert.equal(respond(Buffer.from('{"a":"é"}')).json().a, 'é')
  })

  it('gives status, ok, statusText, headers and body', () => {
    const headers = { 'content-type': 'text/plain' }
    const response = bare({ status: 404, statusText: 'Not Found', headers, body: Uint8Array.of(104, 105) })
    assert.deepEqual(
      [response.status, response.ok, response.statusText, response.headers, [...response.body]],
      [404, false, 'Not Found', headers, [104, 105]]
    )
    assert.deepEqual(Object.keys(response), ['status', 'statusText', 'headers', 'body', 'ok', 'json', 'text', 'bytes'])
    for (const [status, ok] of [[199, false], [200, true], [204, true], [299, true], [300, false], [500, false]]) {
      assert.equal(bare({ status, body: null }).ok, ok, String(status))
    }
  })

  it('reads at once and as often as asked; await works too', async () => {
    const response = respond(Buffer.from('[1]'))
    for (let i = 0; i < 2; i++) assert.deepEqual([response.text(), [...response.json()], [...response.bytes()]], ['[1]', [1], [91, 49, 93]])
    assert.equal(await response.text(), '[1]')
    response.bytes().fill(0)
    assert.equal(response.text(), '[1]')
  })

  it('throws the realm\'s own errors', () => {
    assert.throws(() => respond(Buffer.from('{')).json(), { name: 'SyntaxError' })
    assert.throws(() => bare({ status: 204, body: null }).json(), { name: 'SyntaxError' })
    assert.throws(() => bare({ status: 200, body: { a: 1 } }).bytes(), { name: 'TypeError', message: /not bytes/ })
  })

  it('has empty text for no body, and takes values that a middleware made', () => {
    const none = bare({ status: 204, body: null })
    assert.deepEqual([none.text(), none.bytes().length, none.body], ['', 0, null])
    const value = bare({ status: 200, body: { queued: true } })
    assert.deepEqual([value.text(), value.json()], ['{"queued":true}', { queued: true }])
  })

  it('decodes UTF-8 as the Encoding standard says, byte for byte', () => {
    const decoder = new TextDecoder()
    const check = (bytes) => assert.equal(respond(bytes).text(), decoder.decode(Uint8Array.from(bytes)), Buffer.from(bytes).toString('hex'))
    const LEADS = [0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff]
    const NEXT = [0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xe0, 0xef, 0xf4, 0xff]
    check([])
    for (const a of LEADS) {
      check([a])
      for (const b of NEXT) {
        check([a, b])
        for (const c of NEXT) {
          check([a, b, c])
          for (const d of NEXT) check([a, b, c, d])
        }
      }
    }
    for (const text of ['\ufeffmark', '\ufeff\ufeff', 'x\ufeff', 'é☃😀\u{10ffff}\ud7ff\ue000', '😀'.repeat(10_000), 'a'.repeat(100_000)]) {
      check([...Buffer.from(text)])
    }
  })

  it('uses TextDecoder where there is one', () => {
    const seen = []
    const withDecoder = realm({ TextDecoder: class { decode (bytes) { seen.push(bytes.length); return 'decoded' } } })
    assert.equal(withDecoder({ status: 200, body: Uint8Array.of(1, 2, 3) }).text(), 'decoded')
    assert.deepEqual(seen, [3])
  })

  it('fits what the handler gives', async (t) => {
    const { port } = await httpServer(t, (_request, response) => response.writeHead(201, { 'x-a': '1' }).end('{"ok":"☃"}'))
    const { kind, handler, shim, invoke } = make()
    assert.deepEqual([kind, shim, typeof invoke], ['bridge-with-shim', SHIM, 'function'])
    const response = bare(await handler(`http://a.test:${port}/`))
    assert.deepEqual([response.status, response.ok, response.headers['x-a'], response.json().ok], [201, true, '1', '☃'])
  })
})
