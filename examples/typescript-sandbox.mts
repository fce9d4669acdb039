// A machine that stays between an agent's turns: it gets a project, works on it in a shell, serves it, and hands the result back. The turns are
// scripted here, where yours come from a model; one of them never ends by itself. Run it with Node 22.18 or later.
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { getSandbox, type LogEvent, parseSSEStream } from 'cloche/sandbox'

const folder = mkdtempSync(path.join(tmpdir(), 'example-sandbox-'))
mkdirSync(path.join(folder, 'project'))
writeFileSync(path.join(folder, 'project/primes.py'), 'def primes(n): return [k for k in range(2, n) if all(k % d for d in range(2, k))]\n')
writeFileSync(path.join(folder, 'project/serve.py'), `
import http.server, json, primes
class Handler(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    body = json.dumps(primes.primes(int(self.path[1:]))).encode()
    print("asked", self.path, flush=True)
    self.send_response(200); self.end_headers(); self.wfile.write(body)
  def log_message(self, *rest): pass
print("ready", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`)

// Nothing is said of a network, so there is none.
const sandbox = getSandbox(undefined, 'example', { limits: { memoryBytes: 256 * 2 ** 20 } })
try {
  await sandbox.uploadTree(path.join(folder, 'project'), '/workspace/project')

  // Turns of an agent: each a command in the same shell.
  const turns = ['cd project && ls', 'python3 -c "import primes; print(primes.primes(20))"', 'while :; do :; done', 'sed -i "s/k))/int(k ** 0.5) + 1))/" primes.py && cat primes.py', 'pwd']
  for (const command of turns) {
    const { stdout, exitCode, timedOut } = await sandbox.exec(command, { timeout: 2000 })
    console.log(`$ ${command}\n${stdout}${timedOut ? 'took too long, and was killed' : `exit code ${exitCode}`}`)
  }

  const server = await sandbox.startProcess('python3 serve.py')
  await server.waitForLog('ready')
  await server.waitForPort(8080, { path: '/10' })
  console.log('served:', (await sandbox.exec("python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8080/30\").read().decode())'")).stdout.trim())
  await server.kill()
  const asked: string[] = []
  for await (const event of parseSSEStream<LogEvent>(await sandbox.streamProcessLogs(server.id))) if (event.type === 'stdout') asked.push(...event.data?.match(/asked \S+/g) ?? [])
  console.log(`its log: ${asked.join(', ')}; it is ${server.status}`)

  const { files, skipped } = await sandbox.downloadTree('/workspace/project', path.join(folder, 'result'), { exclude: ['__pycache__'] })
  console.log(`${files} files came back, ${skipped.length} did not; changed: ${readFileSync(path.join(folder, 'result/primes.py'), 'utf8').includes('0.5')}`)
} finally {
  await sandbox.destroy()
  rmSync(folder, { recursive: true })
}
