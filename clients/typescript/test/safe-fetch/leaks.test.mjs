import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { describe, it } from 'node:test'
import { PRIVATE, httpServer, make, rawServer, until } from './helpers.mjs'

const descriptors = () => readdirSync('/proc/self/fd').length
const settled = (promises) => Promise.allSettled(promises)

describe('nothing is left', () => {
  it('of sockets, timers and descriptors after calls of every end', async (t) => {
    const good = await httpServer(t, (_request, response) => response.end(Buffer.alloc(1000)))
    const hung = await rawServer(t, () => {})
    const half = await rawServer(t, (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx'))
    const cut = await rawServer(t, (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx'))
    const open = await rawServer(t, (socket) => socket.write('HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok'))
    const loop = await httpServer(t, (_request, response) => response.writeHead(302, { location: '/' }).end('x'))
    const servers = [good, hung, half, cut, open, loop]
    const { handler } = make({ maxBodyBytes: 5000, maxRedirects: 3, policy: ({ host }) => host !== 'evil.test' })
    const hasty = make({ timeoutMs: 100 }).handler
    const small = make({ maxBodyBytes: 10 }).handler
    const round = async () => {
      const results = await settled([
        ...servers.map((server) => (server === hung || server === half ? hasty : handler)(`http://a.test:${server.port}/`)), small(`http://a.test:${good.port}/`),
        handler(`http://evil.test:${good.port}/`), handler('http://a.test:2/'), handler(`http://${PRIVATE}:${good.port}/`), handler('nonsense')
      ])
      assert.deepEqual(results.map(({ status, reason }) => status === 'fulfilled' ? 'ok' : reason.code ?? reason.name), [
        'ok', 'ERR_FETCH_TIMEOUT', 'ERR_FETCH_TIMEOUT', 'ERR_FETCH_NETWORK', 'ok', 'ok', 'ERR_FETCH_RESPONSE_TOO_LARGE', 'ERR_FETCH_DENIED', 'ERR_FETCH_NETWORK', 'ERR_FETCH_DENIED', 'TypeError'
      ])
      await until(() => servers.every(({ sockets }) => sockets.size === 0))
    }
    const resources = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout' || name.startsWith('TCPSocket') || name.startsWith('TCPClient')).length
    await round()
    await until(() => resources() === 0)
    const before = descriptors()
    for (let i = 0; i < 10; i++) await round()
    await until(() => resources() === 0 && descriptors() <= before)
  })

  it('of a connection for the next call: each has its own', async (t) => {
    const { port, server } = await httpServer(t, (_request, response) => response.writeHead(200, { connection: 'keep-alive' }).end('ok'))
    let connections = 0
    server.on('connection', () => { connections++ })
    const { handler } = make()
    for (let i = 0; i < 5; i++) await handler(`http://a.test:${port}/`)
    assert.equal(connections, 5)
  })

  it('of listeners on a signal that outlives many calls', async (t) => {
    const { port } = await httpServer(t)
    const warnings = []
    const note = (warning) => warnings.push(warning.name)
    process.on('warning', note)
    t.after(() => process.off('warning', note))
    const { invoke } = make()
    const { signal } = new AbortController()
    for (let i = 0; i < 50; i++) await invoke({ url: `http://a.test:${port}/`, signal })
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(warnings, [])
  })
})
