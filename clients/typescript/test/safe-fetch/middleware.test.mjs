import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PRIVATE, PUBLIC, allow, denied, echo, httpServer, jsonOf, make, textOf, until } from './helpers.mjs'

const rulesFor = (port, more = {}, route = {}) =>
  ({ host: ['a.test', 'b.test'], httpsOnly: false, port, routes: [{ path: '/v1/**:rest', ...route }, { path: '/v2/**' }], ...more })

describe('middleware', () => {
  it('runs global, origin, route, and back', async (t) => {
    const { port } = await httpServer(t)
    const order = []
    const named = (name) => async (_ctx, next) => {
      order.push(name)
      const response = await next()
      order.push(`/${name}`)
      return response
    }
    await make({ rules: rulesFor(port, { middleware: named('origin') }, { middleware: named('route') }), middleware: named('global') }).handler(`http://a.test:${port}/v1/x`)
    assert.deepEqual(order, ['global', 'origin', 'route', '/route', '/origin', '/global'])
  })

  it('does not run for what is denied; the global one does for what the policy allows', async (t) => {
    const { port } = await httpServer(t)
    let runs = 0
    const { handler } = make({ rules: rulesFor(port), policy: ({ host }) => host === 'c.test', middleware: (_ctx, next) => { runs++; return next() } })
    for (const url of [`http://a.test:${port}/v3`, `http://d.test:${port}/`]) await assert.rejects(handler(url), denied())
    assert.equal(runs, 0)
    await handler(`http://c.test:${port}/`)
    assert.equal(runs, 1)
  })

  it('sees the request and its parameters, and changes headers, body and URL', async (t) => {
    const { port } = await httpServer(t, echo)
    const middleware = (ctx, next) => {
      assert.deepEqual([ctx.req.method, ctx.req.params, ctx.req.hop, ctx.context, ctx.res], ['POST', { rest: 'x' }, 0, undefined, null])
      assert.deepEqual(
        ctx.req.raw,
        { url: `http://a.test:${port}/v1/x`, method: 'POST', headers: { 'x-guest': '1', host: 'evil' }, body: 'guest' }
      )
      ctx.req.header('Authorization', 'Bearer of the host')
      ctx.req.headers['x-too'] = '2'
      delete ctx.req.headers['x-guest']
      ctx.req.setUrl(ctx.req.url.replace('/v1/', '/v2/'))
      ctx.req.setBody('from the host')
      return next()
    }
    const { handler } = make({ rules: rulesFor(port, {}, { middleware }) })
    const got = jsonOf(await handler(`http://a.test:${port}/v1/x`, { method: 'POST', body: 'guest', headers: { 'X-Guest': '1', Host: 'evil' } }))
    assert.deepEqual([got.url, got.body, got.headers.authorization, got.headers['x-too'], got.headers['x-guest'], got.headers.host, got.headers['content-length']],
      ['/v2/x', 'from the host', 'Bearer of the host', '2', undefined, `a.test:${port}`, '13'])
  })

  it('takes the request apart', async (t) => {
    const { port } = await httpServer(t, echo)
    const middleware = (ctx, next) => {
      const { setBody, header, setUrl } = ctx.req
      setBody('new')
      header('x-a', '1')
      setUrl(`${ctx.req.url}/more`)
      return next()
    }
    const got = jsonOf(await make({ middleware }).handler(`http://a.test:${port}/v1`, { method: 'POST', body: 'old' }))
    assert.deepEqual([got.body, got.headers['x-a'], got.url], ['new', '1', '/v1/more'])
  })

  it('answers without the network, in bytes, text or values', async () => {
    const BODIES = [['text', Uint8Array.of(116, 101, 120, 116)], [Buffer.from([1]), Uint8Array.of(1)], [undefined, null], [{ queued: true }, { queued: true }], [[1], [1]]]
    for (const [body, expected] of BODIES) {
      const { handler } = make({ lookup: () => assert.fail('asked'), middleware: () => ({ status: 202, headers: { 'Content-Type': 'x' }, body }) })
      assert.deepEqual(await handler('https://a.test/'), { status: 202, statusText: '', headers: { 'content-type': 'x' }, body: expected })
    }
  })

  it('rewrites what came, returned or left in ctx.res', async (t) => {
    const { port } = await httpServer(t, (_request, response) => response.writeHead(200, 'Fine', { 'x-a': '1' }).end('{"a":1}'))
    const url = `http://a.test:${port}/`
    const parsed = await make({ middleware: async (_ctx, next) => { const res = await next(); return { ...res, body: res.json() } } }).handler(url)
    assert.deepEqual([parsed.status, parsed.statusText, parsed.headers['x-a'], parsed.body], [200, 'Fine', '1', { a: 1 }])
    const upper = await make({ middleware: async (ctx, next) => { await next(); ctx.res = { ...ctx.res, body: ctx.res.text().toUpperCase() } } }).handler(url)
    assert.equal(textOf(upper), '{"A":1}')
    assert.equal(textOf(await make({ middleware: async (ctx, next) => { await next() } }).handler(url)), '{"a":1}')
  })

  it('may send again', async (t) => {
    const { port, requests } = await httpServer(t, (_request, response, count) => response.writeHead(count === 1 ? 503 : 200).end())
    const { handler } = make({ middleware: async (_ctx, next) => { const first = await next(); return first.status === 503 ? next() : first } })
    assert.equal((await handler(`http://a.test:${port}/`)).status, 200)
    assert.equal(requests.length, 2)
  })

  it('must give a response', async () => {
    for (const [given, message] of [[undefined, /neither returned/], [null, /must return/], ['text', /must return/], [{}, /status/], [{ status: 99 }, /status/], [{ status: 200, headers: 1 }, /headers must be/],
      [{ status: 200, headers: { 'x-a': 'b\r\nc' } }, /character/], [{ status: 200, statusText: 1 }, /statusText/]]) {
      await assert.rejects(
        make({ middleware: () => given }).handler('https://a.test/'),
        { name: 'TypeError', message },
        JSON.stringify(given)
      )
    }
  })

  it('is heard when it throws', async () => {
    await assert.rejects(
      make({ middleware: () => { throw new RangeError('vault is sealed') } }).handler('https://a.test/'),
      { name: 'RangeError', message: 'vault is sealed' }
    )
  })

  it('that does not wait for next() brings nothing down, and leaves nothing', async (t) => {
    const { port, sockets } = await httpServer(t, () => {})
    const { handler } = make({ middleware: (_ctx, next) => { next(); return { status: 200, headers: {}, body: null } } })
    assert.equal((await handler(`http://a.test:${port}/`)).status, 200)
    assert.equal((await handler('http://a.test:2/')).status, 200)
    await until(() => sockets.size === 0)
  })
})

describe('setUrl is checked again', () => {
  const rewriting = (url, options) => make({ middleware: (ctx, next) => { ctx.req.setUrl(url); return next() }, ...options }).handler

  it('against the rules', async (t) => {
    const { port, requests } = await httpServer(t)
    for (const url of [`http://c.test:${port}/v1/x`, `http://a.test:${port}/admin`, `/admin`, `http://a.test:1/v1/x`]) {
      await assert.rejects(rewriting(url, { rules: rulesFor(port) })(`http://a.test:${port}/v1/x`), denied(), url)
    }
    assert.deepEqual(requests, [])
    assert.equal((await rewriting(`http://b.test:${port}/v2/x`, { rules: rulesFor(port) })(`http://a.test:${port}/v1/x`)).status, 200)
    assert.equal(requests[0].headers.host, `b.test:${port}`)
  })

  it('against the policy, with what will be sent', async (t) => {
    const { port } = await httpServer(t)
    const asked = []
    const policy = ({ url }) => { asked.push(url); return !url.includes('evil') }
    await assert.rejects(rewriting(`http://evil.test:${port}/`, { policy })(`http://a.test:${port}/`), denied('request denied by policy'))
    assert.equal((await rewriting('/other', { policy })(`http://a.test:${port}/`)).status, 200)
    assert.deepEqual(
      asked,
      [`http://a.test:${port}/`, `http://evil.test:${port}/`, `http://a.test:${port}/`, `http://a.test:${port}/other`]
    )
  })

  it('against the addresses', async (t) => {
    const inner = await httpServer(t, undefined, PRIVATE)
    const lookup = (host) => [{ address: host === 'inner.test' ? PRIVATE : PUBLIC }]
    for (const host of ['inner.test', PRIVATE, '[::ffff:127.0.0.2]']) {
      await assert.rejects(rewriting(`http://${host}:${inner.port}/`, { policy: allow, lookup })('http://a.test/'), denied(), host)
    }
    assert.deepEqual(inner.requests, [])
  })

  it('for its form', async () => {
    for (const url of ['file:///etc/passwd', 'http://[::1', 7]) {
      await assert.rejects(rewriting(url, {})('http://a.test/'), { name: 'TypeError' }, String(url))
    }
  })
})

describe('redirects and middleware', () => {
  it('run per hop; what it added for one server does not go to the next', async (t) => {
    const end = await httpServer(t, echo)
    const { port } = await httpServer(t, (_request, response) => response.writeHead(307, { location: `http://other.test:${end.port}/` }).end())
    const hops = []
    const middleware = (ctx, next) => {
      hops.push(ctx.req.hop)
      if (ctx.req.hop === 0) {
        ctx.req.header('x-api-key', 'secret of the host')
        ctx.req.setBody('secret of the host')
      }
      return next()
    }
    const got = jsonOf(await make({ middleware, maxRedirects: 1 }).handler(`http://a.test:${port}/`, { method: 'POST', body: 'guest' }))
    assert.deepEqual(hops, [0, 1])
    assert.deepEqual([got.headers['x-api-key'], got.body], [undefined, 'guest'])
  })

  it('of a rewritten URL lead on from there, without the guest\'s credentials', async (t) => {
    const { port } = await httpServer(t, (request, response) => request.url === '/end' ? echo(request, response) : response.writeHead(302, { location: 'end' }).end())
    const middleware = (ctx, next) => { if (ctx.req.hop === 0) ctx.req.setUrl(`http://b.test:${port}/start`); return next() }
    const got = jsonOf(await make({ middleware, maxRedirects: 1 }).handler(`http://a.test:${port}/`, { headers: { authorization: 'of a.test' } }))
    assert.deepEqual([got.url, got.headers.host, got.headers.authorization], ['/end', `b.test:${port}`, undefined])
  })

  it('that a middleware makes up are checked as any', async () => {
    const middleware = () => ({ status: 302, headers: { location: 'https://evil.test/' }, body: null })
    const { handler } = make({ policy: ({ host }) => host === 'a.test', maxRedirects: 1, middleware })
    await assert.rejects(handler('https://a.test/'), denied())
  })
})

describe('invoke', () => {
  it('goes the same way, with a context of its own', async (t) => {
    const { port } = await httpServer(t, echo)
    const middleware = (ctx, next) => {
      ctx.req.header('x-tenant', String(ctx.context?.tenant))
      return next()
    }
    const { invoke, handler } = make({ policy: ({ host }) => host !== 'evil.test', middleware })
    const put = async (tenant) => jsonOf(await invoke({ url: `http://a.test:${port}/${tenant}`, method: 'PUT', body: tenant }, { tenant }))
    const tenants = await Promise.all(['a', 'b', 'c'].map(put))
    assert.deepEqual(
      tenants.map(({ headers, body, url }) => [headers['x-tenant'], body, url]),
      [['a', 'a', '/a'], ['b', 'b', '/b'], ['c', 'c', '/c']]
    )
    assert.equal(jsonOf(await handler(`http://a.test:${port}/`)).headers['x-tenant'], 'undefined')
    await assert.rejects(invoke({ url: 'http://evil.test/' }), denied())
    await assert.rejects(invoke({}), { name: 'TypeError' })
    await assert.rejects(invoke(), { name: 'TypeError' })
  })

  it('ends with its signal', async (t) => {
    const { port, requests, sockets } = await httpServer(t, () => {})
    const controller = new AbortController()
    const reason = new Error('enough')
    const waiting = assert.rejects(make().invoke({ url: `http://a.test:${port}/`, signal: controller.signal }), (thrown) => thrown === reason)
    await until(() => requests.length > 0)
    controller.abort(reason)
    await waiting
    await assert.rejects(
      make({ policy: () => assert.fail('asked') }).invoke({ url: `http://a.test:${port}/`, signal: controller.signal }),
      (thrown) => thrown === reason
    )
    await until(() => sockets.size === 0)
  })
})
