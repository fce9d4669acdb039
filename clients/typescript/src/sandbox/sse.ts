// Server-sent events, both ways: events to lines of a byte stream, and back.

const encoder = new TextEncoder()
const line = (event: unknown): Uint8Array => encoder.encode(`data: ${JSON.stringify(event)}\n\n`)

/** A stream that takes an event from its source on demand. stop: ends the source, which may be waiting. */
export function sseStream (events: AsyncIterator<unknown>, stop: (reason?: unknown) => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull (controller) {
      const { done, value } = await events.next()
      if (done === true) controller.close()
      else controller.enqueue(line(value))
    },
    cancel (reason) {
      stop(reason)
    }
  }, { highWaterMark: 0 })
}

/** Collects the fields of events, however their text is split. */
class Lines {
  private rest = ''
  private data: string[] = []

  push (text: string): string[] {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/)
    this.rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.take(line))
  }

  /** The end of the stream ends an event too: not every server sends its last blank line. */
  end (): string[] {
    return [...this.take(this.rest), ...this.take('')]
  }

  private take (line: string): string[] {
    if (line === '') return this.data.length === 0 ? [] : [this.data.splice(0).join('\n')]
    if (line.startsWith('data:')) this.data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
    return []
  }
}

function parse (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (thrown) {
    throw new SyntaxError(`an event is not JSON: ${(thrown as Error).message}: ${text.slice(0, 100)}`, { cause: thrown })
  }
}

/** The events of a stream of server-sent events, each parsed as JSON. Leaving the loop, and the signal, cancel the stream. */
export async function * parseSSEStream<T> (stream: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
  signal?.throwIfAborted()
  const reader = stream.getReader()
  const onAbort = (): void => { reader.cancel(signal?.reason).catch(() => {}) }
  signal?.addEventListener('abort', onAbort, { once: true })
  const decoder = new TextDecoder()
  const lines = new Lines()
  let isDone = false
  try {
    while (!isDone) {
      const { done, value } = await reader.read()
      signal?.throwIfAborted()
      isDone = done
      const texts = done ? [...lines.push(decoder.decode()), ...lines.end()] : lines.push(decoder.decode(value, { stream: true }))
      for (const text of texts) if (text !== '[DONE]') yield parse(text) as T
    }
  } finally {
    signal?.removeEventListener('abort', onAbort)
    if (!isDone) reader.cancel().catch(() => {})
    reader.releaseLock()
  }
}

/** The events of a response's body. */
export async function * responseToAsyncIterable<T> (response: Response, signal?: AbortSignal): AsyncGenerator<T, void, undefined> {
  if (!response.ok) throw new Error(`the response has the status ${response.status} ${response.statusText}`)
  if (response.body === null) throw new Error('the response has no body')
  yield* parseSSEStream<T>(response.body, signal)
}

/** A stream of server-sent events, from any iterable. */
export function asyncIterableToSSEStream<T> (
  events: AsyncIterable<T>, { signal, serialize = JSON.stringify }: { signal?: AbortSignal, serialize?: (event: T) => string } = {}
): ReadableStream<Uint8Array> {
  const source = events[Symbol.asyncIterator]()
  let onAbort = (): void => {}
  return new ReadableStream<Uint8Array>({
    start (controller) {
      onAbort = () => {
        controller.error(signal?.reason)
        source.return?.().catch(() => {})
      }
      if (signal?.aborted) onAbort()
      else signal?.addEventListener('abort', onAbort, { once: true })
    },
    async pull (controller) {
      const { done, value } = await source.next()
      if (signal?.aborted) return
      if (done === true) {
        signal?.removeEventListener('abort', onAbort)
        controller.close()
      } else controller.enqueue(encoder.encode(`data: ${serialize(value)}\n\n`))
    },
    cancel () {
      signal?.removeEventListener('abort', onAbort)
      source.return?.().catch(() => {})
    }
  }, { highWaterMark: 0 })
}
