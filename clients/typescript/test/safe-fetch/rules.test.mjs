import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createSafeFetch } from '../../dist/safe-fetch/index.js'
import { allow, denied, httpServer, make, textOf } from './helpers.mjs'

// Responds instead of the network, so that any host and scheme can be tried.
const answer = (ctx) => ({ status: 200, headers: {}, body: JSON.stringify(ctx.req.params) })
const withRules = (rules, options = {}) => make({ rules, middleware: answer, ...options }).handler
const get = async (rules, url, init) => JSON.parse(textOf(await withRules(rules)(url, init)))
const route = (path, more) => ({ host: 'a.test', routes: [{ path, ...more }] })

describe('rules and policy', () => {
  it('are needed, at least one', () => {
    for (const options of [undefined, null, {}, { pinDns: true }, { rules: undefined }]) {
      assert.throws(() => createSafeFetch(options), { name: 'TypeError', message: /rules or a policy are needed/ })
    }
  })

  it('deny all when the list is empty', async () => {
    await assert.rejects(withRules([])('https://a.test/'), denied('no rule names the host "a.test"'))
    await assert.rejects(withRules({ host: [], routes: [{ path: '/**' }] })('https://a.test/'), denied())
    await assert.rejects(withRules({ host: 'a.test', routes: [] })('https://a.test/'), denied('no route allows GET / on "a.test"'))
  })

  it('ask the policy only where no rule names the host', async () => {
    const asked = []
    const policy = ({ host }) => asked.push(host) > 0
    const handler = withRules(route('/open'), { policy })
    assert.equal((await handler('https://other.test/')).status, 200)
    assert.equal((await handler('https://a.test/open')).status, 200)
    for (const url of ['https://a.test/shut', 'http://a.test/open', 'https://a.test:8443/open']) {
      await assert.rejects(handler(url), denied())
    }
    assert.deepEqual(asked, ['other.test'])
  })

  it('allow by true alone', async () => {
    for (const answer of [false, undefined, null, 1, 'yes', {}, Promise.resolve(false), Promise.resolve('true')]) {
      await assert.rejects(make({ policy: () => answer }).handler('https://a.test/'), denied('request denied by policy'))
    }
    assert.equal((await make({ policy: async () => true, middleware: answer }).handler('https://a.test/')).status, 200)
  })

  it('deny with the words of what the policy throws', async () => {
    await assert.rejects(
      make({ policy: () => { throw new RangeError('admin endpoints denied') } }).handler('https://a.test/'),
      denied('admin endpoints denied')
    )
    await assert.rejects(make({ policy: () => Promise.reject('a text') }).handler('https://a.test/'), denied('a text'))
  })

  it('give the policy a copy that changes nothing', async () => {
    const policy = (request) => {
      request.url = 'https://evil.test/'
      request.headers['x-added'] = '1'
      return true
    }
    let seen
    await make({ policy, middleware: (ctx) => { seen = { url: ctx.req.url, headers: { ...ctx.req.headers } }; return answer(ctx) } }).handler('https://a.test/')
    assert.deepEqual(seen, { url: 'https://a.test/', headers: {} })

    const told = []
    const onDenied = ({ url, headers }) => { told.push(url, headers) }
    await assert.rejects(make({ policy: (request) => policy(request) && false, onDenied }).handler('https://a.test/', { headers: { 'x-a': '1' } }), denied())
    assert.deepEqual(told, ['https://a.test/', { 'x-a': '1' }])
  })

  it('tell onDenied of every denial, with the request', async () => {
    const told = []
    const { handler } = make({ rules: route('/open'), onDenied: async (request, reason) => { told.push([request.url, request.method, request.hop, reason]) } })
    await assert.rejects(handler('https://a.test/shut', { method: 'POST', body: 'x' }), denied())
    assert.deepEqual(told, [['https://a.test/shut', 'POST', 0, 'no route allows POST /shut on "a.test"']])
  })

  it('call onRequest for what is allowed, at each hop, which may deny', async (t) => {
    const { port, requests } = await httpServer(t, (request, response) => request.url === '/go' ? response.writeHead(302, { location: '/end' }).end() : response.end('ok'))
    const seen = []
    const told = []
    const onRequest = ({ path, hop }) => { seen.push([path, hop]); if (path === '/end?no') throw new Error('not today') }
    const { handler } = make({ policy: ({ path }) => path !== '/never', maxRedirects: 1, onRequest, onDenied: (_request, reason) => { told.push(reason) } })
    const at = (path) => handler(`http://a.test:${port}${path}`)
    assert.equal((await at('/go')).status, 200)
    await assert.rejects(at('/end?no'), denied('not today'))
    await assert.rejects(at('/never'), denied())
    assert.deepEqual([seen, told, requests.length], [[['/go', 0], ['/end', 1], ['/end?no', 0]], ['not today', 'request denied by policy'], 2])
  })

  it('deny even when onDenied throws', async () => {
    const cause = new Error('log is full')
    await assert.rejects(
      make({ policy: () => false, onDenied: () => { throw cause } }).handler('https://a.test/'),
      { ...denied('request denied by policy'), cause }
    )
  })
})

describe('hosts of rules', () => {
  it('match exactly, in any case, with or without the dot at the end', async () => {
    assert.deepEqual(await get(route('/'), 'https://A.TEST/'), {})
    assert.deepEqual(await get(route('/'), 'https://a.test./'), {})
    for (const host of ['b.a.test', 'xa.test', 'a.test.evil.test', 'a.tests', 'test']) {
      await assert.rejects(get(route('/'), `https://${host}/`), denied(), host)
    }
  })

  it('match one label with *', async () => {
    const rules = { host: '*.x.test', routes: [{ path: '/**' }] }
    assert.deepEqual(await get(rules, 'https://a.x.test/'), {})
    for (const host of ['x.test', 'b.a.x.test', 'ax.test', 'x.test.evil.test']) {
      await assert.rejects(get(rules, `https://${host}/`), denied(), host)
    }
  })

  it('prefer the very host to a pattern, whatever the order', async () => {
    const open = { host: '*.x.test', routes: [{ path: '/**' }] }
    const shut = { host: 'secret.x.test', routes: [] }
    for (const rules of [[open, shut], [shut, open]]) {
      await assert.rejects(get(rules, 'https://secret.x.test/'), denied())
      assert.deepEqual(await get(rules, 'https://other.x.test/'), {})
    }
  })

  it('take several, international names and addresses', async () => {
    const rules = { host: ['a.test', 'bücher.test', '93.184.216.34', '2606:4700::1111'], routes: [{ path: '/' }] }
    for (const host of ['a.test', 'xn--bcher-kva.test', 'BÜCHER.test', '1572395042', '[2606:4700:0::1111]']) {
      assert.deepEqual(await get(rules, `https://${host}/`), {}, host)
    }
  })

  it('join several rules of one host', async () => {
    const rules = [{ host: 'a.test', routes: [{ path: '/x' }] }, { host: 'a.test', httpsOnly: false, port: 8080, routes: [{ path: '/y' }] }]
    assert.deepEqual(await get(rules, 'https://a.test/x'), {})
    assert.deepEqual(await get(rules, 'http://a.test:8080/y'), {})
    await assert.rejects(get(rules, 'http://a.test:8080/x'), denied())
  })
})

describe('schemes and ports of rules', () => {
  it('are https and its own port', async () => {
    assert.deepEqual(await get(route('/'), 'https://a.test:443/'), {})
    for (const url of ['http://a.test/', 'http://a.test:443/', 'https://a.test:444/', 'https://a.test:80/']) {
      await assert.rejects(get(route('/'), url), denied(/no rule allows https? on port/), url)
    }
  })

  it('may be http, and those named alone', async () => {
    const rules = { host: 'a.test', httpsOnly: false, port: [80, 8080], routes: [{ path: '/' }] }
    for (const url of ['http://a.test/', 'http://a.test:8080/', 'https://a.test:8080/']) assert.deepEqual(await get(rules, url), {})
    for (const url of ['https://a.test/', 'http://a.test:81/']) await assert.rejects(get(rules, url), denied(), url)
    assert.deepEqual(await get({ host: 'a.test', httpsOnly: false, routes: [{ path: '/' }] }, 'http://a.test/'), {})
    assert.deepEqual(await get({ host: 'a.test', port: 6000, routes: [{ path: '/' }] }, 'https://a.test:6000/'), {})
  })
})

describe('routes', () => {
  const TABLE = [
    ['/users', { '/users': {} }, ['/', '/users/', '/user', '/usersx', '/users/1', '/Users', '//users']],
    ['/users/:id', { '/users/42': { id: '42' }, '/users/a%2fb': { id: 'a%2fb' } }, ['/users', '/users/', '/users/1/2']],
    ['/api/**', { '/api': {}, '/api/': {}, '/api/a/b//c': {} }, ['/', '/apix', '/ap']],
    ['/api/**:rest', { '/api/a/b': { rest: 'a/b' }, '/api': { rest: '' } }, ['/x']],
    ['/files/:ext(png|jpg)', { '/files/png': { ext: 'png' } }, ['/files/pngx', '/files/gif', '/files/xpng']],
    ['/n/:id(\\d+)/x', { '/n/7/x': { id: '7' } }, ['/n/a/x', '/n/7/y', '/n/7a/x']],
    ['/*/x', { '/a/x': {} }, ['//x', '/x', '/a/b/x']],
    ['/**', { '/': {}, '/a/b': {} }, []],
    ['/', { '/': {}, '/?q=1': {} }, ['/a']],
    ['/a/:__proto__', { '/a/b': JSON.parse('{"__proto__":"b"}') }, []]
  ]
  for (const [path, matching, others] of TABLE) {
    it(`match ${path}`, async () => {
      for (const [sent, params] of Object.entries(matching)) assert.deepEqual(await get(route(path), `https://a.test${sent}`), params, sent)
      for (const sent of others) await assert.rejects(get(route(path), `https://a.test${sent}`), denied(), sent)
    })
  }

  it('match the path as sent: dot segments are gone, nothing else is decoded', async () => {
    const rules = route('/public/**')
    for (const path of ['/public/../admin', '/public/%2e%2e/admin', '/public/.%2E/admin', '/public\\..\\admin', '/admin', '/%70ublic/x', '/public%2f..%2fadmin']) await assert.rejects(get(rules, `https://a.test${path}`), denied(), path)
    assert.deepEqual(await get(rules, 'https://a.test/public/..%2fadmin'), {})
    assert.deepEqual(await get(rules, 'https://a.test/x/../public/a'), {})
  })

  it('allow the methods named, or any of those allowed at all', async () => {
    const post = { method: 'post', body: 'x' }
    assert.deepEqual(await get(route('/', { methods: 'post' }), 'https://a.test/', post), {})
    assert.deepEqual(await get(route('/'), 'https://a.test/', post), {})
    await assert.rejects(get(route('/', { methods: ['GET', 'HEAD'] }), 'https://a.test/', post), denied(/no route allows POST/))
  })

  it('allow all methods with *', async () => {
    for (const methods of ['*', ['*'], ['GET', '*']]) {
      const { handler } = make({ rules: { host: 'a.test', routes: [{ path: '/', methods }] }, middleware: ({ req }) => ({ status: 200, headers: {}, body: req.method }) })
      assert.deepEqual(Buffer.from((await handler('https://a.test/', { method: 'DELETE' })).body).toString(), 'DELETE')
      await assert.rejects(handler('https://a.test/', { method: 'PURGE' }), denied())
    }
  })

  it('fall to the next that fits', async () => {
    const rules = { host: 'a.test', routes: [{ path: '/x/:id', methods: 'GET' }, { path: '/x/:other', methods: 'POST' }] }
    assert.deepEqual(await get(rules, 'https://a.test/x/1', { method: 'POST', body: '' }), { other: '1' })
  })
})

describe('options that are wrong are named', () => {
  const TABLE = [
    [{ polcy: allow }, /no option "polcy"/],
    [{ policy: true }, /policy must be a function/],
    [{ policy: allow, middleware: [] }, /middleware must be a function/],
    [{ policy: allow, pinDns: 'no' }, /pinDns must be true or false/],
    [{ policy: allow, allowCompressedResponses: 1 }, /allowCompressedResponses must be true or false/],
    [{ policy: allow, methods: ['CONNECT'] }, /"CONNECT" cannot be allowed/],
    [{ policy: allow, methods: ['trace'] }, /"TRACE" cannot be allowed/],
    [{ policy: allow, methods: 'GET' }, /methods must be an array/],
    [{ policy: allow, allowPrivate: ['10/8'] }, /allowPrivate: "10\/8" is no network/],
    [{ policy: allow, allowPrivate: '10.0.0.0/8' }, /allowPrivate must be an array/],
    [{ policy: allow, ca: 'x' }, /ca must be certificates/],
    ...['maxRedirects', 'timeoutMs', 'maxBodyBytes', 'maxRequestBodyBytes', 'maxHeaders', 'maxConcurrent'].flatMap((name) =>
      [-1, 1.5, NaN, Infinity, '1', null, 2 ** 60].map((value) => [{ policy: allow, [name]: value }, new RegExp(`${name} must be an integer`)])),
    [{ policy: allow, timeoutMs: 2 ** 31 }, /timeoutMs must be an integer/],
    [{ rules: [{ routes: [] }] }, /rules\[0\]\.host: .*no host/],
    [{ rules: 'a.test' }, /rules\[0\] must be an object/],
    [{ rules: { host: 'a.test' } }, /rules\[0\]\.routes must be an array/],
    [{ rules: { host: 'a.test', routes: [], hosts: [] } }, /rules\[0\] has no "hosts"/],
    [{ rules: { host: 'a.test', routes: [], port: 0 } }, /rules\[0\]\.port/],
    [{ rules: { host: 'a.test', routes: [], port: [80, 65536] } }, /rules\[0\]\.port/],
    [{ rules: { host: 'a.test', routes: [], httpsOnly: 'no' } }, /httpsOnly/],
    [{ rules: { host: 'a.test', routes: [], middleware: {} } }, /rules\[0\]\.middleware/],
    ...['*', '*.', '*.*.test', 'a*.test', 'a.*', 'http://a.test', 'a.test/x', 'a.test:80', 'u@a.test', 'a b', '', '[::1', '*.10.0.0.1', 'a..b'].map((host) =>
      [{ rules: [{ host: 'ok.test', routes: [] }, { host, routes: [] }] }, /rules\[1\]\.host: /]),
    ...['users', '', 7, '/a?b', '/a#b', '/a/**/b', '/:id.json', '/a*', '/:', '/:x(', '/:x([)', '/../a', '/a b', '/é', '/a(b)'].map((path) =>
      [{ rules: { host: 'a.test', routes: [{ path: '/ok' }, { path }] } }, /rules\[0\]\.routes\[1\]\.path/]),
    [{ rules: { host: 'a.test', routes: [{ path: '/', method: 'GET' }] } }, /rules\[0\]\.routes\[0\] has no "method"/],
    [{ rules: { host: 'a.test', routes: [{ path: '/', methods: 'PURGE' }] } }, /methods: "PURGE" is not among/]
  ]
  for (const [options, message] of TABLE) {
    it(`${JSON.stringify(options)} ${message}`, () => assert.throws(() => createSafeFetch(options), { name: 'TypeError', message }))
  }
})
