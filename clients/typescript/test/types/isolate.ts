// Compiled, never run: each @ts-expect-error is a promise that the line does not compile.
import { createSandbox, createSafeFetch, type Prefix, type RunResult } from 'cloche/isolate'

const sandbox = await createSandbox({ maxIsolates: 2, memoryMb: 64 })
const prefix = await sandbox.precompile({
  code: '',
  globals: {
    search: async (query: string) => [query],
    shimmed: { kind: 'bridge-with-shim', handler: async (url: string) => ({ url }), shim: '(r) => r' },
    bridged: { kind: 'bridge', handler: (n: number) => n + 1, enumerable: false },
    fetch: createSafeFetch({ policy: () => true }),
    CONFIG: { kind: 'data', value: { a: new Map([[1, new Date()]]) } },
    helper: '(x) => x + 1',
    expr: { kind: 'string', expr: '1 + 1' }
  },
  imports: {
    db: { users: { find: async (id: number) => ({ id }) }, VERSION: 3 },
    lib: 'export const x = 1'
  }
})

await prefix.run({ code: '', globals: { search: async () => [] } })
await prefix.run({ code: '', globals: { shimmed: async (url: string) => ({ url }) } })
await prefix.run({ code: '', globals: { bridged: (n: number) => n } })
// @ts-expect-error a name that was not declared
await prefix.run({ code: '', globals: { serach: async () => [] } })
// @ts-expect-error a handler of another type
await prefix.run({ code: '', globals: { search: async (query: number) => [query] } })
// @ts-expect-error the type of the shim's argument stays the same
await prefix.run({ code: '', globals: { shimmed: async () => 1 } })
// @ts-expect-error a constant
await prefix.run({ code: '', globals: { CONFIG: () => 1 } })
// @ts-expect-error an expression
await prefix.run({ code: '', globals: { helper: () => 1 } })
// @ts-expect-error an expression as object
await prefix.run({ code: '', globals: { expr: () => 1 } })
// @ts-expect-error no function
await prefix.run({ code: '', globals: { search: 'x' } })
await prefix.run({ code: '', imports: { db: { users: { find: async (id: number) => ({ id }) } } } })
// @ts-expect-error a module that was not declared
await prefix.run({ code: '', imports: { other: {} } })
// @ts-expect-error data of a module
await prefix.run({ code: '', imports: { db: { VERSION: 4 } } })
// @ts-expect-error the source of a module
await prefix.run({ code: '', imports: { lib: {} } })
// @ts-expect-error also in calls
await prefix.call({ export: 'f', globals: { nope: () => 1 } })
// @ts-expect-error a limit that there is not
await prefix.run({ code: '', limits: { cpuMs: 1 } })

const bare = await sandbox.prepare({ code: '' })
// @ts-expect-error nothing was declared
await bare.run({ code: '', globals: { anything: () => 1 } })
const widened: Prefix = prefix as unknown as Prefix
await widened.dispose()

const result: RunResult = await sandbox.run({ code: 'export default 1', globals: { f: () => 1 } })
if (result.ok) {
  result.exports.default satisfies unknown
  // @ts-expect-error no error where all went well
  result.error
} else {
  result.error.code satisfies string
  // @ts-expect-error no exports of a failure
  result.exports
}
if (result.status === 'aborted') result.reason satisfies unknown
const called = await sandbox.run({ code: '', call: { export: 'f', args: [1] } })
if (called.ok) called.value satisfies unknown
// @ts-expect-error code is needed
await sandbox.run({})
// @ts-expect-error a global is a function, an expression or an object of a kind
await sandbox.run({ code: '', globals: { n: 1 } })
await using disposed = sandbox
