import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { failed, httpServer, jsonOf, make, rawServer, textOf } from './helpers.mjs'

const ok = (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')

// The head as lines, and the bytes after it.
async function sent (t, init, options) {
  const { port, heads } = await rawServer(t, (socket) => setTimeout(ok, 10, socket))
  await make(options).handler(`http://a.test:${port}/path?q=1`, init)
  const [head, body] = heads[0].split('\r\n\r\n')
  return { lines: head.split('\r\n').map((line) => line.replace(`:${port}`, ':PORT')).sort(), body }
}

describe('headers of a request', () => {
  it('are what was given, the host, and how it ends', async (t) => {
    assert.deepEqual(await sent(t, { method: 'POST', body: 'data', headers: { 'X-Mine': ' a\tb é ', accept: '*/*' } }), {
      lines: ['Connection: close', 'Content-Length: 4', 'Host: a.test:PORT', 'POST /path?q=1 HTTP/1.1', 'accept-encoding: identity', 'accept: */*', 'x-mine:  a\tb é '],
      body: 'data'
    })
  })

  const OURS = {
    Host: 'evil.test',
    'Content-Length': '0',
    'Transfer-Encoding': 'chunked',
    TE: 'trailers',
    Trailer: 'x',
    Connection: 'keep-alive, x-mine',
    'Keep-Alive': 'timeout=99',
    'Proxy-Connection': 'keep-alive',
    Upgrade: 'h2c',
    'HTTP2-Settings': 'AAMAAABk',
    Expect: '100-continue',
    'Accept-Encoding': 'gzip'
  }
  const NONE = ['Connection: close', 'Content-Length: 4', 'Host: a.test:PORT', 'POST /path?q=1 HTTP/1.1', 'accept-encoding: identity']

  it('of the guest do not say where the message ends, to whom it goes, or what comes after', async (t) => {
    const expected = { lines: NONE, body: 'data' }
    assert.deepEqual(await sent(t, { method: 'POST', body: 'data', headers: OURS }), expected)
    for (const [name, value] of Object.entries(OURS)) {
      assert.deepEqual(await sent(t, { method: 'POST', body: 'data', headers: { [name.toUpperCase()]: value } }), expected, name)
    }
  })

  it('of a middleware neither', async (t) => {
    const middleware = (ctx, next) => { Object.assign(ctx.req.headers, OURS); return next() }
    assert.deepEqual(
      (await sent(t, { method: 'POST', body: 'data' }, { middleware })).lines,
      NONE
    )
  })

  it('cannot smuggle a second request in the body', async (t) => {
    const { port, requests } = await httpServer(t)
    const body = '0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a.test\r\n\r\n'
    for (const headers of [{ 'transfer-encoding': 'chunked' }, { 'content-length': '0' }, { 'content-length': '5', 'transfer-encoding': 'chunked' }, { 'transfer-encoding': 'xchunked' }]) {
      assert.equal(textOf(await make().handler(`http://a.test:${port}/`, { method: 'POST', body, headers })), 'ok')
    }
    assert.deepEqual(requests.map(({ url }) => url), ['/', '/', '/', '/'])
  })

  it('without a body say so where the method has one', async (t) => {
    for (const [body, method, expected] of [[null, 'POST', 'Content-Length: 0'], ['', 'PUT', 'Content-Length: 0'], [undefined, 'DELETE', undefined], [undefined, 'GET', undefined]]) {
      const { lines } = await sent(t, { method, body })
      assert.equal(lines.find((line) => /^(content-length|transfer-encoding)/i.test(line)), expected, method)
    }
  })

  const BAD = [
    ...['b\r\nX-B: c', 'b\nc', 'b\rc', 'b\0c', 'snow ☃', '\x7f', 1, null, ['b']].map((value) => ({ 'x-a': value })),
    ...['x-a\r\nX-B', 'x a', 'x:a', '', 'x-é', ':authority', 'x\0'].map((name) => ({ [name]: 'b' })),
    { host: 'a\r\nb' }, 'x-a: b', 7, [['x-a']], [['x-a', 'b', 'c']], ['x-a'], [[1, 'b']]
  ]
  for (const headers of BAD) {
    it(`cannot be ${JSON.stringify(headers)}`, async () => {
      await assert.rejects(
        make({ policy: () => assert.fail('asked') }).handler('http://a.test/', { headers }),
        { name: 'TypeError', message: /^fetch: .*header/ }
      )
      const middleware = (ctx, next) => { ctx.req.headers = headers; return next() }
      await assert.rejects(make({ middleware }).handler('http://a.test/'), { name: 'TypeError' })
    })
  }

  it('may be a record, pairs, a Map or Headers; the same name twice is joined', async (t) => {
    const { port } = await httpServer(t, (request, response) => response.end(JSON.stringify(request.headers)))
    const got = async (headers) => jsonOf(await make().handler(`http://a.test:${port}/`, { headers }))
    assert.equal((await got([['x-a', '1'], ['X-A', '2']]))['x-a'], '1, 2')
    assert.equal((await got({ cookie: 'a=1', Cookie: 'b=2' })).cookie, 'a=1; b=2')
    assert.equal((await got(new Map([['x-a', '1']])))['x-a'], '1')
    assert.equal((await got(new Headers({ 'X-A': '1' })))['x-a'], '1')
    assert.equal((await got(JSON.parse('{"__proto__":"1","constructor":"2"}'))).constructor, '2')
    for (const headers of [undefined, null, {}, []]) {
      assert.deepEqual(Object.keys(await got(headers)).sort(), ['accept-encoding', 'connection', 'host'])
    }
  })

  it('may come in a Request, with its method and body', async (t) => {
    const { port, requests } = await httpServer(t)
    const url = `http://a.test:${port}/`
    const { handler } = make({ maxRequestBodyBytes: 4 })
    await handler(new Request(url, { method: 'PUT', headers: { 'x-a': '1' }, body: 'data' }))
    await handler(new Request(url, { headers: { 'x-a': '1' } }), { headers: { 'x-a': '2' } })
    assert.deepEqual(
      requests.map(({ method, headers }) => [method, headers['x-a'], headers['content-length']]),
      [['PUT', '1', '4'], ['GET', '2', undefined]]
    )
    await assert.rejects(handler(new Request(url, { method: 'POST', body: 'large' })), failed('REQUEST_TOO_LARGE'))
    await assert.rejects(handler(new Request('http://[::ffff:7f00:1]/')), { code: 'ERR_FETCH_DENIED' })
  })

  it('are with what else init has, which is ignored', async (t) => {
    const { port } = await httpServer(t)
    assert.equal((await make().handler(`http://a.test:${port}/`, { mode: 'cors', credentials: 'include', signal: {}, agent: 'x', lookup: 'x', host: 'evil', __proto__: { port: 1 } })).status, 200)
    for (const init of ['POST', 1, true]) {
      await assert.rejects(make().handler('http://a.test/', init), { name: 'TypeError', message: /second argument/ })
    }
  })
})

describe('responses', () => {
  it('are plain data', async (t) => {
    const { port } = await rawServer(t, (socket) => socket.end('HTTP/1.1 201 Made It\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n__proto__: x\r\nContent-Length: 2\r\nConnection: close\r\nKeep-Alive: 1\r\n\r\nok'))
    const response = await make().handler(`http://a.test:${port}/`)
    assert.deepEqual(response, { status: 201, statusText: 'Made It', headers: { 'x-a': '1, 2', 'set-cookie': 'a=1, b=2', 'content-length': '2' }, body: new Uint8Array([111, 107]) })
    assert.equal(Object.getPrototypeOf(response), Object.prototype)
    assert.equal(response.body.constructor, Uint8Array)
    assert.equal(response.body.buffer.byteLength, 2)
  })

  it('have no body for HEAD, 204, 205 and 304, an empty one else', async (t) => {
    const { port } = await httpServer(t, (request, response) => response.writeHead(Number(request.url.slice(1))).end())
    const { handler } = make()
    for (const [status, method, body] of [[200, 'GET', new Uint8Array()], [404, 'GET', new Uint8Array()], [200, 'HEAD', null], [204, 'GET', null], [205, 'GET', null], [304, 'GET', null]]) {
      assert.deepEqual((await handler(`http://a.test:${port}/${status}`, { method })).body, body, `${method} ${status}`)
    }
  })

  const BROKEN = {
    'no HTTP': 'SSH-2.0-OpenSSH_9.2\r\n',
    'nothing': '',
    'half a head': 'HTTP/1.1 200 OK\r\nX-A: ',
    'a cut body': 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc',
    'a cut chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nabc',
    'length and chunks': 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
    'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd',
    'a bad chunk size': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n',
    'a NUL in a header': 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n',
    'another protocol': 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
  }
  for (const [what, bytes] of Object.entries(BROKEN)) {
    it(`of ${what} fail`, async (t) => {
      const { port } = await rawServer(t, (socket) => socket.end(Buffer.from(bytes, 'latin1')))
      await assert.rejects(
        make().handler(`http://a.test:${port}/`),
        (thrown) => /^ERR_FETCH_(NETWORK|BAD_RESPONSE)$/.test(thrown.code) && thrown.name === 'SafeFetchError'
      )
    })
  }

  it('of a connection reset are network failures', async (t) => {
    const { port } = await rawServer(t, (socket) => socket.resetAndDestroy())
    await assert.rejects(make().handler(`http://a.test:${port}/`), failed('NETWORK'))
  })

  it('end where they end: what a server adds is read by no one', async (t) => {
    const { port, heads } = await rawServer(t, (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'))
    const { handler } = make()
    // Refused as broken or cut at its end, but never treated as the response to the second.
    for (let i = 0; i < 2; i++) {
      assert.equal(await handler(`http://a.test:${port}/`).then(textOf, ({ code }) => code === 'ERR_FETCH_BAD_RESPONSE' && 'ok'), 'ok')
    }
    assert.equal(heads.length, 2)
  })
})
