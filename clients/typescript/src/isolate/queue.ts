import { QueueFullError, StateError } from '../generated/errors.js'

interface Waiter {
  resolve: () => void
  reject: (reason: unknown) => void
}

/** Runs so many tasks at once, the others in the order they came. */
export class Queue {
  private running = 0
  private readonly waiting: Waiter[] = []

  constructor (private readonly most: number, private readonly mostWaiting: number) {}

  get depth (): number {
    return this.waiting.length
  }

  get active (): number {
    return this.running
  }

  async run<T> (work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.running >= this.most) await this.turn(signal)
    this.running++
    try {
      return await work()
    } finally {
      this.running--
      this.waiting.shift()?.resolve()
    }
  }

  // An admitted waiter counts at once: its run() goes on in a later microtask, before which others may come.
  private async turn (signal: AbortSignal | undefined): Promise<void> {
    if (this.waiting.length >= this.mostWaiting) {
      throw new QueueFullError(`${this.waiting.length} runs wait already (maxQueuedRuns is ${this.mostWaiting})`)
    }
    await new Promise<void>((resolve, reject) => {
      const waiter: Waiter = {
        resolve: () => {
          signal?.removeEventListener('abort', onAbort)
          this.running++
          resolve()
        },
        reject: (reason) => {
          signal?.removeEventListener('abort', onAbort)
          reject(reason)
        }
      }
      const onAbort = (): void => {
        this.waiting.splice(this.waiting.indexOf(waiter), 1)
        reject(signal?.reason)
      }
      signal?.addEventListener('abort', onAbort, { once: true })
      this.waiting.push(waiter)
    })
    this.running--
  }

  /** Rejects all waiting tasks. */
  close (reason: string): void {
    for (const waiter of this.waiting.splice(0)) waiter.reject(new StateError(reason))
  }
}
