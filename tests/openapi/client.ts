// Ten operations through a client that was generated from the OpenAPI document: each use below is compiled with the types of the answers.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import createClient from 'openapi-fetch'
import type { components, paths } from './schema.js'

const asked: Array<[verb: string, path: string, status: number, body: unknown]> = []
const client = createClient<paths>({ baseUrl: process.env.DAEMON_URL ?? '', headers: { Authorization: `Bearer ${process.env.DAEMON_TOKEN}` } })
client.use({
  async onResponse ({ request, response }) {
    asked.push([request.method, new URL(request.url).pathname, response.status, await response.clone().json()])
  }
})

// Operations that can send events have text as another type of answer.
function got<T> ({ data, error }: { data?: T, error?: components['schemas']['Error'] }): Exclude<T, string> {
  assert.equal(error, undefined)
  assert.ok(data !== undefined && typeof data !== 'string')
  return data as Exclude<T, string>
}

const names: string[] = got(await client.GET('/v1/languages')).languages.map(({ name }) => name)
assert.ok(names.includes('python'))

const result = got(await client.POST('/v1/call', { body: { language: 'python', code: 'def f(a, b): return a + b', args: [40, 2], limits: { wallMs: 20000 } } }))
const status: 'success' | 'error' | 'crash' | 'timeout' | 'terminated' = result.status
const peak: number = result.meta.usage.memoryPeakBytes
assert.deepEqual([status, result.result, result.error, peak > 0], ['success', 42, null, true])

const params = { path: { sandbox: 'typed' } }
const made = got(await client.POST('/v1/sandboxes', { body: { labels: { of: 'the test' } } }))
const isNew: boolean = made.created
assert.ok(isNew && made.labels.of === 'the test')

const command = got(await client.POST('/v1/sandboxes/{sandbox}/exec', { params, body: { command: 'echo out; exit 3' } }))
const exitCode: number = command.exitCode
assert.deepEqual([exitCode, command.stdout, command.sessionEnded], [3, 'out\n', true])

const written = got(await client.POST('/v1/sandboxes/{sandbox}/file/write', { params, body: { path: 'a/f', content: 'words' } }))
const bytes: number = written.bytes
assert.equal(bytes, 5)

const piece = got(await client.POST('/v1/sandboxes/{sandbox}/file/read', { params, body: { path: 'a/f', offset: 1 } }))
const content: string | components['schemas']['Bytes'] = piece.content
assert.deepEqual([content, piece.total, piece.mimeType], ['ords', 5, 'text/plain'])

const { entries } = got(await client.POST('/v1/sandboxes/{sandbox}/file/list', { params, body: { path: '.', recursive: true } }))
const kinds: Array<'file' | 'directory' | 'symlink' | 'other'> = entries.map(({ type }) => type)
assert.deepEqual(kinds, ['directory', 'file'])

const started = got(await client.POST('/v1/sandboxes/{sandbox}/process/start', { params, body: { command: 'sleep 60' } }))
const killed = got(await client.POST('/v1/sandboxes/{sandbox}/process/kill', { params, body: { process: started.process, signal: 'KILL' } }))
const signal: string | undefined = killed.signal
assert.ok([undefined, 'SIGKILL'].includes(signal) && killed.pid === started.pid)

const cell = got(await client.POST('/v1/sandboxes/{sandbox}/context/run', { params, body: { code: '6 * 7' } }))
const failure: string | undefined = cell.error?.message
assert.deepEqual([failure, cell.executionCount, cell.displays[0]?.data['text/plain']], [undefined, 1, '42'])

const { state, network } = got(await client.GET('/v1/sandboxes/{sandbox}', { params }))
assert.deepEqual([state, network], ['running', {}])

const stats = got(await client.GET('/v1/stats'))
const running: number = stats.sandboxes.running
assert.equal(running, 2)

const { error } = await client.POST('/v1/sandboxes/{sandbox}/file/stat', { params, body: { path: 'none' } })
assert.deepEqual([error?.error.name, error?.error.fault], ['file_not_found', 'caller'])

// These would be accepted if the document had no types.
// @ts-expect-error: there is no such member of the answer
assert.equal(command.exitcode, undefined)
// @ts-expect-error: a time is a number
assert.equal((await client.POST('/v1/sandboxes/{sandbox}/exec', { params, body: { command: 'true', timeoutMs: 'soon' } })).response.status, 400)
// @ts-expect-error: nor such an operation
assert.equal((await client.GET('/v1/none')).response.status, 404)

await client.DELETE('/v1/sandboxes/{sandbox}', { params })
await client.DELETE('/v1/sandboxes/{sandbox}', { params: { path: { sandbox: made.sandbox } } })
writeFileSync(process.env.ASKED ?? '', JSON.stringify(asked))
