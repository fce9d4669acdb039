import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib'
import { bytesOf, denied, failed, httpServer, make, rawServer, textOf, until } from './helpers.mjs'

const KIB = 1024
const never = () => new Promise(() => {})

describe('timeoutMs', () => {
  const PLACES = {
    'a policy': { policy: never },
    'a middleware': { middleware: never },
    'a name server': { lookup: never }
  }
  for (const [place, options] of Object.entries(PLACES)) {
    it(`ends the wait for ${place}`, async () => assert.rejects(make({ timeoutMs: 20, ...options }).handler('http://a.test/'), failed('TIMEOUT')))
  }

  const SERVERS = {
    'a server that says nothing': () => {},
    'a body that never ends': (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc'),
    'a body of a byte now and then': (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      const timer = setInterval(() => socket.write('x'), 5)
      socket.once('close', () => clearInterval(timer))
    },
    'a head of a byte now and then': (socket) => {
      socket.write('HTTP/1.1 200 OK\r\nX-Slow: ')
      const timer = setInterval(() => socket.write('x'), 5)
      socket.once('close', () => clearInterval(timer))
    },
    'informational answers without end': (socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), 2)
      socket.once('close', () => clearInterval(timer))
    }
  }
  for (const [what, answer] of Object.entries(SERVERS)) {
    it(`ends ${what}, and the connection`, async (t) => {
      const { port, sockets } = await rawServer(t, answer)
      await assert.rejects(make({ timeoutMs: 200 }).handler(`http://a.test:${port}/`), failed('TIMEOUT'))
      await until(() => sockets.size === 0)
    })
  }

  it('is one for the whole chain', async (t) => {
    const { port, requests } = await httpServer(t, (_request, response) => setTimeout(() => response.writeHead(302, { location: '/' }).end(), 20))
    await assert.rejects(make({ timeoutMs: 150, maxRedirects: 100 }).handler(`http://a.test:${port}/`), failed('TIMEOUT'))
    assert.ok(requests.length < 20, `${requests.length} requests`)
  })

  it('stops what was to come: a late policy leads to no connection', async (t) => {
    const { port, requests } = await httpServer(t)
    let answer
    const { handler } = make({ timeoutMs: 20, policy: () => new Promise((resolve) => { answer = resolve }) })
    await assert.rejects(handler(`http://a.test:${port}/`), failed('TIMEOUT'))
    answer(true)
    await new Promise((resolve) => setTimeout(resolve, 30))
    assert.deepEqual(requests, [])
  })

  it('of 0 is none', async (t) => {
    const { port } = await httpServer(t, (_request, response) => setTimeout(() => response.end('late'), 60))
    assert.equal(textOf(await make({ timeoutMs: 0 }).handler(`http://a.test:${port}/`)), 'late')
  })
})

describe('maxBodyBytes', () => {
  const body = Buffer.alloc(64 * KIB, 'x')

  it('lets through what has that size, and no more', async (t) => {
    const { port } = await httpServer(t, (request, response) => request.url === '/chunked' ? response.write(body, () => response.end()) : response.end(body))
    for (const path of ['', 'chunked']) {
      const url = `http://a.test:${port}/${path}`
      assert.equal((await make({ maxBodyBytes: body.length }).handler(url)).body.length, body.length)
      assert.equal((await make({ maxBodyBytes: 0 }).handler(url)).body.length, body.length)
      await assert.rejects(make({ maxBodyBytes: body.length - 1 }).handler(url), failed('RESPONSE_TOO_LARGE'))
    }
  })

  it('is 16 MiB by default, counted while it comes', async (t) => {
    const chunk = Buffer.alloc(KIB * KIB)
    const { port, sockets } = await httpServer(t, (_request, response) => {
      const more = () => { while (!response.destroyed && response.write(chunk)); }
      response.on('drain', more)
      more()
    })
    await assert.rejects(make().handler(`http://a.test:${port}/`), { ...failed('RESPONSE_TOO_LARGE'), message: /16777216 bytes/ })
    await until(() => sockets.size === 0)
  })

  it('refuses what announces too much before it comes', async (t) => {
    const { port } = await rawServer(t, (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n'))
    await assert.rejects(make().handler(`http://a.test:${port}/`), failed('RESPONSE_TOO_LARGE'))
  })

  it('does not hold against a HEAD that announces much', async (t) => {
    const { port } = await httpServer(t, (_request, response) => response.writeHead(200, { 'content-length': '1000000000000' }).end())
    assert.equal((await make().handler(`http://a.test:${port}/`, { method: 'HEAD' })).body, null)
  })
})

describe('compressed responses', () => {
  const CODINGS = { gzip: gzipSync, 'x-gzip': gzipSync, deflate: deflateSync, br: brotliCompressSync, GZIP: gzipSync }
  const compressedServer = (t, coding, bytes) => httpServer(t, (_request, response) => {
    response.writeHead(200, { 'content-encoding': coding, 'content-length': bytes.length }).end(bytes)
  })

  it('are not asked for, and refused when they come', async (t) => {
    const { port, requests } = await compressedServer(t, 'gzip', gzipSync('x'))
    await assert.rejects(
      make().handler(`http://a.test:${port}/`, { headers: { 'accept-encoding': 'gzip' } }),
      { ...failed('BAD_RESPONSE'), message: /compressed \(gzip\)/ }
    )
    assert.equal(requests[0].headers['accept-encoding'], 'identity')
  })

  for (const [coding, compress] of [...Object.entries(CODINGS), ['deflate', deflateRawSync]]) {
    it(`are decompressed when allowed: ${coding} by ${compress.name}`, async (t) => {
      const { port, requests } = await compressedServer(t, coding, compress(Buffer.alloc(100 * KIB, 'abc')))
      const response = await make({ allowCompressedResponses: true }).handler(`http://a.test:${port}/`)
      assert.deepEqual(Buffer.from(response.body), Buffer.alloc(100 * KIB, 'abc'))
      assert.deepEqual([response.headers['content-encoding'], response.headers['content-length']], [undefined, undefined])
      assert.equal(requests[0].headers['accept-encoding'], 'gzip, deflate, br')
    })

    it(`may not be bombs: ${coding} by ${compress.name}`, async (t) => {
      const bomb = compress(Buffer.alloc(8 * KIB * KIB))
      assert.ok(bomb.length < 100 * KIB)
      const { port, sockets } = await compressedServer(t, coding, bomb)
      await assert.rejects(
        make({ allowCompressedResponses: true, maxBodyBytes: 100 * KIB }).handler(`http://a.test:${port}/`),
        failed('RESPONSE_TOO_LARGE')
      )
      await until(() => sockets.size === 0)
    })
  }

  it('that never yield a byte are counted as they come', async (t) => {
    // Members of nothing, one after the other.
    const nothing = gzipSync('')
    const { port } = await httpServer(t, (_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' })
      const more = () => { while (!response.destroyed && response.write(Buffer.concat(Array(100).fill(nothing)))); }
      response.on('drain', more)
      more()
    })
    await assert.rejects(
      make({ allowCompressedResponses: true, maxBodyBytes: 100 * KIB }).handler(`http://a.test:${port}/`),
      failed('RESPONSE_TOO_LARGE')
    )
  })

  it('that are broken, cut or unknown are bad responses', async (t) => {
    const whole = gzipSync(Buffer.alloc(KIB, 'x'))
    for (const [coding, bytes] of [['gzip', Buffer.from('no gzip')], ['gzip', whole.subarray(0, whole.length - 9)], ['br', Buffer.alloc(100, 0xff)], ['deflate', Buffer.from([0x78, 1, 2, 3])],
      ['zstd', whole], ['gzip, gzip', whole], ['toString', whole], ['__proto__', whole]]) {
      const { port } = await compressedServer(t, coding, bytes)
      await assert.rejects(
        make({ allowCompressedResponses: true }).handler(`http://a.test:${port}/`),
        failed('BAD_RESPONSE'),
        `${coding} ${bytes.length}`
      )
    }
  })

  it('of nothing are nothing', async (t) => {
    for (const coding of ['deflate', 'identity']) {
      const { port } = await compressedServer(t, coding, Buffer.alloc(0))
      assert.equal((await make({ allowCompressedResponses: true }).handler(`http://a.test:${port}/`)).body.length, 0)
    }
  })
})

describe('request bodies', () => {
  it('have at most maxRequestBodyBytes, in bytes', async (t) => {
    const { port, requests } = await httpServer(t)
    const { handler } = make({ maxRequestBodyBytes: 4 })
    const send = (body) => handler(`http://a.test:${port}/`, { method: 'POST', body })
    for (const body of ['abcd', 'éé', new Uint8Array(4), new Uint16Array(2), new ArrayBuffer(4)]) {
      assert.equal((await send(body)).status, 200)
    }
    for (const body of ['abcde', 'ééé', new Uint8Array(5), new Uint16Array(3), new ArrayBuffer(5)]) {
      await assert.rejects(send(body), failed('REQUEST_TOO_LARGE'))
    }
    assert.equal(requests.length, 5)
    assert.equal(
      (await make({ maxRequestBodyBytes: 0 }).handler(`http://a.test:${port}/`, { method: 'POST', body: 'x'.repeat(2 ** 21) })).status,
      200
    )
    await assert.rejects(
      make().handler(`http://a.test:${port}/`, { method: 'POST', body: 'x'.repeat(2 ** 20 + 1) }),
      failed('REQUEST_TOO_LARGE')
    )
  })

  it('are text or bytes, sent as they were when given', async (t) => {
    const bodies = []
    const { port } = await httpServer(t, async (request, response) => {
      bodies.push(await bytesOf(request))
      response.end()
    })
    const { handler } = make({ policy: async () => true })
    const bytes = new Uint8Array([1, 2, 3, 4]).subarray(1, 3)
    const sent = handler(`http://a.test:${port}/`, { method: 'POST', body: bytes })
    bytes.fill(9)
    await sent
    await handler(`http://a.test:${port}/`, { method: 'POST', body: 'é\ud800' })
    assert.deepEqual(bodies, [Buffer.from([2, 3]), Buffer.from('é\ufffd')])
    for (const body of [1, {}, [], true]) {
      await assert.rejects(handler(`http://a.test:${port}/`, { method: 'POST', body }), { name: 'TypeError', message: /body must be/ })
    }
  })

  it('do not go with GET and HEAD', async () => {
    for (const method of ['GET', 'head', undefined]) {
      await assert.rejects(make().handler('http://a.test/', { method, body: '' }), { name: 'TypeError', message: /has no body/ })
    }
  })
})

describe('headers', () => {
  const some = (count, prefix = 'x-') => Object.fromEntries(Array.from({ length: count }, (_, i) => [`${prefix}${i}`, 'v']))

  it('of a request are at most maxHeaders, and 64 KiB', async (t) => {
    const { port } = await httpServer(t)
    const send = (headers, options) => make(options).handler(`http://a.test:${port}/`, { headers })
    assert.equal((await send(some(100))).status, 200)
    await assert.rejects(send(some(101)), failed('REQUEST_TOO_LARGE'))
    await assert.rejects(send(some(3), { maxHeaders: 2 }), failed('REQUEST_TOO_LARGE'))
    assert.equal((await send(some(200), { maxHeaders: 0 })).status, 200)
    await assert.rejects(send({ 'x-long': 'v'.repeat(64 * KIB) }), failed('REQUEST_TOO_LARGE'))
  })

  it('of a response are at most maxHeaders, and 64 KiB', async (t) => {
    const { port } = await rawServer(t, (socket, head) => {
      const count = Number(/^GET \/(\d+)/.exec(head)[1])
      socket.end(`HTTP/1.1 200 OK\r\n${Array.from({ length: count }, (_, i) => `x-${i}: v\r\n`).join('')}\r\nok`)
    })
    const get = (count, options) => make(options).handler(`http://a.test:${port}/${count}`)
    assert.equal(Object.keys((await get(100)).headers).length, 100)
    await assert.rejects(get(101), failed('BAD_RESPONSE'))
    assert.equal(Object.keys((await get(3000, { maxHeaders: 0 })).headers).length, 3000)
    await assert.rejects(get(10_000, { maxHeaders: 0 }), { ...failed('BAD_RESPONSE'), message: /HPE_HEADER_OVERFLOW/ })
  })
})

describe('maxConcurrent', () => {
  it('lets that many through at once; the others wait their turn, and their time', async (t) => {
    let now = 0
    let most = 0
    const waiting = []
    const { port, requests } = await httpServer(t, (_request, response) => {
      most = Math.max(most, ++now)
      waiting.push(() => { now--; response.end('ok') })
    })
    const { handler } = make({ maxConcurrent: 3 })
    const all = Array.from({ length: 10 }, (_, i) => handler(`http://a.test:${port}/${i}`))
    for (let i = 0; i < 10; i++) {
      await until(() => waiting.length >= Math.min(3, 10 - i))
      waiting.shift()()
    }
    assert.deepEqual((await Promise.all(all)).map(({ status }) => status), Array(10).fill(200))
    assert.deepEqual([most, requests.length], [3, 10])
  })

  it('gives the place back however a call ends', async (t) => {
    const { port } = await httpServer(t)
    const hung = await rawServer(t, () => {})
    const { handler, invoke } = make({ maxConcurrent: 1, policy: ({ host }) => host === 'stuck.test' ? never() : host !== 'evil.test' })
    const soon = (url) => assert.rejects(invoke({ url, signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
    await soon('http://stuck.test/')
    await soon(`http://a.test:${hung.port}/`)
    await assert.rejects(handler('http://evil.test/'), denied())
    await assert.rejects(handler('http://a.test:2/'), failed('NETWORK'))
    assert.equal(textOf(await handler(`http://a.test:${port}/`)), 'ok')
  })

  it('ends the wait of those whose time is up, who then hold no place', async (t) => {
    const { port, requests } = await httpServer(t, (request, response) => request.url === '/quick' && response.end('ok'))
    const { handler, invoke } = make({ maxConcurrent: 1 })
    const url = `http://a.test:${port}/`
    const controller = new AbortController()
    const first = assert.rejects(invoke({ url, signal: controller.signal }), { name: 'AbortError' })
    await until(() => requests.length === 1)
    await Promise.all(Array.from({ length: 5 }, () => assert.rejects(invoke({ url, signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' })))
    const next = handler(`${url}quick`)
    assert.equal(requests.length, 1)
    controller.abort()
    await first
    assert.equal(textOf(await next), 'ok')
    assert.deepEqual(requests.map((request) => request.url), ['/', '/quick'])
  })
})

describe('many at once', () => {
  it('all get their own answers', async (t) => {
    const { port } = await httpServer(t, (request, response) => setTimeout(() => response.end(request.url), Math.random() * 20))
    const { handler } = make({ maxConcurrent: 0 })
    const answers = await Promise.all(Array.from({ length: 300 }, async (_, i) => textOf(await handler(`http://a${i}.test:${port}/${i}`))))
    assert.deepEqual(answers, Array.from({ length: 300 }, (_, i) => `/${i}`))
  })
})
