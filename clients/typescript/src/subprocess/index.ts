export {
  createSubprocessSandbox, type ExecuteOptions, MARKER, type SandboxResult, SubprocessSandbox, type SubprocessSandboxConfig
} from './sandbox.js'
export type { Language } from './program.js'
export type { JsonSchema } from './schema.js'
export type { Tool, ToolContext, ToolExecutor } from './tools.js'
