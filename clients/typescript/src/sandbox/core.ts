// Shared by all methods of the façade: the sandbox, created with its options on first use, and the public errors.
import type { Cloche } from '../client.js'
import { NotFoundError } from '../generated/errors.js'
import type { SandboxCreateParams, SandboxUpdateParams } from '../generated/sandbox.js'
import type { OperationOptions } from '../internal/asking.js'
import type { SandboxInfo } from './answers.js'
import type { Place } from './namespace.js'
import type { SandboxHandle } from './native.js'
import { translate } from './translate.js'
import type { CodeContext } from './types.js'

/** One sandbox, shared by its sessions. */
export class Box {
  private client: Cloche | undefined
  private making: Promise<unknown> | undefined
  /** Contexts of the code interpreter, as far as they are known here. */
  readonly contexts = new Map<string, CodeContext>()

  /** wanted: the options given when it was named; they are applied to an existing sandbox too. */
  constructor (readonly place: Place, readonly name: string, private wanted: SandboxCreateParams) {}

  /** Does not create it. */
  async handle (): Promise<SandboxHandle> {
    return (await this.place.connect()).sandbox(this.name)
  }

  async ready (): Promise<SandboxHandle> {
    const client = await this.place.connect()
    if (this.client !== client) {
      this.client = client
      this.making = undefined
    }
    const making = this.making ??= this.make(client)
    try {
      await making
    } catch (thrown) {
      if (this.making === making) this.making = undefined
      throw thrown
    }
    return client.sandbox(this.name)
  }

  private async make (client: Cloche): Promise<void> {
    if (Object.keys(this.wanted).length === 0) return
    const handle = client.sandbox(this.name)
    const {
      image: _image, imageSettings: _settings, writableRoot: _writableRoot, root: _root, mount: _mount, volumes: _volumes, packages: _packages, snapshot: _snapshot, startup: _startup, ...changeable
    } = this.wanted
    const hasChanges = Object.keys(changeable).length > 0
    try {
      await (hasChanges ? handle.update(changeable) : handle.get()) // unlike create, they leave a stopped sandbox stopped
    } catch (thrown) {
      if (!(thrown instanceof NotFoundError)) throw thrown
      const { created } = await handle.create(this.wanted)
      if (!created && hasChanges) await handle.update(changeable)
    }
  }

  /** Does not start it; it is created if it does not exist. */
  async info (options: OperationOptions): Promise<SandboxInfo> {
    const handle = await this.ready()
    try {
      return await handle.get(options)
    } catch (thrown) {
      if (!(thrown instanceof NotFoundError)) throw thrown
      return await handle.create(this.wanted, options)
    }
  }

  /** Applies to this sandbox, and to its successor if it is created again. */
  async update ({ addNetwork, ...change }: SandboxUpdateParams): Promise<void> {
    const handle = await this.ready()
    const { network: { headers: _hidden, ...rules } } = await handle.update({ ...change, addNetwork }) // their values are not shown
    const headers = this.wanted.network?.headers
    const network = { ...rules, ...headers === undefined ? {} : { headers } }
    this.wanted = { ...this.wanted, ...change, ...addNetwork === undefined ? {} : { network } }
  }

  /** It was deleted: the next use creates a new one. */
  forget (): void {
    this.making = undefined
    this.contexts.clear()
  }
}

/** Sends one request to the sandbox; context goes into its error. */
export type Asker = <R>(operation: string, context: object, act: (box: SandboxHandle) => Promise<R>) => Promise<R>

export const asker = (box: Box): Asker => async (operation, context, act) => {
  try {
    return await act(await box.ready())
  } catch (thrown) {
    throw translate(operation, thrown, context)
  }
}
