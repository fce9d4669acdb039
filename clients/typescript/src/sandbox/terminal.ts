import type { Asking } from '../internal/asking.js'
import type { OutputEvent, ProcessInfo } from './answers.js'
import type { Asker } from './core.js'
import type { Abortable, TerminalOptions } from './types.js'

const COLS = 80
const ROWS = 24
const SHELL = 'bash'

/**
 * A terminal of a sandbox: writes are keystrokes, iteration returns its output, from the kept
 * beginning (256 KiB) on.
 */
export class Terminal implements AsyncIterable<Uint8Array>, AsyncDisposable {
  private constructor (
    private readonly ask: Asker, readonly processId: string, private readonly following: Asking<ProcessInfo, OutputEvent>
  ) {}

  /** @internal */
  static async open (ask: Asker, session: string, { cols = COLS, rows = ROWS, shell = SHELL, signal }: TerminalOptions): Promise<Terminal> {
    return await ask('process.start', { session }, async (box) => {
      const id = terminalId(session)
      const { processes } = await box.process.list({}, { signal })
      const found = processes.find(({ process, status }) => process === id && status === 'running')
      if (found === undefined) {
        await box.process.cleanup({ process: id }, { signal }).catch(() => {})
        await box.process.start({ process: id, session, command: `exec ${shell}`, terminal: { cols, rows } }, { signal })
      } else await box.process.resize({ process: id, cols, rows }, { signal })
      return new Terminal(ask, id, box.process.follow({ process: id }, { signal }))
    })
  }

  /** Text or bytes, like keystrokes. */
  async write (data: string | Uint8Array, options: Abortable = {}): Promise<void> {
    const params = { process: this.processId, data }
    await this.ask('process.input', { processId: this.processId }, async (box) => await box.process.input(params, options))
  }

  async resize (cols: number, rows: number, options: Abortable = {}): Promise<void> {
    const params = { process: this.processId, cols, rows }
    await this.ask('process.resize', { processId: this.processId }, async (box) => await box.process.resize(params, options))
  }

  async * [Symbol.asyncIterator] (): AsyncGenerator<Uint8Array, void, undefined> {
    for await (const { about } of this.following) yield about.data
  }

  /** Waits for the exit code of its shell. */
  async exited (): Promise<number> {
    return (await this.following).exitCode ?? -1
  }

  /** Kills the shell and everything in the terminal. */
  async kill (): Promise<void> {
    await this.ask('process.kill', { processId: this.processId }, async (box) => await box.process.kill({ process: this.processId }))
  }

  /** Stops reading; the terminal stays. */
  close (): void {
    this.following.cancel()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    this.close()
  }
}

export const terminalId = (session: string): string => `terminal-${session}`
