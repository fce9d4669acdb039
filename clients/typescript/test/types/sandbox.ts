// Compiled, never run: code of the other package's users.
import { Cloche } from 'cloche'
import {
  type CodeContext, type CodeEvent, type ExecEvent, type ExecutionResult, type FileWatchEvent, getSandbox, type LogEvent, parseSSEStream, type Process,
  proxyToSandbox, type Result, type Sandbox, SandboxError, collectFile
} from 'cloche/sandbox'

const env = { Sandbox: { socket: '/run/cloche.sock' } }
const sandbox: Sandbox = getSandbox(env.Sandbox, 'user-1', { sleepAfter: '10m', keepAlive: false, normalizeId: true, labels: { team: 'a' } })
getSandbox(undefined, 'x')
getSandbox(await Cloche.connect(), 'x')
getSandbox(Cloche.connect(), 'x')

const { success, stdout, exitCode } = await sandbox.exec('npm test', { timeout: 1000, env: { A: '1', B: undefined }, cwd: '/workspace', signal: AbortSignal.timeout(5) })
const text: string = stdout
for await (const event of parseSSEStream<ExecEvent>(await sandbox.execStream('ls'))) {
  if (event.type === 'complete') console.log(event.exitCode, success, exitCode, text)
}
const server: Process = await sandbox.startProcess('node server.js', { processId: 'web', env: { PORT: '8080' }, onOutput: (stream, data) => { console.log(stream, data) } })
await server.waitForPort(8080, { path: '/health', status: { min: 200, max: 299 }, timeout: 1000 })
const { match } = await server.waitForLog(/port (\d+)/)
console.log(match?.[1], server.pid, server.startTime.getTime())
for await (const event of parseSSEStream<LogEvent>(await sandbox.streamProcessLogs(server.id, { signal: new AbortController().signal }))) console.log(event.data)
const nobody: Process | null = await sandbox.getProcess('nobody')
console.log(nobody)

const file = await sandbox.readFile('/workspace/a.bin', { encoding: 'base64' })
const size: number = file.size
const raw = await sandbox.readFile('/workspace/a.bin', { encoding: 'none' })
const bytes: ReadableStream<Uint8Array> = raw.content
// @ts-expect-error a stream is no text
const notText: string = raw.content
const { content } = await collectFile(await sandbox.readFileStream('/workspace/a.bin'))
console.log(size, bytes, notText, content)
for await (const event of parseSSEStream<FileWatchEvent>(await sandbox.watch('/workspace', { include: ['*.ts'] }))) if (event.type === 'event') console.log(event.eventType)

const session = await sandbox.createSession({ id: 's', env: { A: '1' }, cwd: '/workspace' })
await session.exec('pwd')
// @ts-expect-error sessions have no sessions
await session.createSession()
const { url, port } = await sandbox.exposePort(8080, { hostname: 'example.com', token: 'abc' })
console.log(url, port)
const response: Response | null = await proxyToSandbox(new Request('http://x'), env)
console.log(response)
try {
  await sandbox.deleteFile('/x')
} catch (error) {
  if (error instanceof SandboxError && error.code === 'FILE_NOT_FOUND') console.log(error.httpStatus, error.context)
}

const context: CodeContext = await sandbox.createCodeContext({ language: 'javascript', cwd: '/workspace', envVars: { A: '1', B: undefined }, timeout: 1000 })
const execution = await sandbox.runCode('1 + 1', { context, timeout: 1000, onStdout: (output) => { console.log(output.text, output.timestamp) }, onResult: async (one: Result) => { console.log(one.formats()) } })
const lines: string[] = execution.logs.stdout
const png: string | undefined = execution.results[0]?.png
const executed: ExecutionResult = execution.toJSON()
console.log(lines, png, execution.error?.traceback.length, execution.results[0]?.chart?.type, executed.results[0]?.html, context.createdAt.getTime())
for await (const event of parseSSEStream<CodeEvent>(await session.runCodeStream('1'))) if (event.type === 'error') console.log(event.ename)
for (const one of await sandbox.listCodeContexts()) await sandbox.deleteCodeContext(one.id)
// @ts-expect-error no such language
await sandbox.createCodeContext({ language: 'cobol' })

// The client's own classes.
const client = await Cloche.connect()
const box = client.sandbox('mine')
for await (const { event, about } of box.exec({ command: 'ls', stream: true })) if (event === 'output') console.log(about.stream, about.data.length)
const code: number = (await box.exec({ command: 'true' })).exitCode
const { entries } = await box.file.list({ path: '.', recursive: true })
console.log(code, entries[0]?.size)
// @ts-expect-error a path is missing
await box.file.read({})
const { context: notebook } = await box.contexts.create({ language: 'python', forkable: true })
const prefix = await client.prefix({ language: 'python', code: 'rows = [1]' })
const made: string | undefined = (await box.contexts.create({ prefix })).info.prefix
await sandbox.createCodeContext({ prefix: made ?? prefix })
for await (const { event, about } of notebook.run('print(1)', { stream: true, input: ({ prompt }) => prompt })) if (event === 'display') console.log(about.data, about.isResult)
const cell: number = (await box.context.run({ code: '1', language: 'ruby' })).executionCount
const [branch] = await notebook.fork({ count: 2 })
const { checkpoint } = await notebook.checkpoint({ files: false })
console.log(cell, branch?.name, (await notebook.rollback(checkpoint)).state)
// @ts-expect-error code is missing
await notebook.run()
