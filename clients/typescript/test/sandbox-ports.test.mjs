// Ports, previews and terminals of the sandbox façade, against the real daemon.
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, describe, test } from 'node:test'
import { createPreviewHandler, getSandbox, proxyTerminal, proxyToSandbox, SandboxError } from 'cloche/sandbox'
import { real } from './lib/real.mjs'
import { serve } from './lib/served.mjs'
import { openWebSocket } from './lib/websocket.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))

const bytesOf = async (stream) => { const found = []; for await (const chunk of stream) found.push(chunk); return Buffer.concat(found) }

describe('sandbox façade', real, () => {
  let served, ns, sandbox
  before(async () => {
    served = await serve('--preview-host', 'preview.test')
    ns = { socket: served.socket }
    sandbox = getSandbox(ns, 'my-sandbox')
  })
  after(async () => {
    await sandbox?.destroy()
    await served?.end()
    assert.deepEqual(unhandled, [])
  })
  const fails = async (act, code, httpStatus) => {
    const error = await act.then(() => assert.fail(`nothing was thrown; ${code} is expected`), (thrown) => thrown)
    assert.deepEqual([error.code, error.httpStatus], [code, httpStatus], String(error.stack))
    assert.ok(error instanceof SandboxError)
  }

  describe('ports and previews', () => {
    let server
    before(async () => {
      await sandbox.writeFile('/workspace/server.py', `
import base64, hashlib, http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
  protocol_version = 'HTTP/1.1'
  def do_GET(self):
    if self.headers.get('Upgrade') == 'websocket': return self.echo()
    if self.path == '/redirect': body, status = b'', 302
    else: body, status = (b'b' * 1000000 if self.path == '/big' else (self.path + ' ' + self.headers['Host']).encode()), 200
    self.send_response(status)
    if status == 302: self.send_header('Location', '/elsewhere')
    self.send_header('Content-Length', str(len(body))); self.send_header('Set-Cookie', 'a=1'); self.send_header('Set-Cookie', 'b=2'); self.end_headers(); self.wfile.write(body)
  def do_POST(self):
    body = self.rfile.read(int(self.headers['Content-Length'])) if self.headers.get('Content-Length') else self.chunks()
    self.send_response(201); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body.upper())
  def chunks(self):
    body = b''
    while (size := int(self.rfile.readline(), 16)): body += self.rfile.read(size); self.rfile.readline()
    return body
  def echo(self):
    key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
    self.send_response(101); self.send_header('Upgrade', 'websocket'); self.send_header('Connection', 'Upgrade')
    self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()); self.end_headers()
    head = self.rfile.read(2); mask = self.rfile.read(4); data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
    self.wfile.write(bytes([0x81, len(data)]) + data[::-1]); self.close_connection = True
  def log_message(self, *a): pass
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(('127.0.0.1', 8201), H).serve_forever()
`)
      server = await sandbox.startProcess('exec python3 server.py')
      await server.waitForPort(8201, { timeout: 20_000 })
    })
    after(async () => { await server?.kill() })

    test('exposed, listed, checked, taken back', async () => {
      const { url, port, token, name } = await sandbox.exposePort(8201, { hostname: 'example.com', name: 'web', token: 'tok_1' })
      assert.deepEqual([url, port, token, name], ['https://8201-my-sandbox-tok_1.example.com/', 8201, 'tok_1', 'web'])
      assert.match((await sandbox.exposePort(8201)).url, /^https?:\/\/8201-my-sandbox-tok_1\.preview\.test/)
      const [found] = await sandbox.getExposedPorts('localhost:8787')
      assert.deepEqual([found.url, found.port, found.name, found.status], ['http://8201-my-sandbox-tok_1.localhost:8787/', 8201, 'web', 'active'])
      assert.deepEqual([await sandbox.isPortExposed(8201), await sandbox.isPortExposed(8202)], [true, false])
      assert.deepEqual([await sandbox.validatePortToken(8201, 'tok_1'), await sandbox.validatePortToken(8201, 'tok_2')], [true, false])
      await fails(sandbox.exposePort(8201, { token: 'Bad Token' }), 'INVALID_PORT', 400)
      const long = getSandbox(ns, 'x'.repeat(63))
      await assert.rejects(long.exposePort(8201, { hostname: 'example.com' }), { code: 'PREVIEW_HOST_REQUIRED', message: /too long for the name of a host/ })
      await long.destroy()
    })
    test('proxyToSandbox: fetch-style', async () => {
      const ask = async (where, init) => await proxyToSandbox(new Request(`https://8201-my-sandbox-tok_1.example.com${where}`, init), { Sandbox: ns })
      const first = await ask('/x?y=1')
      assert.deepEqual([first.status, await first.text(), first.headers.getSetCookie()], [200, '/x?y=1 8201-my-sandbox-tok_1.preview.test', ['a=1', 'b=2']])
      const moved = await ask('/redirect', { redirect: 'manual' })
      assert.deepEqual([moved.status, moved.headers.get('location')], [302, '/elsewhere'])
      const posted = await ask('/', { method: 'POST', body: 'shout' })
      assert.deepEqual([posted.status, await posted.text()], [201, 'SHOUT'])
      assert.equal((await (await ask('/big')).text()).length, 1_000_000)
      assert.equal((await proxyToSandbox(new Request('https://8201-my-sandbox-wrong.example.com/'), { Sandbox: ns })).status, 404)
      assert.equal((await proxyToSandbox(new Request('https://8201-nobody-tok_1.example.com/'), ns)).status, 404)
      assert.equal(await proxyToSandbox(new Request('https://example.com/'), { Sandbox: ns }), null)
    })
    test('through a server of node:http, WebSockets too; terminals', async () => {
      const previews = createPreviewHandler(ns)
      const host = http.createServer((request, response) => {
        previews.request(request, response).then((isTaken) => { if (!isTaken) response.writeHead(200).end('the host itself') }, (error) => response.writeHead(500).end(String(error)))
      })
      host.on('upgrade', (request, socket, head) => {
        if (request.url.startsWith('/terminal')) return proxyTerminal(sandbox, 'default', { request, socket, head }, { cols: 100, rows: 30 })
        previews.upgrade(request, socket, head).then((isTaken) => { if (!isTaken) socket.destroy() }, () => socket.destroy())
      })
      await new Promise((resolve) => host.listen(0, '127.0.0.1', resolve))
      const port = host.address().port
      const get = (name, where) => new Promise((resolve, reject) => http.get({ port, host: '127.0.0.1', path: where, headers: { host: name }, agent: false }, async (response) => resolve([response.statusCode, (await bytesOf(response)).toString()])).on('error', reject))
      try {
        assert.deepEqual(await get(`8201-my-sandbox-tok_1.localhost:${port}`, '/y'), [200, '/y 8201-my-sandbox-tok_1.preview.test'])
        assert.deepEqual(await get('localhost', '/'), [200, 'the host itself'])
        assert.equal((await get('8201-my-sandbox-nope.localhost', '/'))[0], 404)
        const echo = await openWebSocket(port, '/', `8201-my-sandbox-tok_1.localhost:${port}`)
        echo.text('abc')
        assert.equal((await echo.next()).text, 'cba')
        echo.end()
        const terminal = await openWebSocket(port, '/terminal', 'localhost')
        const first = JSON.parse((await terminal.next()).text)
        assert.equal(first.type, 'ready', JSON.stringify(first))
        terminal.binary('stty size; exit 3\n')
        let shown = ''
        for (;;) {
          const { text, data } = await terminal.next()
          if (data !== undefined) shown += data
          else if (JSON.parse(text).type === 'exit') { assert.equal(JSON.parse(text).exitCode, 3); break }
        }
        assert.match(shown, /30 100/)
        terminal.end()
      } finally {
        await new Promise((resolve) => { host.close(resolve); host.closeAllConnections() })
      }
    })
    test('taken back: nobody comes in', async () => {
      await sandbox.unexposePort(8201)
      await sandbox.unexposePort(8201)
      assert.equal((await proxyToSandbox(new Request('https://8201-my-sandbox-tok_1.example.com/'), ns)).status, 404)
      assert.deepEqual(await sandbox.getExposedPorts('x'), [])
    })
  })

  test('a terminal: typed, shown, resized, left and found again', async () => {
    const terminal = await sandbox.terminal({ cols: 90, rows: 20 })
    await terminal.write('stty size\n')
    let shown = ''
    for await (const bytes of terminal) if (/20 90/.test(shown += Buffer.from(bytes))) break
    const again = await sandbox.terminal({ cols: 91, rows: 21 })
    assert.equal(again.processId, terminal.processId)
    await again.resize(92, 22)
    await again.write('stty size; exit 4\n')
    shown = ''
    for await (const bytes of again) shown += Buffer.from(bytes)
    assert.match(shown, /20 90[^]*22 92/)
    assert.equal(await again.exited(), 4)
  })
})

describe('a daemon without a preview host', real, () => {
  let served, sandbox
  before(async () => {
    served = await serve()
    sandbox = getSandbox({ socket: served.socket }, 'no-previews')
  })
  after(async () => {
    await sandbox?.destroy()
    await served?.end()
  })

  test('a port whose URL cannot be given is not exposed; one that was exposed stays as it was', async () => {
    const exposed = async () => (await (await sandbox.native()).port.list()).exposed.map(({ port, token, name }) => ({ port, token, name }))
    await assert.rejects(sandbox.exposePort(8301), { code: 'CUSTOM_DOMAIN_REQUIRED', message: /--preview-host/ })
    assert.deepEqual(await exposed(), [])
    await (await sandbox.native()).port.expose({ port: 8301, token: 'kept', name: 'web' })
    await assert.rejects(sandbox.exposePort(8301, { token: 'other', name: 'x' }), { code: 'CUSTOM_DOMAIN_REQUIRED' })
    assert.deepEqual(await exposed(), [{ port: 8301, token: 'kept', name: 'web' }])
    await sandbox.unexposePort(8301)
  })
  test('a hostname cannot stand in for it: no URL is handed out that leads nowhere', async () => {
    await assert.rejects(sandbox.exposePort(8302, { hostname: 'example.com' }), { code: 'PREVIEW_HOST_REQUIRED', httpStatus: 501, message: /^exposePort: https:.*start cloched with --preview-host HOST$/ })
    assert.equal(await sandbox.isPortExposed(8302), false)
  })
})
