// The code interpreter: persistent contexts, and cells run in them.
import type { SandboxDenial } from '../generated/answers.js'
import type { Asking } from '../internal/asking.js'
import type { CellError, CellEvent, CellResult, ContextInfo, Display } from './answers.js'
import { prefixName, type RunParams } from './native-context.js'
import { type Asker, asker, type Box } from './core.js'
import { CodeExecutionError } from './errors.js'
import { fieldsOf, Result, type ResultFields } from './results.js'
import { sseStream } from './sse.js'
import { StreamText } from './text.js'
import { fail, invalid, translate } from './translate.js'
import type {
  Abortable, CodeContext, CodeEvent, CreateContextOptions, Environment, ExecutionError, ExecutionResult, RunCodeOptions
} from './types.js'

/** The result of a piece of code. */
export class Execution {
  readonly results: Result[] = []
  /** @internal The next result replaces the earlier ones. */
  clearsNext = false
  readonly logs: { stdout: string[], stderr: string[] } = { stdout: [], stderr: [] }
  error?: ExecutionError
  executionCount?: number
  /** The connections that the network policy refused meanwhile. */
  denials?: SandboxDenial[]

  constructor (readonly code: string, readonly context: CodeContext) {}

  toJSON (): ExecutionResult {
    const { code, logs, error, executionCount, denials, results } = this
    return {
      code,
      logs,
      ...error === undefined ? {} : { error },
      ...executionCount === undefined ? {} : { executionCount },
      ...denials === undefined ? {} : { denials },
      results: results.map((result) => result.toJSON())
    }
  }
}

const ALIASES: Record<string, string> = { python3: 'python', py: 'python', js: 'javascript', node: 'javascript', ts: 'typescript' }
const canonical = (language: string): string => ALIASES[language.toLowerCase()] ?? language.toLowerCase()
const isGone = (thrown: unknown): boolean => (thrown as { code?: unknown } | null)?.code === 'CONTEXT_NOT_FOUND'

const contextOf = ({ context, language, cwd, createdAt, lastUsedAt, state }: ContextInfo): CodeContext =>
  ({ id: context, language, cwd, createdAt: new Date(createdAt), lastUsed: new Date(lastUsedAt), state })

function setOf (env: Environment): Record<string, string> | undefined {
  const all = Object.entries(env).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return all.length === 0 ? undefined : Object.fromEntries(all)
}

/** The line of the cell where it happened, if the traceback names one. */
const lineOf = (traceback: string[]): number | undefined => {
  const found = [...traceback.join('\n').matchAll(/Cell In\[\d+\](?:, line |:)(\d+)/g)].at(-1)
  return found === undefined ? undefined : Number(found[1])
}

function errorOf ({ name, message, traceback }: CellError): ExecutionError {
  const lineNumber = lineOf(traceback)
  return { name, message, value: message, traceback, ...lineNumber === undefined ? {} : { lineNumber } }
}

function checkLanguage ({ id, language }: CodeContext, wanted: string | undefined): void {
  if (wanted === undefined || canonical(wanted) === language) return
  const message = `the context ${id} is of ${language}, and the code of ${wanted}: make a context of that language`
  throw fail(CodeExecutionError, 'CODE_EXECUTION_ERROR', 500, message, { contextId: id })
}

export class Interpreter {
  private readonly ask: Asker

  /** environment: variables of contexts created from now on. */
  constructor (private readonly box: Box, private readonly environment: () => Environment) {
    this.ask = asker(box)
  }

  // -- contexts

  async create (
    { language, prefix, cwd, envVars, timeout, forkable, signal }: Omit<CreateContextOptions, 'language'> & { language?: string }, name?: string
  ): Promise<CodeContext> {
    const known = language === undefined && prefix !== undefined ? undefined : canonical(language ?? 'python')
    const env = setOf({ ...this.environment(), ...envVars })
    const params = { context: name, language: known, prefix: prefixName(prefix), cwd, env, timeoutMs: timeout, forkable }
    const made = await this.ask('context.create', { language: params.language }, async (box) => await box.context.create(params, { signal }))
    return this.remember(contextOf(made))
  }

  private remember (context: CodeContext): CodeContext {
    this.box.contexts.set(context.id, context)
    return context
  }

  async list (options: Abortable): Promise<CodeContext[]> {
    const { contexts } = await this.ask('context.list', {}, async (box) => await box.context.list(options))
    return contexts.map((info) => this.remember(contextOf(info)))
  }

  async delete (id: string, options: Abortable): Promise<void> {
    this.box.contexts.delete(id)
    await this.ask('context.delete', { contextId: id }, async (box) => await box.context.delete({ context: id }, options))
  }

  private async within<R> ({ context, language, envVars }: RunCodeOptions, act: (context: CodeContext) => Promise<R>): Promise<R> {
    if (setOf(envVars ?? {}) !== undefined) throw invalid('envVars are given when a context is made, not with its code')
    if (context === undefined) return await this.withinKnown(canonical(language ?? 'python'), act)
    checkLanguage(context, language)
    return await act(context)
  }

  /**
   * Runs in the first known context of the language, else in its default one. Some may be gone: all
   * are after the sandbox was stopped.
   */
  private async withinKnown<R> (language: string, act: (context: CodeContext) => Promise<R>): Promise<R> {
    for (const context of [...this.box.contexts.values()].filter((known) => known.language === language)) {
      try {
        return await act(context)
      } catch (thrown) {
        if (!isGone(thrown)) throw thrown
        this.box.contexts.delete(context.id)
      }
    }
    return await act(await this.create({ language }, `default-${language}`))
  }

  // -- cells

  async run (code: string, options: RunCodeOptions): Promise<Execution> {
    return await this.within(options, async (context) => await this.ask('context.run', { contextId: context.id, language: context.language }, async (box) => {
      const execution = new Execution(code, context)
      const asking = box.contexts.get(context.id).run(code, paramsOf(options), { signal: options.signal })
      for await (const event of codeEvents(asking)) await gather(execution, event, options)
      return execution
    }))
  }

  /** An error before the cell starts is thrown; a later one is an event. */
  async stream (code: string, options: RunCodeOptions): Promise<ReadableStream<Uint8Array>> {
    return await this.within(options, async (context) => await this.ask('context.run', { contextId: context.id, language: context.language }, async (box) => {
      const asking = box.contexts.get(context.id).run(code, paramsOf(options), { signal: options.signal })
      const events = asking[Symbol.asyncIterator]()
      await events.next()
      return sseStream(toldErrors(codeEvents(asking, events), options.signal), () => { asking.cancel() })
    }))
  }
}

function paramsOf ({ timeout, onInput }: RunCodeOptions): RunParams {
  return { timeoutMs: timeout, stream: true, restart: true, outputBytes: 0, input: onInput && (({ prompt, password }) => onInput({ prompt, password })) }
}

/** Yields output and displays as they come, then the value of the last expression, then the end. */
async function * codeEvents (
  asking: Asking<CellResult, CellEvent>, told: AsyncIterable<CellEvent> = asking
): AsyncGenerator<CodeEvent, void, undefined> {
  const text = new StreamText()
  let last: Display | undefined // open figures come before it
  for await (const { event, about } of told) {
    if (event === 'display' && about.isResult && last === undefined) last = about
    else if (event === 'display') yield { type: 'result', ...fieldsOf(about), timestamp: Date.now() }
    else if (event === 'clear') yield { type: 'clear_output', wait: about.wait, timestamp: Date.now() }
    else if (event === 'input') yield { type: 'input_request', prompt: about.prompt, password: about.password, timestamp: Date.now() }
    if (event !== 'output') continue
    const said = text.push(about.stream, about.data)
    if (said !== '') yield { type: about.stream, text: said, timestamp: Date.now() }
  }
  for (const [stream, said] of text.rest()) yield { type: stream as 'stdout' | 'stderr', text: said, timestamp: Date.now() }
  if (last !== undefined) yield { type: 'result', ...fieldsOf(last), timestamp: Date.now() }
  const { error, executionCount: count, denials } = await asking
  const refused = denials === undefined ? {} : { denials }
  if (error === undefined) yield { type: 'execution_complete', execution_count: count, ...refused, timestamp: Date.now() }
  else yield { type: 'error', ename: error.name, evalue: error.message, traceback: error.traceback, execution_count: count, ...refused, timestamp: Date.now() }
}

async function * toldErrors (events: AsyncIterable<CodeEvent>, signal: AbortSignal | undefined): AsyncGenerator<CodeEvent, void, undefined> {
  try {
    yield * events
  } catch (thrown) {
    if (signal?.aborted && thrown === signal.reason) throw thrown
    const { message, code } = translate('context.run', thrown) as { message: string, code?: string }
    yield { type: 'error', ename: code ?? 'Error', evalue: message, traceback: [], timestamp: Date.now() }
  }
}

async function gather (execution: Execution, event: CodeEvent, options: RunCodeOptions): Promise<void> {
  const { logs, results } = execution
  switch (event.type) {
    case 'stdout':
    case 'stderr': {
      const { type, text, timestamp } = event
      logs[type].push(text)
      return await (type === 'stdout' ? options.onStdout : options.onStderr)?.({ text, timestamp })
    }
    case 'result': {
      const result = new Result(event as ResultFields)
      if (execution.clearsNext) results.length = 0
      execution.clearsNext = false
      results.push(result)
      return await options.onResult?.(result)
    }
    case 'clear_output':
      execution.clearsNext = event.wait
      if (!event.wait) results.length = 0
      return await options.onClear?.({ wait: event.wait, timestamp: event.timestamp })
    case 'error':
      execution.error = errorOf({ name: event.ename, message: event.evalue, traceback: event.traceback })
      if (event.execution_count !== undefined) execution.executionCount = event.execution_count
      if (event.denials !== undefined) execution.denials = event.denials
      return await options.onError?.(execution.error)
    case 'execution_complete':
      execution.executionCount = event.execution_count
      if (event.denials !== undefined) execution.denials = event.denials
  }
}
