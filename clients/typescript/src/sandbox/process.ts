import type { ProcessWaitParams } from '../generated/sandbox.js'
import type { Asking } from '../internal/asking.js'
import { isClocheError } from '../internal/error.js'
import type { OutputEvent, ProcessInfo } from './answers.js'
import type { Asker } from './core.js'
import { ProcessExitedBeforeReadyError, ProcessReadyTimeoutError } from './errors.js'
import { abortOf, optionsOf } from './options.js'
import { sseStream } from './sse.js'
import { Joiner, now, StreamText, textOf, unsetting } from './text.js'
import { fail, translate } from './translate.js'
import type {
  Abortable, LogEvent, Process, ProcessLogsResult, ProcessOptions, ProcessStatus, StreamName, WaitForLogResult, WaitForPortOptions, WriteOptions
} from './types.js'

const PAGE_BYTES = 2 ** 20
/** Only this much of a longer line is searched. */
const LINE_CHARS = 2 ** 20
const PORT_STATUS = [200, 399] as const

// A terminal has a single output stream.
const streamOf = (stream: string): StreamName => stream === 'stderr' ? 'stderr' : 'stdout'

export class OpenProcess implements Process {
  readonly id: string
  readonly pid: number
  readonly command: string
  readonly startTime: Date
  readonly sessionId: string
  status: ProcessStatus
  endTime?: Date
  exitCode?: number

  /** @internal */
  constructor (private readonly ask: Asker, info: ProcessInfo) {
    this.id = info.process
    this.pid = info.pid
    this.command = textOf(info.command)
    this.startTime = new Date(info.startedAt)
    this.sessionId = info.session
    this.status = info.status
    this.learn(info)
    // Hidden when the process is printed.
    Object.defineProperty(this, 'ask', { value: ask, enumerable: false })
  }

  private learn ({ status, endedAt, exitCode }: ProcessInfo): void {
    this.status = status
    if (endedAt !== undefined) this.endTime = new Date(endedAt)
    if (exitCode !== undefined) this.exitCode = exitCode
  }

  async kill (signal?: string | number, options: Abortable = {}): Promise<void> {
    this.learn(await killProcess(this.ask, this.id, signal, options))
  }

  async getStatus (options: Abortable = {}): Promise<ProcessStatus> {
    this.learn(await this.ask('process.get', { processId: this.id }, async (box) => await box.process.get({ process: this.id }, options)))
    return this.status
  }

  async getLogs (options: Abortable = {}): Promise<{ stdout: string, stderr: string }> {
    const { stdout, stderr } = await processLogs(this.ask, this.id, options)
    return { stdout, stderr }
  }

  async write (data: string | Uint8Array, options: WriteOptions = {}): Promise<void> {
    const { signal, end } = optionsOf('write', options)
    await this.ask('process.input', { processId: this.id }, async (box) => await box.process.input({ process: this.id, data, end }, { signal }))
  }

  /** Waits for a line that matches, in the output so far or later. */
  async waitForLog (pattern: string | RegExp, timeout?: number, options: Abortable = {}): Promise<WaitForLogResult> {
    abortOf('waitForLog', options)
    const condition = `log line with ${String(pattern)}`
    if (typeof pattern !== 'string') return await this.search(pattern, condition, timeout, options)
    const { line = '' } = await this.wait({ text: pattern }, condition, timeout, options)
    return { line: textOf(line) }
  }

  /** Waits until a program serves the port: over HTTP, unless the mode is tcp. */
  async waitForPort (port: number, options: WaitForPortOptions = {}): Promise<void> {
    const { mode = 'http', path = '/', status, timeout } = optionsOf('waitForPort', options)
    const range = status === undefined ? PORT_STATUS : typeof status === 'number' ? [status, status] as const : [status.min, status.max] as const
    const asked = mode === 'tcp' ? { port } : { port, path, status: range }
    await this.wait(asked, `port ${port} (${mode}${mode === 'http' ? ` ${path}` : ''})`, timeout, options)
  }

  async waitForExit (timeout?: number, options: Abortable = {}): Promise<{ exitCode: number }> {
    const { process } = await this.wait({}, 'exit', timeout, abortOf('waitForExit', options))
    this.learn(process)
    return { exitCode: process.exitCode ?? 0 }
  }

  private async wait (what: Omit<ProcessWaitParams, 'process'>, condition: string, timeout: number | undefined, { signal }: Abortable) {
    const params = { process: this.id, ...what, timeoutMs: timeout }
    return await this.ask('process.wait', { processId: this.id, condition }, async (box) => {
      try {
        return await box.process.wait(params, { signal })
      } catch (thrown) {
        if (!isClocheError(thrown)) throw thrown
        if (thrown.code === 'timeout') throw this.late(condition, timeout ?? 0)
        if (thrown.code === 'process_ended') throw await this.ended(condition)
        throw thrown
      }
    })
  }

  // Regular expressions are JavaScript's: they are matched here, not by the daemon's other engine.
  private async search (pattern: RegExp, condition: string, timeout: number | undefined, { signal }: Abortable): Promise<WaitForLogResult> {
    const single = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''))
    const found = await this.ask('process.follow', { processId: this.id, condition }, async (box) => {
      const asking = box.process.follow({ process: this.id }, { signal })
      let isLate = false
      const timer = timeout === undefined ? undefined : setTimeout(() => { isLate = true; asking.cancel() }, timeout)
      try {
        return await firstLine(asking, single) ?? (isLate ? 'late' : 'ended')
      } finally {
        clearTimeout(timer)
      }
    })
    if (found === 'late') throw this.late(condition, timeout ?? 0)
    if (found === 'ended') throw await this.ended(condition)
    return found
  }

  private late (condition: string, timeout: number): Error {
    const context = { processId: this.id, command: this.command, condition, timeout }
    const message = `process ${this.id} was not ready within ${timeout} ms: ${condition}`
    return fail(ProcessReadyTimeoutError, 'PROCESS_READY_TIMEOUT', 408, message, context)
  }

  private async ended (condition: string): Promise<Error> {
    await this.getStatus().catch(() => {})
    const context = { processId: this.id, command: this.command, condition, exitCode: this.exitCode ?? -1 }
    const message = `process ${this.id} ended with ${context.exitCode} before it was ready: ${condition}`
    return fail(ProcessExitedBeforeReadyError, 'PROCESS_EXITED_BEFORE_READY', 500, message, context)
  }
}

async function firstLine (asking: Asking<ProcessInfo, OutputEvent>, pattern: RegExp): Promise<WaitForLogResult | undefined> {
  const text = new StreamText()
  const rests = new Map<string, string>()
  const look = (line: string): WaitForLogResult | undefined => {
    const match = line.slice(0, LINE_CHARS).match(pattern)
    return match === null ? undefined : { line, match }
  }
  for await (const { about: { stream, data } } of asking) {
    const lines = ((rests.get(stream) ?? '') + text.push(stream, data)).split(/\r?\n/)
    rests.set(stream, (lines.pop() ?? '').slice(0, LINE_CHARS))
    for (const line of lines) {
      const found = look(line)
      if (found !== undefined) return found
    }
  }
  return [...rests.values()].map(look).find((found) => found !== undefined)
}

export async function killProcess (ask: Asker, id: string, signal: string | number | undefined, options: Abortable): Promise<ProcessInfo> {
  // SIGTERM, and SIGKILL if that does not end it, as users of the method expect.
  const named = signal === undefined || ['SIGTERM', 'TERM', '15'].includes(String(signal)) ? undefined : String(signal)
  return await ask('process.kill', { processId: id }, async (box) => await box.process.kill({ process: id, signal: named }, options))
}

export async function startProcess (ask: Asker, command: string, session: string, options: ProcessOptions): Promise<OpenProcess> {
  const { processId, timeout, env, cwd, autoCleanup, stdin, sessionId = session, signal, onStart, onOutput, onExit, onError } = optionsOf('startProcess', options)
  const params = {
    command, process: processId, session: sessionId, cwd, timeoutMs: timeout, stdin, autoCleanup, env: env === undefined ? undefined : unsetting(env)
  }
  let process: OpenProcess
  try {
    process = await ask('process.start', { command, processId }, async (box) => new OpenProcess(ask, await box.process.start(params, { signal })))
  } catch (thrown) {
    onError?.(thrown as Error)
    throw thrown
  }
  onStart?.(process)
  if (onOutput !== undefined || onExit !== undefined || onError !== undefined) void attend(ask, process.id, options)
  return process
}

async function attend (ask: Asker, id: string, { onOutput, onExit, onError }: ProcessOptions): Promise<void> {
  try {
    const ended = await ask('process.follow', { processId: id }, async (box) => {
      const asking = box.process.follow({ process: id })
      return onOutput === undefined ? await asking : await relay(asking, onOutput)
    })
    onExit?.(ended.exitCode ?? null)
  } catch (thrown) {
    onError?.(thrown as Error)
  }
}

/** Output as text, piece by piece, until the response comes. */
export async function relay<T> (asking: Asking<T, OutputEvent>, tell: (stream: StreamName, data: string) => void): Promise<T> {
  const text = new StreamText()
  for await (const { about } of asking) {
    const said = text.push(about.stream, about.data)
    if (said !== '') tell(streamOf(about.stream), said)
  }
  for (const [stream, said] of text.rest()) tell(streamOf(stream), said)
  return await asking
}

export async function processLogs (ask: Asker, id: string, options: Abortable): Promise<ProcessLogsResult> {
  const { signal } = abortOf('getProcessLogs', options)
  return await ask('process.logs', { processId: id }, async (box) => {
    const { session } = await box.process.get({ process: id }, { signal })
    const first = await box.process.logs({ process: id, limit: PAGE_BYTES }, { signal })
    // Each stream from its own offset: offsets of a stream that dropped its beginning differ.
    const whole = async (stream: StreamName): Promise<string> => {
      const joiner = new Joiner()
      for (let page = first; ;) {
        const offset = page[`${stream}Next`]
        joiner.add(page[stream])
        if (page[stream].length === 0 || offset >= page[`${stream}Total`]) return textOf(joiner.bytes())
        page = await box.process.logs({ process: id, offset, limit: PAGE_BYTES }, { signal })
      }
    }
    const [stdout, stderr] = [await whole('stdout'), await whole('stderr')]
    return { success: true, stdout, stderr, processId: id, sessionId: session, timestamp: now() }
  })
}

export async function streamLogs (ask: Asker, id: string, options: Abortable): Promise<ReadableStream<Uint8Array>> {
  const { signal } = abortOf('streamProcessLogs', options)
  const { info, asking } = await ask('process.follow', { processId: id }, async (box) => {
    const info = await box.process.get({ process: id }, { signal })
    return { info, asking: { request: box.process.follow({ process: id }, { signal }) } }
  })
  return sseStream(logEvents(info, asking.request, signal), () => { asking.request.cancel() })
}

async function * logEvents (
  { process: processId, session: sessionId, pid, command, status }: ProcessInfo, asking: Asking<ProcessInfo, OutputEvent>,
  signal: AbortSignal | undefined
): AsyncGenerator<LogEvent, void, undefined> {
  const event = (type: LogEvent['type'], more: Partial<LogEvent>): LogEvent => ({ type, timestamp: now(), processId, sessionId, ...more })
  yield event('process_info', { pid, command: textOf(command), status })
  const text = new StreamText()
  try {
    for await (const { about } of asking) {
      const data = text.push(about.stream, about.data)
      if (data !== '') yield event(streamOf(about.stream), { data })
    }
    for (const [stream, data] of text.rest()) yield event(streamOf(stream), { data })
    const ended = await asking
    const how = { status: ended.status, ...ended.exitCode === undefined ? {} : { exitCode: ended.exitCode } }
    // The older servers end with `complete`, the newer with `exit`.
    yield event('complete', how)
    yield event('exit', { ...how, data: `Process exited with code ${ended.exitCode ?? 'unknown'}` })
  } catch (thrown) {
    if (signal?.aborted && thrown === signal.reason) throw thrown
    const { message, code } = translate('process.follow', thrown) as { message: string, code?: string }
    yield event('error', { error: message, ...typeof code === 'string' ? { code } : {} })
  }
}
