import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PUBLIC, certificateFor, denied, failed, httpsServer, make, textOf } from './helpers.mjs'

describe('https', () => {
  it('is verified by the name, which the server is told', async (t) => {
    const certificate = certificateFor(t, 'DNS:good.test,DNS:*.wild.test')
    const { port, names, requests } = await httpsServer(t, certificate)
    const { handler } = make({ ca: certificate.cert })
    for (const host of ['good.test', 'GOOD.test.', 'a.wild.test']) {
      assert.equal(textOf(await handler(`https://${host}:${port}/`)), 'ok', host)
    }
    assert.deepEqual(names, ['good.test', 'good.test', 'a.wild.test'])
    assert.equal(requests[0].headers.host, `good.test:${port}`)
    await assert.rejects(
      handler(`https://other.test:${port}/`),
      { ...failed('NETWORK'), message: new RegExp(`https://other.test:${port} failed \\(ERR_TLS_CERT_ALTNAME_INVALID\\)`) }
    )
    assert.equal(requests.length, 3)
  })

  it('needs an authority that is known', async (t) => {
    const { port, requests } = await httpsServer(t, certificateFor(t, 'DNS:good.test'))
    const other = certificateFor(t, 'DNS:good.test')
    await assert.rejects(make().handler(`https://good.test:${port}/`), { ...failed('NETWORK'), message: /SELF_SIGNED/ })
    await assert.rejects(make({ ca: [other.cert] }).handler(`https://good.test:${port}/`), failed('NETWORK'))
    assert.deepEqual(requests, [])
  })

  it('does not heed NODE_TLS_REJECT_UNAUTHORIZED', async (t) => {
    const { port } = await httpsServer(t, certificateFor(t, 'DNS:good.test'))
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
    t.after(() => { delete process.env.NODE_TLS_REJECT_UNAUTHORIZED })
    await assert.rejects(make().handler(`https://good.test:${port}/`), { ...failed('NETWORK'), message: /SELF_SIGNED/ })
  })

  it('checks the name at every connection, to whatever address it leads', async (t) => {
    const certificate = certificateFor(t, 'DNS:good.test')
    const { port, requests } = await httpsServer(t, certificate)
    const { handler } = make({ ca: certificate.cert })
    for (let i = 0; i < 3; i++) {
      assert.equal((await handler(`https://good.test:${port}/`)).status, 200)
      await assert.rejects(handler(`https://bad.test:${port}/`), failed('NETWORK'))
    }
    assert.deepEqual(requests.map(({ isSessionReused }) => isSessionReused), [false, false, false])
  })

  it('of an address is verified by the address, without a name', async (t) => {
    const certificate = certificateFor(t, `IP:${PUBLIC}`)
    const { port, names } = await httpsServer(t, certificate)
    assert.equal((await make({ ca: certificate.cert }).handler(`https://${PUBLIC}:${port}/`)).status, 200)
    await assert.rejects(
      make({ ca: certificate.cert, allowPrivate: ['127.0.0.0/24'] }).handler(`https://localhost:${port}/`),
      failed('NETWORK')
    )
    assert.deepEqual(names, ['localhost'])
  })

  it('is not spoken where http is, nor the other way round', async (t) => {
    const certificate = certificateFor(t, 'DNS:good.test')
    const { port } = await httpsServer(t, certificate)
    await assert.rejects(
      make({ ca: certificate.cert }).handler(`http://good.test:${port}/`),
      (thrown) => thrown.name === 'SafeFetchError' && thrown.code !== 'ERR_FETCH_DENIED'
    )
  })

  it('is not left for http by a redirect that the rules do not name', async (t) => {
    const certificate = certificateFor(t, 'DNS:good.test')
    const { port } = await httpsServer(t, certificate, (_request, response) => response.writeHead(302, { location: `http://good.test:${port}/` }).end())
    const rules = { host: 'good.test', port, routes: [{ path: '/**' }] }
    await assert.rejects(
      make({ ca: certificate.cert, rules, maxRedirects: 1 }).handler(`https://good.test:${port}/`),
      denied(/no rule allows http on port/)
    )
  })
})
