export { createExecutor, SandboxExecutor, type ExecutorEvents } from './executor.js'
export type { EventContext, Listener } from './events.js'
export { PermissionDeniedError, PermissionResolver, type ResolvedPermission } from './permissions.js'
export * from './types.js'
