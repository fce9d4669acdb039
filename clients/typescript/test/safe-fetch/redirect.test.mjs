import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PRIVATE, PUBLIC, allow, denied, echo, failed, httpServer, jsonOf, make, textOf } from './helpers.mjs'

// /to/STATUS/URL redirects to URL; any other path returns the request.
function redirector (request, response) {
  const [, status, target] = /^\/to\/(\d+)\/(.*)$/.exec(request.url) ?? []
  if (status !== undefined) {
    response.writeHead(Number(status), { location: decodeURIComponent(target) }).end('moved')
    return
  }
  echo(request, response)
}
const via = (status, target) => `/to/${status}/${encodeURIComponent(target)}`

const post = {
  method: 'POST',
  body: 'data',
  headers: { 'content-type': 'text/x', 'content-language': 'en', 'x-mine': '1', authorization: 'A', cookie: 'c=1', 'proxy-authorization': 'P' }
}

describe('redirects', () => {
  it('are passed on by default', async (t) => {
    const { port, requests } = await httpServer(t, redirector)
    const response = await make().handler(`http://a.test:${port}${via(302, '/x')}`)
    assert.deepEqual([response.status, response.headers.location, textOf(response), requests.length], [302, '/x', 'moved', 1])
  })

  it('are followed up to maxRedirects; the next is passed on', async (t) => {
    const { port, requests } = await httpServer(t, redirector)
    const url = `http://a.test:${port}${via(301, via(302, via(307, '/end')))}`
    assert.equal(jsonOf(await make({ maxRedirects: 3 }).handler(url)).url, '/end')
    assert.equal(requests.length, 4)
    const short = await make({ maxRedirects: 2 }).handler(url)
    assert.deepEqual([short.status, short.headers.location], [307, '/end'])
  })

  it('in a circle come to an end', async (t) => {
    const { port, requests } = await httpServer(t, (_request, response) => response.writeHead(302, { location: '/' }).end())
    assert.equal((await make({ maxRedirects: 20 }).handler(`http://a.test:${port}/`)).status, 302)
    assert.equal(requests.length, 21)
  })

  for (const status of [301, 302, 303, 307, 308]) {
    const isGet = status <= 303
    it(`of ${status} after POST ${isGet ? 'become GET without body and content headers' : 'keep method and body'}`, async (t) => {
      const { port } = await httpServer(t, redirector)
      const got = jsonOf(await make({ maxRedirects: 1 }).handler(`http://a.test:${port}${via(status, '/x')}`, post))
      assert.deepEqual([got.method, got.body, got.headers['content-type'], got.headers['content-language'], got.headers['x-mine']],
        isGet ? ['GET', '', undefined, undefined, '1'] : ['POST', 'data', 'text/x', 'en', '1'])
      assert.equal(got.headers['content-length'], isGet ? undefined : '4')
    })
  }

  it('keep PUT after 301 and 302, HEAD always', async (t) => {
    const { port, requests } = await httpServer(t, redirector)
    const { handler } = make({ maxRedirects: 1 })
    for (const status of [301, 302]) {
      assert.equal(jsonOf(await handler(`http://a.test:${port}${via(status, '/x')}`, { method: 'PUT', body: 'd' })).method, 'PUT')
    }
    assert.equal((await handler(`http://a.test:${port}${via(303, '/x')}`, { method: 'HEAD' })).body, null)
    assert.equal(requests.at(-1).method, 'HEAD')
  })

  it('to another origin lose the credentials, to the same keep them', async (t) => {
    const one = await httpServer(t, redirector)
    const other = await httpServer(t, redirector)
    const { handler } = make({ maxRedirects: 2 })
    const credentials = ({ headers }) => [headers.authorization, headers.cookie, headers['proxy-authorization'], headers['x-mine']]
    const end = async (target) => credentials(jsonOf(await handler(`http://a.test:${one.port}${via(307, target)}`, post)))
    assert.deepEqual(await end('/x'), ['A', 'c=1', 'P', '1'])
    for (const target of [`http://b.test:${one.port}/x`, `http://a.test:${other.port}/x`, `http://sub.a.test:${one.port}/x`, `//b.test:${one.port}/x`]) {
      assert.deepEqual(await end(target), [undefined, undefined, undefined, '1'], target)
    }
    // A redirect back to the origin does not restore them.
    assert.deepEqual(
      await end(`http://b.test:${one.port}${via(307, `http://a.test:${one.port}/x`)}`),
      [undefined, undefined, undefined, '1']
    )
  })

  describe('and what middleware adds', () => {
    const secret = (ctx, next) => { ctx.req.header('authorization', 'Bearer of the host'); ctx.req.headers['x-api-key'] = 'k'; return next() }
    const seen = ({ headers }) => [headers.authorization, headers['x-api-key'], headers['x-mine']]
    const guest = { headers: { 'x-mine': '1' } }
    const none = [undefined, undefined, '1']
    const all = ['Bearer of the host', 'k', '1']

    it('headers of the global one stay with the first origin', async (t) => {
      const one = await httpServer(t, redirector)
      const other = await httpServer(t, redirector)
      const { handler } = make({ maxRedirects: 3, middleware: secret })
      const end = async (target) => seen(jsonOf(await handler(`http://a.test:${one.port}${via(307, target)}`, guest)))
      for (const target of [`http://b.test:${one.port}/x`, `http://a.test:${other.port}/x`, `http://sub.a.test:${one.port}/x`, `//b.test:${one.port}/x`, `http://b.test:${one.port}${via(302, '/x')}`]) {
        assert.deepEqual(await end(target), none, target)
      }
      assert.deepEqual(one.requests.filter(({ headers }) => !headers.host.startsWith('a.test:')).map(seen), [none, none, none, none, none])
      for (const target of ['/x', `http://b.test:${one.port}${via(302, `http://a.test:${one.port}/x`)}`]) assert.deepEqual(await end(target), all, target)
    })

    it('also when it sends twice', async (t) => {
      const { port, requests } = await httpServer(t, redirector)
      const { handler } = make({ maxRedirects: 3, middleware: async (ctx, next) => { await secret(ctx, next); return await secret(ctx, next) } })
      await handler(`http://a.test:${port}${via(307, `http://b.test:${port}/x`)}`, guest)
      assert.deepEqual(requests.map(seen), [all, all, none, none])
    })

    it('a rule\'s goes to the hosts of the rule', async (t) => {
      const { port, requests } = await httpServer(t, redirector)
      const rule = (host, more) => ({ host, httpsOnly: false, port, routes: [{ path: '/**' }], ...more })
      const { handler } = make({ maxRedirects: 3, rules: [rule(['a.test', 'b.test'], { middleware: secret }), rule('c.test')] })
      await handler(`http://a.test:${port}${via(307, `http://b.test:${port}${via(307, `http://c.test:${port}/x`)}`)}`, guest)
      assert.deepEqual(requests.map(seen), [all, all, none])
    })

    it('the origin it sends to itself is the first one', async (t) => {
      const { port, requests } = await httpServer(t, redirector)
      const { handler } = make({
        maxRedirects: 3,
        middleware: (ctx, next) => { ctx.req.setUrl(ctx.req.url.replace('//a.test', '//proxy.test')); return secret(ctx, next) }
      })
      await handler(`http://a.test:${port}${via(307, `http://a.test:${port}${via(307, `http://b.test:${port}/x`)}`)}`, guest)
      assert.deepEqual(requests.map((request) => [request.headers.host.split(':')[0], ...seen(request)]), [['proxy.test', ...all], ['proxy.test', ...all], ['b.test', ...none]])
    })
  })

  it('are held against the policy, with the hop', async (t) => {
    const { port, requests } = await httpServer(t, redirector)
    const asked = []
    const policy = ({ host, hop, method }) => { asked.push([host, hop, method]); return host !== 'evil.test' }
    const { handler } = make({ policy, maxRedirects: 5 })
    await assert.rejects(
      handler(`http://a.test:${port}${via(303, `http://b.test:${port}${via(302, `http://evil.test:${port}/x`)}`)}`, post),
      denied('request denied by policy')
    )
    assert.deepEqual(asked, [['a.test', 0, 'POST'], ['b.test', 1, 'GET'], ['evil.test', 2, 'GET']])
    assert.equal(requests.length, 2)
  })

  it('are held against the rules', async (t) => {
    const { port, requests } = await httpServer(t, redirector)
    const rules = { host: 'a.test', httpsOnly: false, port, routes: [{ path: '/to/**' }, { path: '/ok', methods: 'GET' }] }
    const { handler } = make({ rules, maxRedirects: 5 })
    assert.equal(jsonOf(await handler(`http://a.test:${port}${via(302, '/ok')}`)).url, '/ok')
    for (const target of ['/admin', `http://b.test:${port}/ok`, 'http://a.test:1/ok', `https://a.test:1/ok`]) {
      await assert.rejects(handler(`http://a.test:${port}${via(302, target)}`), denied(), target)
    }
    await assert.rejects(handler(`http://a.test:${port}${via(307, '/ok')}`, post), denied('no route allows POST /ok on "a.test"'))
    assert.equal(requests.length, 7)
  })

  it('are held against the addresses', async (t) => {
    const inner = await httpServer(t, (_request, response) => response.end('secret'), PRIVATE)
    const { port } = await httpServer(t, redirector)
    const lookup = (host) => [{ address: host === 'inner.test' ? PRIVATE : PUBLIC }]
    const { handler } = make({ policy: allow, lookup, maxRedirects: 5 })
    for (const host of ['inner.test', PRIVATE, '2130706434', '[::ffff:127.0.0.2]', '169.254.169.254', 'metadata.google.internal']) {
      await assert.rejects(handler(`http://a.test:${port}${via(302, `http://${host}:${inner.port}/`)}`), denied(), host)
    }
    assert.deepEqual(inner.requests, [])
  })

  it('ask for a name anew at every hop', async (t) => {
    const { port } = await httpServer(t, redirector)
    let times = 0
    const { handler } = make({ lookup: () => [{ address: times++ === 0 ? PUBLIC : PRIVATE }], maxRedirects: 1 })
    await assert.rejects(handler(`http://a.test:${port}${via(302, '/x')}`), denied())
    assert.equal(times, 2)
  })

  it('to what is no http are not followed', async (t) => {
    const { port } = await httpServer(t, redirector)
    for (const target of ['file:///etc/passwd', 'data:text/plain,x', 'http://[::1', 'ftp://a.test/']) {
      await assert.rejects(make({ maxRedirects: 1 }).handler(`http://a.test:${port}${via(302, target)}`), failed('REDIRECT'), target)
    }
  })

  it('obey the guest\'s redirect member', async (t) => {
    const { port } = await httpServer(t, redirector)
    const { handler } = make({ maxRedirects: 3 })
    const url = `http://a.test:${port}${via(302, '/x')}`
    assert.equal((await handler(url, { redirect: 'manual' })).status, 302)
    assert.equal((await handler(url, { redirect: 'follow' })).status, 200)
    await assert.rejects(handler(url, { redirect: 'error' }), failed('REDIRECT'))
    await assert.rejects(handler(url, { redirect: 'sometimes' }), { name: 'TypeError' })
  })

  it('without a location, and 304, are responses', async (t) => {
    const { port } = await httpServer(t, (request, response) => response.writeHead(Number(request.url.slice(1))).end())
    for (const status of [300, 301, 304]) {
      assert.equal((await make({ maxRedirects: 3 }).handler(`http://a.test:${port}/${status}`)).status, status)
    }
  })
})
