// Contexts of a sandbox as objects: interpreters that stay, each by its name.
import {
  type Ask, type ContextCheckpointParams, type ContextCreateParams, type ContextForkParams, ContextOperations, type ContextRunParams
} from '../generated/sandbox.js'
import type { Asking, OperationOptions } from '../internal/asking.js'
import type { Answers, CellEvent, CellResult, CheckpointInfo, ContextInfo, Question, Variable } from './answers.js'

/** Answers what a cell asks for; null or undefined: there is no input. */
export type Answerer = (question: Question) => string | null | undefined | Promise<string | null | undefined>

export interface RunParams extends Omit<ContextRunParams, 'context' | 'language' | 'code' | 'input'> {
  /** The code may ask for input, which this answers; true: the caller answers the events `input` himself. */
  input?: boolean | Answerer | undefined
}

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

  /** Ends it; its cells under way fail. */
  async delete (options: OperationOptions = {}): Promise<void> {
    await this.all.delete({ context: this.name }, options)
  }

  /** Its interpreter anew, as it was made. */
  async restart (options: OperationOptions = {}): Promise<ContextInfo> {
    return await this.all.restart({ context: this.name }, options)
  }

  /** Interrupts the cell that runs: whether one did. What the context holds stays. */
  async interrupt (options: OperationOptions = {}): Promise<boolean> {
    return (await this.all.interrupt({ context: this.name }, options)).interrupted
  }

  /** Runs a cell, after those that came before. Awaited, it is the result; iterated (with `stream`), what is printed, displayed and asked. */
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

  // Who cannot answer has no input: the code is told so, and the question does not stay open.
  private async reply (question: Question, answer: Answerer): Promise<void> {
    const value = await Promise.resolve(question).then(answer).catch(() => undefined)
    // The cell may have ended meanwhile, which its own answer tells.
    await this.input(question.input, value).catch(() => {})
  }

  /** Answers a question; null or undefined: there is no input. */
  async input (input: number, value?: string | null, options: OperationOptions = {}): Promise<void> {
    await this.all.input({ context: this.name, input, value: value ?? undefined }, options)
  }

  /** How a piece of code could go on; `at` counts code points. */
  async complete (code: string, at?: number, options: OperationOptions = {}): Promise<Answers['context.complete']> {
    return await this.all.complete({ context: this.name, code, at }, options)
  }

  /** The variables it holds. */
  async describe (options: OperationOptions = {}): Promise<Variable[]> {
    return (await this.all.describe({ context: this.name }, options)).variables
  }

  /** Live copies, each in a box of its own with a copy of the workspace. It must have been made forkable. */
  async fork (params: Omit<ContextForkParams, 'context'> = {}, options: OperationOptions = {}): Promise<ContextHandle[]> {
    const { contexts } = await this.all.fork({ context: this.name, ...params }, options)
    return contexts.map(({ context }) => new ContextHandle(context, this.ask))
  }

  /** Keeps it as it is now, with the workspace unless `files` is false. It must have been made forkable. */
  async checkpoint (params: Omit<ContextCheckpointParams, 'context'> = {}, options: OperationOptions = {}): Promise<CheckpointInfo> {
    return await this.all.checkpoint({ context: this.name, ...params }, options)
  }

  /** As it was at that checkpoint, or the newest; the checkpoint stays. */
  async rollback (checkpoint?: string, options: OperationOptions = {}): Promise<ContextInfo> {
    return await this.all.rollback({ context: this.name, checkpoint }, options)
  }

  /** Oldest first. */
  async checkpoints (options: OperationOptions = {}): Promise<CheckpointInfo[]> {
    return (await this.all.checkpoints({ context: this.name }, options)).checkpoints
  }

  /** Gives up a checkpoint. */
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

  /** The context of that name, which nothing is asked of yet. */
  get (name: string): ContextHandle {
    return new ContextHandle(name, this.ask)
  }

  /** Makes one, or finds the one of that name; without a name one is made up. */
  async create (
    { name, ...params }: Omit<ContextCreateParams, 'context'> & { name?: string | undefined } = {}, options: OperationOptions = {}
  ): Promise<CreatedContext> {
    const { created, ...info } = await this.all.create({ context: name, ...params }, options)
    return { context: this.get(info.context), created, info }
  }

  async list (options: OperationOptions = {}): Promise<ContextInfo[]> {
    return (await this.all.list(options)).contexts
  }
}
