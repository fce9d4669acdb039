import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseNetwork } from '../../dist/safe-fetch/addresses.js'
import { resolveHost } from '../../dist/safe-fetch/resolve.js'
import { PRIVATE, PUBLIC, allow, denied, failed, httpServer, make, textOf, to } from './helpers.mjs'

const signal = new AbortController().signal
const resolve = (addresses, pinDns = true, ...networks) => resolveHost('a.test', { lookup: to(...addresses), pinDns, allowPrivate: networks.map(parseNetwork) }, signal)
const refused = { name: 'Error', message: '"a.test" has an address that is not public' }

describe('addresses of names', () => {
  it('are used when all are public', async () => {
    assert.deepEqual(
      await resolve(['93.184.216.34', '2606:2800:220:1::1']),
      [{ address: '93.184.216.34', family: 4 }, { address: '2606:2800:220:1::1', family: 6 }]
    )
  })

  it('are refused when one of them is not, wherever it stands', async () => {
    for (const address of ['127.0.0.1', '10.0.0.1', '::1', 'fd00:ec2::254', '::ffff:8.8.8.8', '64:ff9b::808:808', 'fe80::1%eth0', 'garbage', '']) {
      await assert.rejects(resolve(['93.184.216.34', address]), refused, address)
      await assert.rejects(resolve([address, '93.184.216.34']), refused, address)
      await assert.rejects(resolve([address]), refused, address)
    }
  })

  it('are the public ones of them without pinDns, never others', async () => {
    assert.deepEqual(await resolve(['10.0.0.1', '93.184.216.34', '::1'], false), [{ address: '93.184.216.34', family: 4 }])
    await assert.rejects(resolve(['10.0.0.1', '::1'], false), refused)
  })

  it('may be private where allowPrivate says so', async () => {
    assert.deepEqual(await resolve(['10.1.2.3'], true, '10.1.0.0/16'), [{ address: '10.1.2.3', family: 4 }])
    await assert.rejects(resolve(['10.2.2.3'], true, '10.1.0.0/16'), refused)
  })

  it('must be there', async () => {
    for (const addresses of [[], undefined, null, 'x', {}]) {
      await assert.rejects(resolveHost('a.test', { lookup: () => addresses, pinDns: true, allowPrivate: [] }, signal), failed('NETWORK'))
    }
    for (const item of [null, undefined, 1, 'x', {}]) {
      await assert.rejects(resolveHost('a.test', { lookup: () => [item], pinDns: true, allowPrivate: [] }, signal), refused)
    }
    const cause = Object.assign(new Error('getaddrinfo ENOTFOUND a.test'), { code: 'ENOTFOUND' })
    await assert.rejects(
      make({ lookup: async () => { throw cause } }).handler('http://a.test/'),
      { ...failed('NETWORK'), message: 'fetch: "a.test" has no address (ENOTFOUND)', cause }
    )
  })
})

describe('the connection', () => {
  it('is made to what was checked: the name is asked for once', async (t) => {
    const { port, requests } = await httpServer(t)
    const asked = []
    const { handler } = make({ lookup: (host) => { asked.push(host); return [{ address: PUBLIC }] } })
    assert.equal(textOf(await handler(`http://Name.test.:${port}/`)), 'ok')
    assert.deepEqual(asked, ['name.test'])
    assert.deepEqual(requests.map(({ headers, localAddress }) => [headers.host, localAddress]), [[`name.test:${port}`, PUBLIC]])
  })

  it('does not follow a name that is bound anew after the check', async (t) => {
    const inner = await httpServer(t, (_request, response) => response.end('secret'), PRIVATE)
    // Public at first, in the host's network from then on; the port is that of the inner server.
    let times = 0
    const lookup = () => [{ address: times++ === 0 ? PUBLIC : PRIVATE }]
    for (const pinDns of [true, false]) {
      times = 0
      const { handler } = make({ lookup, pinDns })
      await assert.rejects(handler(`http://rebind.test:${inner.port}/`), failed('NETWORK'))
      await assert.rejects(handler(`http://rebind.test:${inner.port}/`), denied('"rebind.test" has an address that is not public'))
      assert.equal(times, 2)
    }
    assert.deepEqual(inner.requests, [])
  })

  it('twin: reaches the same server when its network is allowed', async (t) => {
    const inner = await httpServer(t, (_request, response) => response.end('intranet'), PRIVATE)
    assert.equal(
      textOf(await make({ lookup: to(PRIVATE), allowPrivate: ['127.0.0.0/8'] }).handler(`http://a.test:${inner.port}/`)),
      'intranet'
    )
  })

  it('tries the next of the checked addresses when one does not answer', async (t) => {
    const { port } = await httpServer(t)
    assert.equal(
      textOf(await make({ lookup: to('127.0.0.9', PUBLIC), allowPrivate: ['127.0.0.0/24'] }).handler(`http://a.test:${port}/`)),
      'ok'
    )
  })

  it('without pinDns leaves private addresses aside', async (t) => {
    const { port, requests } = await httpServer(t)
    const lookup = to(PRIVATE, PUBLIC)
    assert.equal(textOf(await make({ lookup, pinDns: false }).handler(`http://a.test:${port}/`)), 'ok')
    assert.equal(requests[0].localAddress, PUBLIC)
    await assert.rejects(make({ lookup }).handler(`http://a.test:${port}/`), denied())
  })

  it('reaches IPv6', async (t) => {
    const { port } = await httpServer(t, undefined, '::1')
    const { handler } = make({ lookup: to('::1'), allowPrivate: ['::1/128'] })
    assert.equal(textOf(await handler(`http://a.test:${port}/`)), 'ok')
    assert.equal(textOf(await handler(`http://[::1]:${port}/`)), 'ok')
  })

  it('is made by what the system says of a name, when no lookup is given', async (t) => {
    const { port, requests } = await httpServer(t)
    const system = { lookup: undefined }
    await assert.rejects(
      make({ ...system, allowPrivate: [] }).handler(`http://localhost:${port}/`),
      denied('"localhost" has an address that is not public')
    )
    assert.deepEqual(requests, [])
    assert.equal(textOf(await make({ ...system, allowPrivate: ['127.0.0.0/8', '::1'] }).handler(`http://localhost:${port}/`)), 'ok')
  })

  it('does not ask a name server for what is denied', async () => {
    const lookup = () => assert.fail('asked')
    await assert.rejects(make({ lookup, policy: () => false }).handler('http://secret-in-a-name.evil.test/'), denied())
    await assert.rejects(make({ lookup, rules: [] }).handler('http://secret-in-a-name.evil.test/'), denied())
  })

  it('tells the host which address a name has, not the guest', async () => {
    const reasons = []
    const { handler } = make({ lookup: to('10.20.30.40'), policy: allow, onDenied: (_request, reason) => { reasons.push(reason) } })
    await assert.rejects(handler('http://db.corp/'), (thrown) => !JSON.stringify({ ...thrown, message: thrown.message }).includes('10.20'))
    assert.deepEqual(reasons, ['"db.corp" has the address 10.20.30.40 (10.0.0.0/8, private use)'])
  })

  it('that fails does not name the address to the guest', async () => {
    const { handler } = make({ lookup: to('127.0.0.77'), allowPrivate: ['127.0.0.77'] })
    await assert.rejects(
      handler('http://a.test:1234/'),
      { ...failed('NETWORK'), message: 'fetch: http://a.test:1234 failed (ECONNREFUSED)' }
    )
  })
})
