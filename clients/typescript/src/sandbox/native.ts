// Sandboxes with the operations of spec/sandbox.md one to one: events as iterables, bytes as Uint8Array.
import {
  type Ask, ArchiveOperations, ContextOperations, FileOperations, GitOperations, NetworkOperations, OutputOperations, PortOperations, ProcessOperations,
  type SandboxCreateParams, type SandboxListParams, SandboxOperations, SessionOperations
} from '../generated/sandbox.js'
import type { OperationOptions } from '../internal/asking.js'
import type { Answers, SandboxInfo } from './answers.js'
import { Contexts } from './native-context.js'

/** One sandbox, by its name. It is created, or restarted, on its first request. */
export class SandboxHandle extends SandboxOperations {
  readonly session: SessionOperations
  readonly output: OutputOperations
  readonly process: ProcessOperations
  readonly file: FileOperations
  readonly archive: ArchiveOperations
  readonly git: GitOperations
  readonly context: ContextOperations
  /** The same as objects. */
  readonly contexts: Contexts
  readonly port: PortOperations
  readonly network: NetworkOperations

  /** @internal */
  constructor (readonly name: string, ask: Ask) {
    const own: Ask = (method, params, options) => ask(method, { sandbox: name, ...params }, options)
    super(own)
    this.session = new SessionOperations(own)
    this.output = new OutputOperations(own)
    this.process = new ProcessOperations(own)
    this.file = new FileOperations(own)
    this.archive = new ArchiveOperations(own)
    this.git = new GitOperations(own)
    this.context = new ContextOperations(own)
    this.contexts = new Contexts(own)
    this.port = new PortOperations(own)
    this.network = new NetworkOperations(own)
  }
}

export interface Created {
  sandbox: SandboxHandle
  created: boolean
  info: SandboxInfo
}

/** The sandboxes of this caller. */
export class Sandboxes {
  /** @internal */
  constructor (private readonly ask: Ask) {}

  /** The sandbox of that name; sends no request. */
  get (name: string): SandboxHandle {
    return new SandboxHandle(name, this.ask)
  }

  /** Creates one, or finds the one of that name; without a name one is generated. */
  async create ({ name, ...params }: SandboxCreateParams & { name?: string | undefined } = {}, options: OperationOptions = {}): Promise<Created> {
    const { created, ...info } = await this.ask('sandbox.create', { sandbox: name, ...params }, options)
    return { sandbox: this.get(info.sandbox), created, info }
  }

  async list (options: OperationOptions & SandboxListParams = {}): Promise<Answers['sandbox.list']['sandboxes']> {
    return (await this.page(options)).sandboxes
  }

  /** As list; with a limit, `next` is the value of `after` for the next page, and is absent on the last one. */
  async page ({ signal, timeoutMs, tap, ...params }: OperationOptions & SandboxListParams = {}): Promise<Answers['sandbox.list']> {
    return await this.ask('sandbox.list', params, { signal, timeoutMs, tap })
  }
}
