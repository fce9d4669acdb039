import { randomBytes } from 'node:crypto'
import { InvalidArgumentError, StateError } from '../generated/errors.js'
import { type ClientOptions, Leasing } from '../internal/shared.js'
import type { Result } from '../run.js'
import { type Language, logsOf, MARKER, programOf } from './program.js'
import { declareTools, type Tool, type ToolExecutor } from './tools.js'

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

/** Runs code that calls tools: each execution in a box of its own. */
export class SubprocessSandbox implements AsyncDisposable {
  private readonly timeout: number
  private readonly memoryLimit: number
  private readonly minimalEnv: boolean
  private readonly language: Language
  private readonly running = new Set<AbortController>()
  private readonly leasing: Leasing

  constructor (config: SubprocessSandboxConfig = {}) {
    const { timeout = 30_000, memoryLimit = 128, minimalEnv = true, language = 'javascript', ...client } = config
    this.timeout = countOf('timeout', timeout)
    this.memoryLimit = countOf('memoryLimit', memoryLimit)
    this.minimalEnv = minimalEnv
    this.language = languageOf(language)
    this.leasing = new Leasing(client)
  }

  /** Failures of the code are in the answer's error; what is wrong with the tools is thrown. */
  async execute (
    code: string, tools: readonly Tool[] = [], toolExecutor: ToolExecutor = noTools, { signal, language = this.language }: ExecuteOptions = {}
  ): Promise<SandboxResult> {
    const ending = new AbortController()
    const globals = declareTools(tools, toolExecutor, ending.signal, language !== 'python')
    const started = performance.now()
    this.running.add(ending)
    const stop = (): void => { ending.abort(signal?.reason) }
    signal?.addEventListener('abort', stop, { once: true })
    if (signal?.aborted) stop()
    try {
      return await this.run(code, languageOf(language), globals, ending.signal, started)
    } finally {
      signal?.removeEventListener('abort', stop)
      this.running.delete(ending)
      // Tools that still work are told that nobody waits.
      ending.abort(new StateError('the execution has ended'))
    }
  }

  private async run (
    code: string, language: Language, globals: ReturnType<typeof declareTools>, signal: AbortSignal, started: number
  ): Promise<SandboxResult> {
    const mark = `\u0001${randomBytes(9).toString('base64url')}`
    const request = {
      ...programOf(language, code, mark, this.minimalEnv),
      limits: this.limits(),
      ...this.minimalEnv ? {} : { env: hostEnvironment(), warm: false },
      resultOptions: { includeChanges: false }
    }
    try {
      const { client } = await this.leasing.take()
      const result = await client.run<unknown>('call', request, { signal }, { globals, imports: {} })
      return { ...this.outcome(result), logs: logsOf(result.stdout, result.stderr, mark), duration: performance.now() - started }
    } catch (thrown) {
      if (!signal.aborted) throw thrown
      return { error: 'execution terminated', logs: [], duration: performance.now() - started }
    }
  }

  private limits (): object {
    return { wallMs: this.timeout, cpuMs: this.timeout * PROCESSORS, memoryBytes: this.memoryLimit * MIB, bridgeCalls: 0 }
  }

  private outcome ({ status, success, result, error }: Result): Pick<SandboxResult, 'result' | 'error'> {
    if (success) return result === undefined ? {} : { result }
    switch (status) {
      case 'timeout': return { error: `execution terminated: timed out after ${this.timeout} ms` }
      case 'terminated': return { error: 'execution terminated' }
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

  async dispose (): Promise<void> {
    this.terminate()
    await this.leasing.release()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }
}

const noTools: ToolExecutor = (name) => { throw new ReferenceError(`there is no tool ${name}`) }

const hostEnvironment = (): Record<string, string> =>
  Object.fromEntries(Object.entries(process.env).filter((pair): pair is [string, string] => pair[1] !== undefined))

export function createSubprocessSandbox (config: SubprocessSandboxConfig = {}): SubprocessSandbox {
  return new SubprocessSandbox(config)
}

export { MARKER }
