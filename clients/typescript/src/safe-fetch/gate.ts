/** Lets a number of tasks through at once; the others wait their turn, first come, first served. */
export class Gate {
  readonly #most: number
  readonly #waiting = new Set<() => void>()
  #inside = 0

  /** 0: all of them. */
  constructor (most: number) { this.#most = most }

  /** The place is held until the signal aborts, which ends every task: a task that hangs holds none. */
  async enter (signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#most === 0 || this.#inside < this.#most) {
      this.#inside++
      this.#leaveWith(signal)
      return
    }
    await new Promise<void>((resolve, reject) => {
      const giveUp = (): void => {
        this.#waiting.delete(goOn)
        reject(signal.reason)
      }
      const goOn = (): void => {
        signal.removeEventListener('abort', giveUp)
        this.#leaveWith(signal)
        resolve()
      }
      this.#waiting.add(goOn)
      signal.addEventListener('abort', giveUp, { once: true })
    })
  }

  #leaveWith (signal: AbortSignal): void {
    signal.addEventListener('abort', () => { this.#leave() }, { once: true })
  }

  // The place goes to the longest waiter, so the number inside stays.
  #leave (): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#inside--
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
