import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PUBLIC, allow, denied, httpServer, make } from './helpers.mjs'

// The policy's view of a URL; nothing is sent.
async function seen (url, init) {
  let request
  const { handler } = make({ policy: (given) => { request = given; return false } })
  await assert.rejects(handler(url, init), denied('request denied by policy'))
  return request
}

const closed = (options) => make({ allowPrivate: [], lookup: () => assert.fail('a literal needs no name server'), ...options })

describe('literals of addresses', () => {
  const LOOPBACK = ['127.0.0.1', '2130706433', '0x7f000001', '017700000001', '127.1', '127.0.1', '0x7f.1', '0177.0.0.1', '127.0.0.1.', '%31%32%37.0.0.1', '１２７.0.0.1', '127。0。0。1',
    '[::1]', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[0:0:0:0:0:ffff:7f00:0001]', '[::127.0.0.1]', '[::ffff:0:127.0.0.1]', '[64:ff9b::127.0.0.1]', '[64:ff9b:1::7f00:1]',
    '[2002:7f00:1::]', '[2001:0:7f00:1::]', '0', '0.0.0.0', '[::]']
  for (const host of LOOPBACK) {
    it(`denies ${host}`, async () => {
      for (const pinDns of [true, false]) {
        await assert.rejects(closed({ policy: allow, pinDns }).handler(`http://${host}:8080/`), denied(/is not a public address/))
      }
    })
  }

  it('denies metadata services, by address and by name, whatever is allowed', async () => {
    const { handler } = make({ policy: allow, allowPrivate: ['0.0.0.0/0', '::/0'] })
    for (const host of ['169.254.169.254', '0xa9fea9fe', '2852039166', '[fd00:ec2::254]', '[::ffff:169.254.169.254]', '168.63.129.16', 'metadata.google.internal', 'METADATA.google.internal.', 'metadata', 'instance-data']) {
      await assert.rejects(handler(`http://${host}/latest/meta-data/`), denied(/not a public address|metadata/), host)
    }
  })

  it('reaches an address that is allowed, in whatever form it is written', async (t) => {
    const { port, requests } = await httpServer(t)
    const { handler } = closed({ policy: ({ host }) => host === PUBLIC, allowPrivate: [PUBLIC] })
    for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '127.0.0.1.']) {
      assert.equal((await handler(`http://${host}:${port}/`)).status, 200)
    }
    assert.deepEqual(requests.map(({ headers }) => headers.host), Array(4).fill(`127.0.0.1:${port}`))
  })

  it('denies addresses to rules that name domains', async () => {
    const rules = { host: ['example.com', '*.example.com'], httpsOnly: false, routes: [{ path: '/**' }] }
    for (const host of ['93.184.216.34', '[2606:2800:220:1::1]', '1572395042']) {
      await assert.rejects(closed({ rules }).handler(`https://${host}/`), denied(/no rule names the host/))
    }
  })
})

describe('the one form of a URL', () => {
  it('is what the policy sees', async () => {
    assert.deepEqual(await seen('HTTPS://User:Pw@EXAMPLE.com.:443/a/%2e%2e/b//c?q=1#frag', { method: 'get', headers: { 'X-Up': 'a' } }), {
      url: 'https://example.com/b//c?q=1', protocol: 'https', host: 'example.com', port: 443, path: '/b//c?q=1', method: 'GET', headers: { 'x-up': 'a' }, resolvedIp: null, hop: 0
    })
  })

  it('has the host that is connected to, not the one before the @', async () => {
    assert.equal((await seen('https://allowed.test@evil.test/')).host, 'evil.test')
    assert.equal((await seen('https://allowed.test\\@evil.test/')).host, 'allowed.test')
    assert.equal((await seen('https:/\\evil.test/')).host, 'evil.test')
  })

  it('has international names in ASCII', async () => {
    assert.equal((await seen('https://bücher.test/')).host, 'xn--bcher-kva.test')
    assert.equal((await seen('https://ｅxample.com/')).host, 'example.com')
  })

  it('has IPv6 without brackets, in its short form', async () => assert.equal((await seen('https://[2606:4700:0:0::1111]/')).host, '2606:4700::1111'))

  it('takes a URL object', async () => assert.equal((await seen(new URL('https://example.com/x'))).path, '/x'))

  const BAD = ['', 'example.com', '//example.com/', 'file:///etc/passwd', 'ftp://example.com/', 'data:text/plain,x', 'blob:https://example.com/1', 'javascript:1', 'http://', 'http://./', 'http://a..b/',
    'http://example.com../', 'http://[fe80::1%25eth0]/', 'http://[fe80::1%eth0]/', 'http://[::1/', 'http://exa mple.com/', 'http://example.com:99999/', 'http://exa\nmple.com/', 'http://example.com/\r\nX: y',
    'http://example.com/\0', '\thttp://example.com/', 'http://1.2.3.4.5/', 'http://256.1.1.1/', 'http://0x100000000/', `http://${'a'.repeat(64)}.test/`, `http://example.com/${'a'.repeat(20000)}`]
  for (const url of [...BAD, undefined, null, 7, {}, ['http://example.com/']]) {
    it(`is refused for ${JSON.stringify(url)?.slice(0, 50)}`, async () => {
      await assert.rejects(make({ policy: () => assert.fail('asked') }).handler(url), { name: 'TypeError', message: /^fetch: / })
    })
  }
})

describe('ports', () => {
  it('of other protocols are denied, though the policy allows', async () => {
    for (const port of [0, 1, 21, 22, 25, 53, 110, 143, 465, 587, 993, 6000, 6667]) {
      await assert.rejects(
        make({ policy: allow }).handler(`http://example.com:${port}/`),
        denied(`port ${port} is that of another protocol`)
      )
    }
  })

  it('of HTTP are told to the policy', async () => {
    for (const [url, port] of [['http://a.test/', 80], ['https://a.test/', 443], ['http://a.test:443/', 443], ['https://a.test:8443/', 8443]]) {
      assert.equal((await seen(url)).port, port)
    }
  })
})

describe('methods', () => {
  it('are those of the list', async (t) => {
    const { port, requests } = await httpServer(t)
    const { handler } = make({ methods: ['get', 'PUT'] })
    await handler(`http://a.test:${port}/`, { method: 'put', body: 'x' })
    assert.equal(requests[0].method, 'PUT')
    for (const method of ['POST', 'DELETE', 'CONNECT', 'TRACE', 'PROPFIND']) {
      await assert.rejects(handler('http://a.test/', { method }), denied(`the method ${method} is not allowed`))
    }
  })

  it('by default have no CONNECT, TRACE or invented ones', async () => {
    for (const method of ['CONNECT', 'TRACE', 'TRACK', 'GETX', 'PRI']) {
      await assert.rejects(make().handler('http://a.test/', { method }), denied(/is not allowed/))
    }
  })

  it('are words', async () => {
    for (const method of ['', 'GE T', 'GET / HTTP/1.1\r\nX: y', 'GET\0', 1, null, {}]) {
      await assert.rejects(make().handler('http://a.test/', { method }), { name: 'TypeError', message: /method must be/ })
    }
  })
})
