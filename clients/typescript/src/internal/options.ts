// The names of all options, one table for each interface; checkKnown checks options against them.
import type { AskOptions, ConnectOptions, PrefixRequest, SyncRequest } from '../client.js'
import type { CallRequest, RunOptions, RunRequest, ScriptRequest, SyncEvents } from '../run.js'
import type { OperationOptions } from './asking.js'
import type { Names } from './known.js'
import type { ClientOptions } from './shared.js'

export const connectNames: Names<ConnectOptions> = {
  socket: true, host: true, port: true, token: true, tls: true, daemon: true, daemonArgs: true, optional: true, strict: true, shared: true,
  signal: true, connectTimeoutMs: true
}
export const clientNames: Names<ClientOptions> = { ...connectNames, client: true }

const common: Names<RunRequest> = {
  language: true, code: true, filename: true, build: true, image: true, imageSettings: true, workdir: true, env: true, stdin: true, network: true, limits: true, warm: true,
  globals: true, imports: true, files: true, mount: true, resultOptions: true
}
const functionNames = { function: true, args: true, kwargs: true, schema: true } as const

export const callNames: Names<CallRequest> = { ...common, ...functionNames }
export const scriptNames: Names<ScriptRequest> = { ...common, argv: true }
export const evaluateNames: Names<RunRequest> = common
export const prefixNames: Names<PrefixRequest> = {
  language: true, code: true, filename: true, build: true, image: true, imageSettings: true, limits: true, globals: true, imports: true, files: true, bare: true, name: true
}

/** A run forked from a prefix, which has the language and the host's functions. */
type Forked<T> = Omit<T, 'language' | 'globals' | 'imports'>
const forked = <T extends object>({ language: _, globals: __, imports: ___, ...rest }: T & Record<'language' | 'globals' | 'imports', unknown>): typeof rest => rest
export const forkedCallNames: Names<Forked<CallRequest>> = forked(callNames)
export const forkedEvaluateNames: Names<Forked<RunRequest>> = forked(evaluateNames)

export const runOptionNames: Names<RunOptions> = { signal: true, timeoutMs: true, onOutput: true, onPermissionDenied: true, events: true }
export const eventNames: Names<SyncEvents> = { beforeSync: true, afterSync: true, syncError: true }
export const askNames: Names<AskOptions> = { signal: true, timeoutMs: true }
export const operationNames: Names<OperationOptions> = { ...askNames, tap: 'internal' }
export const syncNames: Names<SyncRequest> = {
  changeset: true, changes: true, mount: true, onError: true, conflict: true, links: true, dryRun: true
}
export const syncOptionNames: Names<AskOptions & Pick<RunOptions, 'events'>> = { ...askNames, events: true }
