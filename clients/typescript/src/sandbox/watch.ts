import { randomBytes } from 'node:crypto'
import type { Asking } from '../internal/asking.js'
import type { Answers, FileChange, WatchEvent } from './answers.js'
import { now, textOf } from './text.js'
import { translate } from './translate.js'
import type { FileWatchEvent } from './types.js'

type Watching = Asking<Answers['file.watch'], WatchEvent>

function * changeEvents ({ type, path, from, isDirectory, timestamp }: FileChange): Generator<FileWatchEvent> {
  const event = (eventType: Extract<FileWatchEvent, { type: 'event' }>['eventType'], where: FileChange['path']): FileWatchEvent =>
    ({ type: 'event', eventType, path: textOf(where), isDirectory, timestamp })
  if (type !== 'move') return yield event(type, path)
  if (from !== undefined) yield event('move_from', from)
  yield event('move_to', path)
}

async function * all (
  path: string, events: AsyncIterator<WatchEvent>, signal: AbortSignal | undefined
): AsyncGenerator<FileWatchEvent, void, undefined> {
  yield { type: 'watching', path, watchId: `watch_${randomBytes(6).toString('hex')}` }
  try {
    for (;;) {
      const { done, value } = await events.next()
      if (done === true) return yield { type: 'stopped', reason: `nothing of ${path} is left to watch` }
      if (value.event === 'lost') yield { type: 'lost', path, timestamp: now() }
      else if (value.event === 'change') yield* changeEvents(value.about)
    }
  } catch (thrown) {
    if (signal?.aborted && thrown === signal.reason) throw thrown
    const { message, code } = translate('file.watch', thrown) as { message: string, code?: string }
    yield { type: 'error', error: message, ...typeof code === 'string' ? { code } : {} }
  }
}

/** Resolves when the watch is active; throws if the path cannot be watched. */
export async function watchEvents (
  path: string, asking: Watching, signal: AbortSignal | undefined
): Promise<AsyncGenerator<FileWatchEvent, void, undefined>> {
  const events = asking[Symbol.asyncIterator]()
  const first = await events.next()
  if (first.done !== true && first.value.event !== 'ready') throw new Error(`watch: ${first.value.event} came before ready`)
  return all(path, events, signal)
}
