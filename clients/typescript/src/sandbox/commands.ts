import type { SandboxDenial } from '../generated/answers.js'
import type { ExecParams } from '../generated/sandbox.js'
import type { Asking } from '../internal/asking.js'
import type { CommandResult, OutputEvent } from './answers.js'
import { type Asker, asker, type Box } from './core.js'
import type { SandboxHandle } from './native.js'
import { optionsOf } from './options.js'
import { killProcess, OpenProcess, processLogs, relay, startProcess, streamLogs } from './process.js'
import { sseStream } from './sse.js'
import { asText, Joiner, now, StreamText, textOf, unsetting } from './text.js'
import { SessionTerminatedError } from './errors.js'
import { fail, translate } from './translate.js'
import type {
  Abortable, ExecEvent, ExecOptions, ExecResult, Process, ProcessLogsResult, ProcessOptions, StreamName, StreamOptions
} from './types.js'

const PAGE_BYTES = 2 ** 20

export function paramsOf (command: string, session: string, options: ExecOptions | StreamOptions): ExecParams {
  const { timeout, env, cwd, stdin } = options
  return { session, command, timeoutMs: timeout, cwd, stdin, env: env === undefined ? undefined : unsetting(env) }
}

/** All of one stream, if the response has the beginning only. */
async function whole (
  box: SandboxHandle, { output, ...result }: CommandResult, stream: StreamName, signal: AbortSignal | undefined
): Promise<string | Uint8Array> {
  const total = stream === 'stdout' ? result.stdoutBytes : result.stderrBytes
  const begun = result[stream]
  let offset = typeof begun === 'string' ? Buffer.byteLength(begun) : begun.length
  if (output === undefined || offset >= total) return asText(begun) ?? begun
  const joiner = new Joiner()
  joiner.add(begun)
  for (let end = false; !end;) {
    const page = await box.output.read({ output, stream, offset, limit: PAGE_BYTES }, { signal })
    joiner.add(page.data)
    end = page.end || page.next <= offset
    offset = page.next
  }
  const bytes = joiner.bytes()
  return asText(bytes) ?? bytes
}

const notesOf = ({ warnings, denials }: CommandResult): { warnings?: string[], denials?: SandboxDenial[] } => ({
  ...warnings === undefined ? {} : { warnings },
  ...denials === undefined ? {} : { denials }
})

async function resultOf (box: SandboxHandle, command: string, answer: CommandResult, signal: AbortSignal | undefined): Promise<ExecResult> {
  const stdout = await whole(box, answer, 'stdout', signal)
  const stderr = await whole(box, answer, 'stderr', signal)
  const size = (text: string | Uint8Array): number => typeof text === 'string' ? Buffer.byteLength(text) : text.length
  return {
    success: answer.exitCode === 0,
    exitCode: answer.exitCode,
    stdout: textOf(stdout),
    stderr: textOf(stderr),
    ...typeof stdout === 'string' ? {} : { stdoutRaw: stdout },
    ...typeof stderr === 'string' ? {} : { stderrRaw: stderr },
    command,
    duration: answer.durationMs,
    timestamp: now(),
    sessionId: answer.session,
    cwd: answer.cwd as string, // absent only if its name is not UTF-8
    timedOut: answer.timedOut,
    truncated: size(stdout) < answer.stdoutBytes || size(stderr) < answer.stderrBytes,
    sessionEnded: answer.sessionEnded,
    ...answer.signal === undefined ? {} : { signal: answer.signal },
    ...notesOf(answer)
  }
}

const endOf = (command: string, sessionId: string, exitCode: number): string => `the session ${sessionId} ended with exit code ${exitCode}: ${command}`

/** A command that ended its shell is an error, which has its result; one that exceeded its timeout is not. */
function unended (result: ExecResult): ExecResult {
  const { command, sessionId, exitCode, sessionEnded, timedOut } = result
  if (!sessionEnded || timedOut) return result
  throw fail(SessionTerminatedError, 'SESSION_TERMINATED', 410, endOf(command, sessionId, exitCode), { sessionId, exitCode, command, result })
}

/** A session's commands and processes. */
export class Commands {
  protected readonly ask: Asker

  /** @internal */
  constructor (
    protected readonly box: Box, protected readonly session: string, protected readonly isStateless: boolean
  ) {
    this.ask = asker(box)
  }

  /**
   * Runs a command in the session's shell, after the earlier ones; a nonzero exit code is a result.
   * A command that ends the shell (`exit 1`) throws `SessionTerminatedError`, with `exitCode` and
   * the whole `result` in its `context`; the next command begins a new shell.
   */
  async exec (command: string, options: ExecOptions = {}): Promise<ExecResult> {
    const { signal, stream, onOutput, onComplete, onError } = optionsOf('exec', options)
    const isLive = stream === true || onOutput !== undefined
    const params = { ...paramsOf(command, this.session, options), ...isLive ? { stream: true } : {}, ...this.isStateless ? { fork: true } : {} }
    try {
      const result = await this.ask('exec', { command }, async (box) => {
        const asking = box.exec(params, { signal })
        const answer = onOutput === undefined ? await asking : await relay(asking, onOutput)
        return unended(await resultOf(box, command, answer, signal))
      })
      onComplete?.(result)
      return result
    } catch (thrown) {
      onError?.(thrown as Error)
      throw thrown
    }
  }

  /** Server-sent events of a command: start, stdout, stderr, complete or error. It runs in a copy of the shell, unless `fork` is false. */
  async execStream (command: string, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const { signal, sessionId = this.session, fork = true } = optionsOf('execStream', options)
    const params = { ...paramsOf(command, sessionId, options), stream: true, ...fork ? { fork } : {} }
    // Exceptions are thrown before anything ran; later errors are events.
    const asking = await this.ask('exec', { command }, async (box) => ({ asking: box.exec(params, { signal }) }))
    return sseStream(commandEvents(command, sessionId, asking.asking, signal), () => { asking.asking.cancel() })
  }

  async startProcess (command: string, options: ProcessOptions = {}): Promise<Process> {
    return await startProcess(this.ask, command, this.session, options)
  }

  /** Lists processes of all sessions. */
  async listProcesses (options: Abortable = {}): Promise<Process[]> {
    const { processes } = await this.ask('process.list', {}, async (box) => await box.process.list({}, options))
    return processes.map((found) => new OpenProcess(this.ask, found))
  }

  async getProcess (id: string, options: Abortable = {}): Promise<Process | null> {
    try {
      const found = await this.ask('process.get', { processId: id }, async (box) => await box.process.get({ process: id }, options))
      return new OpenProcess(this.ask, found)
    } catch (thrown) {
      if ((thrown as { code?: unknown }).code === 'PROCESS_NOT_FOUND') return null
      throw thrown
    }
  }

  /** Kills it with all its descendants: SIGTERM, and SIGKILL five seconds later. Another signal is only sent. */
  async killProcess (id: string, signal?: string | number, options: Abortable = {}): Promise<void> {
    await killProcess(this.ask, id, signal, options)
  }

  async killAllProcesses (options: Abortable = {}): Promise<number> {
    return await this.ask('process.killAll', {}, async (box) => (await box.process.killAll({}, options)).count)
  }

  /** Removes ended processes from the list; returns their number. */
  async cleanupCompletedProcesses (options: Abortable = {}): Promise<number> {
    return await this.ask('process.cleanup', {}, async (box) => (await box.process.cleanup({}, options)).count)
  }

  async getProcessLogs (id: string, options: Abortable = {}): Promise<ProcessLogsResult> {
    return await processLogs(this.ask, id, options)
  }

  /** Server-sent events of a process's output so far, then new output, until it ends. */
  async streamProcessLogs (id: string, options: Abortable = {}): Promise<ReadableStream<Uint8Array>> {
    return await streamLogs(this.ask, id, options)
  }
}

async function * commandEvents (
  command: string, sessionId: string, asking: Asking<CommandResult, OutputEvent>, signal: AbortSignal | undefined
): AsyncGenerator<ExecEvent, void, undefined> {
  yield { type: 'start', timestamp: now(), command, sessionId }
  const text = new StreamText()
  const told = (stream: string, data: string): ExecEvent => ({ type: stream as StreamName, timestamp: now(), data, command, sessionId })
  try {
    for await (const { about } of asking) {
      const said = text.push(about.stream, about.data)
      if (said !== '') yield told(about.stream, said)
    }
    for (const [stream, said] of text.rest()) yield told(stream, said)
    const answer = await asking
    const { exitCode, stdout, stderr, timedOut, sessionEnded } = answer
    if (sessionEnded && !timedOut) {
      yield { type: 'error', timestamp: now(), command, sessionId, exitCode, error: endOf(command, sessionId, exitCode), code: 'SESSION_TERMINATED' }
      return
    }
    const result = { stdout: textOf(stdout), stderr: textOf(stderr), exitCode, success: exitCode === 0, timedOut, ...notesOf(answer) }
    yield { type: 'complete', timestamp: now(), command, sessionId, exitCode, result }
  } catch (thrown) {
    if (signal?.aborted && thrown === signal.reason) throw thrown
    const { message, code } = translate('exec', thrown) as { message: string, code?: string }
    yield { type: 'error', timestamp: now(), command, sessionId, error: message, ...typeof code === 'string' ? { code } : {} }
  }
}
