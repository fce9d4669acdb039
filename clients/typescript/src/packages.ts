// Packages that are kept for new sandboxes: operations packages.* of spec/daemon.def.
import type { Layer, Layers } from './generated/answers.js'
import type { AskOptions } from './client.js'

type Plain = <T>(method: string, params: object, options: AskOptions) => Promise<T>

/** The packages that sandboxes of this caller begin with, installed once (`packages` of `sandboxes.create`). */
export class Packages {
  /** @internal */
  constructor (private readonly plain: Plain) {}

  /** The oldest first. */
  async list (options: AskOptions = {}): Promise<Layer[]> {
    return (await this.plain<Layers>('packages.list', {}, options)).layers
  }

  /** Removes them. Sandboxes that began with them have them still. */
  async delete (layer: string, options: AskOptions = {}): Promise<void> {
    await this.plain('packages.delete', { layer }, options)
  }
}
