export {
  type AskOptions, Cloche, type ConnectOptions, type Guard, type Language, Prefix, type PrefixInfo,
  type PrefixRequest, type Stats, type SyncPlan, type SyncRequest, VERSION
} from './client.js'
export * from './generated/errors.js'
export type {
  EventsOf, Method as SandboxMethod, StreamMethod
} from './generated/sandbox.js'
export { limitTable, type LimitName, type Limits } from './generated/limits.js'
export { exitCodes, type Status } from './generated/statuses.js'
export * from './internal/error.js'
export { constant, expression, type Declaration, type HostFunction, shim } from './internal/host.js'
export { Images, type ImageSettings, type ImageSource, type ImportOptions, type PruneOptions, type WarmOptions } from './images.js'
export { Packages } from './packages.js'
export type {
  Image, ImageChange, ImageDeleted, ImageImported, ImagesPruned, ImageVerified
} from './generated/answers.js'
export { findDaemon, type DaemonOptions } from './internal/daemon.js'
export type * from './run.js'
export { Asking, type OperationOptions, type SandboxEvent } from './internal/asking.js'
export { type Created, SandboxHandle, Sandboxes } from './sandbox/native.js'
export { type Answerer, ContextHandle, Contexts, type CreatedContext, type NewContextParams, type RunParams } from './sandbox/native-context.js'
export type * from './sandbox/answers.js'
