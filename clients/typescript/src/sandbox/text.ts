// Text and bytes on the wire: text if the bytes are UTF-8 and few.
import type { TextOrBytes } from './answers.js'
import type { Environment } from './types.js'

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export const bytesOf = (value: TextOrBytes): Uint8Array => typeof value === 'string' ? Buffer.from(value) : value
/** Invalid UTF-8 becomes U+FFFD. */
export const textOf = (value: TextOrBytes): string =>
  typeof value === 'string' ? value : new TextDecoder('utf-8', { ignoreBOM: true }).decode(value)

/** The text, or undefined if it is none. */
export function asText (value: TextOrBytes): string | undefined {
  if (typeof value === 'string') return value
  try {
    return strict.decode(value)
  } catch {
    return undefined
  }
}

/** Joins pieces of one text, whose characters may be split. */
export class Joiner {
  private readonly parts: Uint8Array[] = []

  add (piece: TextOrBytes): void {
    this.parts.push(bytesOf(piece))
  }

  bytes (): Uint8Array {
    return Buffer.concat(this.parts)
  }
}

/** One stream's output: text as far as it is complete. */
export class StreamText {
  private readonly decoders = new Map<string, InstanceType<typeof TextDecoder>>()

  push (stream: string, data: Uint8Array): string {
    const decoder = this.decoders.get(stream) ?? new TextDecoder('utf-8', { ignoreBOM: true })
    this.decoders.set(stream, decoder)
    return decoder.decode(data, { stream: true })
  }

  /** The rest of streams that ended within a character. */
  * rest (): Generator<[stream: string, text: string]> {
    for (const [stream, decoder] of this.decoders) {
      const text = decoder.decode()
      if (text !== '') yield [stream, text]
    }
  }
}

export const now = (): string => new Date().toISOString()

/** null unsets, and so does undefined. */
export const unsetting = (env: Environment): Record<string, string | null> =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? null]))
