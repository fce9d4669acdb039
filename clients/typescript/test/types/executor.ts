import { createExecutor, SyncStates, PermissionDeniedError, ALL_PERMISSIONS, type ExecutionResult, type FileChange, type FunctionCallRequest, type MountConfig } from 'cloche/executor'
import { Cloche, isPrefixError, type Limits } from 'cloche'
import { createSubprocessSandbox, type Tool } from 'cloche/subprocess'

const executor = createExecutor({ defaultWorkdir: '/app', syncEventConfig: { allowAbort: true } })
executor.on('beforeSync', function (change) {
  change.path.endsWith('.tmp')
  this.result = { state: SyncStates.SKIP, reason: 'temporary' }
  this.stopped = true
  // @ts-expect-error there is no such state
  this.result = { state: 'later' }
})
executor.on('afterSync', (data) => { data.success satisfies boolean })
executor.on('syncError', (change, error) => { error.message; change.path })
executor.on('permissionDenied', (record) => record.operation)
// @ts-expect-error no such event
executor.on('afterwards', () => {})

const result = await executor.execute<{ name: string }>({ language: 'python', code: '', functionName: 'f', args: { a: 1, b: { index: 1, value: 2 } }, timeout: 3, options: { files: { 'a.txt': 'x', b: Uint8Array.of(1) } } })
result satisfies ExecutionResult<{ name: string }>
result.result?.name satisfies string | undefined
result.files?.created satisfies FileChange[] | undefined
result.files?.byPath('x')?.content satisfies Uint8Array | undefined
await executor.syncFiles(result.files?.all() ?? [], { dirs: { '/workspace': './out' } }, { onError: 'continue' })
// @ts-expect-error there is no such behaviour
await executor.syncFiles([], { dirs: {} }, { onError: 'retry' })
// @ts-expect-error language is needed
const request: FunctionCallRequest = { code: '' }
const mount: MountConfig = { dirs: {}, permissions: { rules: [{ pattern: '**', allow: '*', deny: ['read'] }] }, sync: { mode: 'batch' } }
new PermissionDeniedError('/x', ALL_PERMISSIONS[0]).operation satisfies string

const client = await Cloche.connect()
const limits: Limits = { wallMs: 1 }
// @ts-expect-error no such limit
const wrong: Limits = { wallSeconds: 1 }
const called = await client.call<number>({ language: 'python', code: '', limits })
called.result satisfies number | undefined
try {} catch (thrown) {
  if (isPrefixError(thrown)) thrown.code satisfies 'prefix'
}

const tools: Tool[] = [{ name: 'a', inputSchema: { type: 'object' } }]
const { logs, error } = await createSubprocessSandbox({ timeout: 1 }).execute('', tools, async (name, params, { signal }) => signal.aborted)
logs satisfies string[]
error satisfies string | undefined
