// The image store of the daemon: operations image.* of spec/daemon.def.
import { createReadStream } from 'node:fs'
import type {
  Image, ImageDeleted, ImageImported, Images as ImageList, ImagesPruned, ImageUpload, ImageVerified, ImageWarmed
} from './generated/answers.js'
import type { AskOptions } from './client.js'
import { InvalidArgumentError } from './generated/errors.js'

/** An archive: the path of a file, its bytes, or the pieces of a stream. */
export type ImageSource = string | Uint8Array | AsyncIterable<Uint8Array>
export interface ImportOptions extends AskOptions {
  /** The image to take, if the archive has several. */
  tag?: string | undefined
}

export interface PruneOptions extends AskOptions {
  /** Remove named images too, those first that were not used for longest, until the trees of all have at most this size. */
  keepBytes?: number | undefined
}

/** Environment and working directory that an image states; with a name the daemon finds them itself. */
export interface ImageSettings {
  env?: Record<string, string> | undefined
  workingDirectory?: string | undefined
  /** As whom code runs: 1 to 0x6fffffff; home is a directory at the top of /home. */
  runsAs?: { uid: number, gid: number, name: string, home: string } | undefined
  /** Commands of each sandbox: it is ready when `ready` succeeds, within `readyMs`. */
  startup?: { start?: string | undefined, ready?: string | undefined, readyMs?: number | undefined } | undefined
}
export interface WarmOptions extends AskOptions {
  /** Applies with a digest in place of a name. */
  imageSettings?: ImageSettings | undefined
}

type Plain = <T>(method: string, params: object, options: AskOptions) => Promise<T>

const PIECE = 1 << 20
const LONG_MS = 600_000

/** The images that runs and sandboxes may name. The daemon's option --image-changes decides who may change them. */
export class Images {
  /** @internal */
  constructor (private readonly plain: Plain) {}

  async list (options: AskOptions = {}): Promise<Image[]> {
    return (await this.plain<ImageList>('image.list', {}, options)).images
  }

  /** One image, by its name (NAME[:TAG]), its digest or that of its tree. */
  async get (image: string, options: AskOptions = {}): Promise<Image> {
    return await this.plain('image.get', { image }, options)
  }

  /** Has the files of an image read again, and compared with its digest. */
  async verify (image: string, options: AskOptions = {}): Promise<ImageVerified> {
    return await this.plain('image.verify', { image }, { timeoutMs: LONG_MS, ...options })
  }

  /** Removes a name, and with the last one the image. One in use is refused with its users. */
  async delete (image: string, options: AskOptions = {}): Promise<ImageDeleted> {
    return await this.plain('image.delete', { image }, options)
  }

  /** Removes images without a name, and the remains of killed imports; with keepBytes named images too. Those in use stay. */
  async prune ({ keepBytes, ...options }: PruneOptions = {}): Promise<ImagesPruned> {
    return await this.plain('image.prune', keepBytes === undefined ? {} : { keepBytes }, { timeoutMs: LONG_MS, ...options })
  }

  /**
   * Starts interpreters in an image; the caller's runs in it are then forked from them. Resolves when all are ready. Each
   * ends after idleMs without use, and until then the image is in use.
   */
  async warm (image: string, languages: string | string[], { imageSettings, ...options }: WarmOptions = {}): Promise<ImageWarmed> {
    const params = { image, languages: typeof languages === 'string' ? [languages] : languages }
    return await this.plain('image.warm', imageSettings === undefined ? params : { ...params, imageSettings }, { timeoutMs: LONG_MS, ...options })
  }

  /**
   * Imports an archive under a name (NAME[:TAG]): an OCI layout in a tar file, an archive of `docker save`, or a tar file
   * of a root file system, plain or compressed. An import that fails leaves nothing.
   */
  async import (source: ImageSource, image: string, { tag, ...options }: ImportOptions = {}): Promise<ImageImported> {
    const waiting = { timeoutMs: LONG_MS, ...options }
    let place: { image: string, tag?: string | undefined } | { upload: string } = tag === undefined ? { image } : { image, tag }
    let last: Uint8Array = new Uint8Array()
    for await (const piece of piecesOf(source)) {
      if (last.length > 0) {
        const { upload }: ImageUpload = await this.plain('image.upload', { ...place, content: last }, waiting)
        place = { upload }
      }
      last = piece
    }
    return await this.plain('image.import', { ...place, content: last }, waiting)
  }
}

async function * piecesOf (source: ImageSource): AsyncGenerator<Uint8Array> {
  const stream = typeof source === 'string' ? createReadStream(source, { highWaterMark: PIECE }) : source instanceof Uint8Array ? [source] : source
  if (typeof stream !== 'object') throw new InvalidArgumentError('the source of an image must be a path, bytes or an iterable of bytes')
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    for (let at = 0; at < chunk.length; at += PIECE) yield chunk.subarray(at, at + PIECE)
  }
}
