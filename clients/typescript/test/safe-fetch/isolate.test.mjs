import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createSandbox } from '../../dist/isolate/index.js'
import { real } from '../lib/real.mjs'
import { echo, httpServer, make } from './helpers.mjs'

describe('in a sandbox, by the real daemon', real, () => {
  let sandbox
  before(async () => { sandbox = await createSandbox() })
  after(() => sandbox?.dispose())
  const policy = ({ host }) => host === 'a.test'

  async function run (code, fetch = make({ policy })) {
    const result = await sandbox.run({ code, globals: { fetch } })
    return result.ok ? result.exports.default : result.error
  }

  it('fetch gives status, headers and body; json() and text() are synchronous, and may be awaited', async (t) => {
    const { port } = await httpServer(t, (_request, response) => response.writeHead(201, { 'x-a': '1' }).end('{"text":"é☃😀"}'))
    const code = `const r = await fetch('http://a.test:${port}/'); export default [r.status, r.ok, r.headers['x-a'], r.json().text, (await r.json()).text, r.text(), r.bytes().length, r.body.length]`
    assert.deepEqual(await run(code), [201, true, '1', 'é☃😀', 'é☃😀', '{"text":"é☃😀"}', 20, 20])
  })

  it('fetch takes text, bytes, URL, Headers and Request', async (t) => {
    const { port } = await httpServer(t, echo)
    const code = `const at = 'http://a.test:${port}/'
      const all = await Promise.all([
        fetch(at, { method: 'POST', headers: { 'X-Mine': '1' }, body: 'é' }),
        fetch(new URL(at), { method: 'PUT', headers: new Headers({ 'x-mine': '2' }), body: new Uint8Array([97]) }),
        fetch(new Request(at, { method: 'PATCH', headers: { 'x-mine': '3' }, body: 'b' }))
      ])
      export default all.map((r) => r.json()).map(({ method, headers, body }) => [method, headers['x-mine'], body])`
    assert.deepEqual(await run(code), [['POST', '1', 'é'], ['PUT', '2', 'a'], ['PATCH', '3', 'b']])
  })

  it('denials are errors of the guest, with a code and nothing of the host', async () => {
    const code = `let e; try { await fetch('http://evil.test/') } catch (thrown) { e = thrown }
      export default [e instanceof Error, e.name, e.message, e.code, Object.getOwnPropertyNames(e).sort(), /safe-fetch|node:/.test(e.stack)]`
    const [...seen] = await run(code)
    assert.deepEqual(seen.slice(0, 4), [true, 'SafeFetchError', 'request denied by policy', 'ERR_FETCH_DENIED'])
    assert.ok(!seen[4].includes('cause'))
    assert.equal(seen[5], false)
    assert.deepEqual(await run('export default await fetch("file:///etc/passwd").catch((e) => [e instanceof TypeError, e.message])'), [true, 'fetch: the URL\'s scheme is "file", not http or https'])
  })

  it('a denial that no one catches ends the run by its name', async () => {
    const { code, name, fields } = await run('await fetch("http://2130706433/")', make({ allowPrivate: [] }))
    assert.deepEqual([code, name, fields], ['ERR_HOST_BRIDGE', 'SafeFetchError', { code: 'ERR_FETCH_DENIED' }])
  })
})
