import { randomBytes } from 'node:crypto'
import { InvalidArgumentError, StateError } from '../generated/errors.js'
import { RequestTimeoutError } from '../internal/error.js'
import { checkKnown, type Names } from '../internal/known.js'
import { clientNames } from '../internal/options.js'
import { type ClientOptions, Leasing } from '../internal/shared.js'
import type { Result } from '../run.js'
import { type Language, logsOf, MARKER, programOf } from './program.js'
import { declareTools, type Tool, type ToolExecutor, unlessAborted } from './tools.js'

const MIB = 2 ** 20
const PROCESSORS = 2

export interface SubprocessSandboxConfig extends ClientOptions {
  /** In ms, 30,000 by default; 0 for none. */
  timeout?: number
  /** In MB, 128 by default; 0 for none. */
  memoryLimit?: number
  /** Only PATH and a marker in the environment, instead of this process's; by default true. */
  minimalEnv?: boolean
  /** The language of the code: javascript by default. */
  language?: Language
  /** Results and the parameters of tools may be Map, Set, Date, bigint and bytes, instead of what JSON has for them. */
  rich?: boolean
}

export interface SandboxResult {
  result?: unknown
  /** Lines, with their level or stream in front: `[log] `, `[warn] `, `[stdout] `, … */
  logs: string[]
  error?: string
  /** In ms. */
  duration: number
}

export interface ExecuteOptions {
  signal?: AbortSignal
  /** The timeout of this code; else the sandbox's. */
  language?: Language
  /** In ms, of this execution and the start of its sandbox; else the sandbox's. 0 for none. */
  timeout?: number
  /** Of this execution; else the sandbox's. */
  rich?: boolean
}

const configNames: Names<SubprocessSandboxConfig> = {
  ...clientNames, timeout: true, memoryLimit: true, minimalEnv: true, language: true, rich: true
}
const executeNames: Names<ExecuteOptions> = { signal: true, language: true, timeout: true, rich: true }

/** One execution, with what its options and the sandbox's come to. */
interface Execution {
  code: string
  language: Language
  timeout: number
  isRich: boolean
  globals: ReturnType<typeof declareTools>
  /** Aborted by the caller's signal, `terminate()`, or the timeout. */
  ending: AbortController
  started: number
}

const languages: readonly string[] = ['javascript', 'typescript', 'python']

function languageOf (language: string): Language {
  if (!languages.includes(language)) {
    throw new InvalidArgumentError(`language is ${JSON.stringify(language)}; ${languages.join(', ')} are there`)
  }
  return language as Language
}

function countOf (name: string, value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new InvalidArgumentError(`${name} is ${String(value)}; a whole number from 0 (none) is expected`)
  }
  return value
}

/** The reason of an execution that took too long. */
const TIMED_OUT = new RequestTimeoutError('the execution timed out')

/** setTimeout() takes no more. */
const TIMER_MAX_MS = 2 ** 31 - 1

/** Runs code that calls tools: each execution in a box of its own. */
export class SubprocessSandbox implements AsyncDisposable {
  private readonly timeout: number
  private readonly memoryLimit: number
  private readonly minimalEnv: boolean
  private readonly language: Language
  private readonly isRich: boolean
  private readonly running = new Set<AbortController>()
  private readonly leasing: Leasing
  private isDisposed = false

  constructor (config: SubprocessSandboxConfig = {}) {
    checkKnown('createSubprocessSandbox', config, configNames)
    const { timeout = 30_000, memoryLimit = 128, minimalEnv = true, language = 'javascript', rich = false, ...client } = config
    this.timeout = countOf('timeout', timeout)
    this.memoryLimit = countOf('memoryLimit', memoryLimit)
    this.minimalEnv = minimalEnv
    this.language = languageOf(language)
    this.isRich = rich
    this.leasing = new Leasing(client)
  }

  /** Failures of the code are in the answer's error; what is wrong with the tools or the options is thrown. */
  async execute (
    code: string, tools: readonly Tool[] = [], toolExecutor: ToolExecutor = noTools, options: ExecuteOptions = {}
  ): Promise<SandboxResult> {
    const started = performance.now()
    if (this.isDisposed) throw new StateError('execute: this subprocess sandbox was disposed; make another with createSubprocessSandbox')
    checkKnown('execute', options, executeNames)
    const { signal, rich: isRich = this.isRich } = options
    const language = languageOf(options.language ?? this.language)
    const timeout = countOf('timeout', options.timeout ?? this.timeout)
    const ending = new AbortController()
    const globals = declareTools(tools, toolExecutor, ending.signal, language !== 'python')
    this.running.add(ending)
    const stop = (): void => { ending.abort(signal?.reason) }
    signal?.addEventListener('abort', stop, { once: true })
    if (signal?.aborted) stop()
    const timer = timeout === 0 ? undefined : setTimeout(() => { ending.abort(TIMED_OUT) }, Math.min(timeout, TIMER_MAX_MS))
    try {
      return await this.run({ code, language, timeout, isRich, globals, ending, started })
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', stop)
      this.running.delete(ending)
      // Tools that still work are told that nobody waits.
      ending.abort(new StateError('the execution has ended'))
    }
  }

  private async run (execution: Execution): Promise<SandboxResult> {
    const { code, language, isRich, globals, ending: { signal }, started } = execution
    const mark = `\u0001${randomBytes(9).toString('base64url')}`
    const request = {
      ...programOf(language, code, mark, this.minimalEnv),
      limits: this.limitsOf(execution),
      ...this.minimalEnv ? {} : { env: hostEnvironment(), warm: false },
      resultOptions: { includeChanges: false }
    }
    try {
      const { client } = await unlessAborted(this.leasing.take(), signal)
      const hooks = { globals, imports: {}, isJson: !isRich, hasJsonArguments: !isRich }
      const result = await client.run<unknown>('call', request, { signal }, hooks)
      // The daemon's clock may be first: tools that still work get the same reason.
      if (result.status === 'timeout') execution.ending.abort(TIMED_OUT)
      return { ...this.outcome(result, execution), logs: logsOf(result.stdout, result.stderr, mark), duration: performance.now() - started }
    } catch (thrown) {
      if (!signal.aborted) throw thrown
      return { error: endOf(execution), logs: [], duration: performance.now() - started }
    }
  }

  // Starting is within the timeout: the engine's clock begins later than ours, and is for a daemon that does not hear of the end.
  private limitsOf ({ timeout }: Execution): object {
    return { wallMs: timeout, cpuMs: timeout * PROCESSORS, memoryBytes: this.memoryLimit * MIB, bridgeCalls: 0 }
  }

  private outcome ({ status, success, result, error }: Result, execution: Execution): Pick<SandboxResult, 'result' | 'error'> {
    if (success) return result === undefined ? {} : { result }
    switch (status) {
      case 'timeout': return { error: timeoutText(execution) }
      case 'terminated': return { error: endOf(execution) }
      case 'crash':
        return {
          error: error?.type === 'MemoryLimit'
            ? `execution terminated: out of memory, the limit is ${this.memoryLimit} MB`
            : `execution crashed: ${error?.message ?? 'the interpreter ended'}`
        }
    }
    return { error: error?.message ?? 'the code failed' }
  }

  isRunning (): boolean {
    return this.running.size > 0
  }

  /** Ends what is running; its answers say so. More can be executed afterwards. */
  terminate (): void {
    for (const ending of this.running) ending.abort(new StateError('the execution was terminated'))
  }

  /** Ends what is running, and lets go of the daemon; nothing can be executed afterwards. */
  async dispose (): Promise<void> {
    this.isDisposed = true
    this.terminate()
    await this.leasing.release()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }
}

const timeoutText = ({ timeout }: Execution): string => `execution terminated: timed out after ${timeout} ms`
const endOf = (execution: Execution): string => execution.ending.signal.reason === TIMED_OUT ? timeoutText(execution) : 'execution terminated'

const noTools: ToolExecutor = (name) => { throw new ReferenceError(`there is no tool ${name}`) }

const hostEnvironment = (): Record<string, string> =>
  Object.fromEntries(Object.entries(process.env).filter((pair): pair is [string, string] => pair[1] !== undefined))

export function createSubprocessSandbox (config: SubprocessSandboxConfig = {}): SubprocessSandbox {
  return new SubprocessSandbox(config)
}

export { MARKER }
