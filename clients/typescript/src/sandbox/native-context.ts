// Contexts of a sandbox as objects: persistent interpreters, each by its name.
import {
  type Ask, type ContextCheckpointParams, type ContextCreateParams, type ContextForkParams, type ContextInspectParams, ContextOperations, type ContextRunParams
} from '../generated/sandbox.js'
import type { Prefix } from '../client.js'
import type { Asking, OperationOptions } from '../internal/asking.js'
import type { Answers, CellEvent, CellResult, CheckpointInfo, Completeness, ContextInfo, HistoryEntry, Inspection, Question, Variable } from './answers.js'

/** Returns a cell's input; null or undefined: there is none. */
export type Answerer = (question: Question) => string | null | undefined | Promise<string | null | undefined>

export interface RunParams extends Omit<ContextRunParams, 'context' | 'language' | 'code' | 'input'> {
  /** The code may request input, which this returns; true: the caller responds to the events `input` itself. */
  input?: boolean | Answerer | undefined
}

export interface NewContextParams extends Omit<ContextCreateParams, 'context' | 'prefix'> {
  name?: string | undefined
  /** A prefix of this client, or the name of one that outlives its connection: cells see all that its set-up made. */
  prefix?: Prefix | string | undefined
}

/** @internal */
export const prefixName = (prefix: Prefix | string | undefined): string | undefined => typeof prefix === 'object' ? prefix.id : prefix

/** One context of a sandbox. */
export class ContextHandle {
  private readonly all: ContextOperations

  /** @internal */
  constructor (readonly name: string, private readonly ask: Ask) {
    this.all = new ContextOperations(ask)
  }

  async get (options: OperationOptions = {}): Promise<ContextInfo> {
    return await this.all.get({ context: this.name }, options)
  }

  /** Ends it; its running cells fail. */
  async delete (options: OperationOptions = {}): Promise<void> {
    await this.all.delete({ context: this.name }, options)
  }

  /** Restarts its interpreter, with its first options. */
  async restart (options: OperationOptions = {}): Promise<ContextInfo> {
    return await this.all.restart({ context: this.name }, options)
  }

  /** Interrupts the running cell; true if there was one. The context keeps its variables. */
  async interrupt (options: OperationOptions = {}): Promise<boolean> {
    return (await this.all.interrupt({ context: this.name }, options)).interrupted
  }

  /**
   * Runs a cell, after the earlier ones. Awaited, it is the result; iterated (with `stream`), the
   * output, displays and requests for input.
   */
  run (code: string, { input, ...params }: RunParams = {}, options: OperationOptions = {}): Asking<CellResult, CellEvent> {
    const asks = input === undefined || input === false ? {} : { input: true, stream: true }
    const tap = typeof input === 'function' ? this.answering(input, options.tap) : options.tap
    return this.all.run({ ...params, ...asks, context: this.name, code }, { ...options, tap })
  }

  private answering (answer: Answerer, tap: OperationOptions['tap']): NonNullable<OperationOptions['tap']> {
    return (event, about) => {
      tap?.(event, about)
      if (event === 'input') void this.reply(about as Question, answer)
    }
  }

  // If the callback fails there is no input: the code gets that response, and the request does not stay open.
  private async reply (question: Question, answer: Answerer): Promise<void> {
    const value = await Promise.resolve(question).then(answer).catch(() => undefined)
    // The cell may have ended meanwhile, which its own response reports.
    await this.input(question.input, value).catch(() => {})
  }

  /** Responds to a request for input; null or undefined: there is none. */
  async input (input: number, value?: string | null, options: OperationOptions = {}): Promise<void> {
    await this.all.input({ context: this.name, input, value: value ?? undefined }, options)
  }

  /** Completions of a piece of code; `at` counts code points. */
  async complete (code: string, at?: number, options: OperationOptions = {}): Promise<Answers['context.complete']> {
    return await this.all.complete({ context: this.name, code, at }, options)
  }

  /** Its variables. */
  async describe (options: OperationOptions = {}): Promise<Variable[]> {
    return (await this.all.describe({ context: this.name }, options)).variables
  }

  /** Describes the name at a place of a piece of code, without running it; `at` counts code points. With `detail: 1` its source too. */
  async inspect (code: string, params: Omit<ContextInspectParams, 'context' | 'code'> = {}, options: OperationOptions = {}): Promise<Inspection> {
    return await this.all.inspect({ context: this.name, code, ...params }, options)
  }

  /** Asks the language's own parser if code is a whole cell. */
  async isComplete (code: string, options: OperationOptions = {}): Promise<Completeness> {
    return await this.all.isComplete({ context: this.name, code }, options)
  }

  /** The code of its last cells, of all clients, newest last. */
  async history (limit?: number, options: OperationOptions = {}): Promise<HistoryEntry[]> {
    return (await this.all.history({ context: this.name, limit }, options)).entries
  }

  /** Live copies, each in a box of its own with a copy of the workspace. It must be forkable. */
  async fork (params: Omit<ContextForkParams, 'context'> = {}, options: OperationOptions = {}): Promise<ContextHandle[]> {
    const { contexts } = await this.all.fork({ context: this.name, ...params }, options)
    return contexts.map(({ context }) => new ContextHandle(context, this.ask))
  }

  /** Saves its present state, with the workspace unless `files` is false. It must be forkable. */
  async checkpoint (params: Omit<ContextCheckpointParams, 'context'> = {}, options: OperationOptions = {}): Promise<CheckpointInfo> {
    return await this.all.checkpoint({ context: this.name, ...params }, options)
  }

  /** Restores that checkpoint, or the newest; the checkpoint stays. */
  async rollback (checkpoint?: string, options: OperationOptions = {}): Promise<ContextInfo> {
    return await this.all.rollback({ context: this.name, checkpoint }, options)
  }

  /** Lists checkpoints, oldest first. */
  async checkpoints (options: OperationOptions = {}): Promise<CheckpointInfo[]> {
    return (await this.all.checkpoints({ context: this.name }, options)).checkpoints
  }

  /** Deletes a checkpoint. */
  async forget (checkpoint: string, options: OperationOptions = {}): Promise<void> {
    await this.all.forget({ context: this.name, checkpoint }, options)
  }
}

export interface CreatedContext {
  context: ContextHandle
  created: boolean
  info: ContextInfo
}

/** The contexts of a sandbox. */
export class Contexts {
  private readonly all: ContextOperations

  /** @internal */
  constructor (private readonly ask: Ask) {
    this.all = new ContextOperations(ask)
  }

  /** The context of that name; sends no request. */
  get (name: string): ContextHandle {
    return new ContextHandle(name, this.ask)
  }

  /** Creates one, or finds the one of that name; without a name one is generated. */
  async create ({ name, prefix, ...params }: NewContextParams = {}, options: OperationOptions = {}): Promise<CreatedContext> {
    const { created, ...info } = await this.all.create({ context: name, prefix: prefixName(prefix), ...params }, options)
    return { context: this.get(info.context), created, info }
  }

  async list (options: OperationOptions = {}): Promise<ContextInfo[]> {
    return (await this.all.list(options)).contexts
  }
}
