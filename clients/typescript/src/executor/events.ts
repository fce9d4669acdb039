// Listeners are called with the event as `this`: they set the result in this.result, and end the
// round with this.stopped.

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Listener<This = EventContext> = (this: This, ...args: any[]) => unknown

export interface EventContext {
  readonly target: object
  readonly type: string
  result: unknown
  stopped: boolean
}

interface Entry { listener: Listener, isOnce: boolean }

const MAX_LISTENERS = 10

export class Events {
  private readonly entries = new Map<string, Entry[]>()
  private most = MAX_LISTENERS
  private hasWarned = false

  on (eventName: string, listener: Listener): this {
    return this.add(eventName, listener, false)
  }

  addListener (eventName: string, listener: Listener): this {
    return this.on(eventName, listener)
  }

  once (eventName: string, listener: Listener): this {
    return this.add(eventName, listener, true)
  }

  private add (eventName: string, listener: Listener, isOnce: boolean): this {
    if (typeof listener !== 'function') throw new TypeError(`a listener of ${eventName} must be a function, not ${typeof listener}`)
    const list = this.entries.get(eventName) ?? []
    this.entries.set(eventName, [...list, { listener, isOnce }])
    if (this.most > 0 && list.length >= this.most && !this.hasWarned) {
      this.hasWarned = true
      const warning = `${list.length + 1} listeners of ${eventName}: is one added for each run? (setMaxListeners permits more)`
      process.emitWarning(warning, 'MaxListenersExceededWarning')
    }
    return this
  }

  off (eventName: string, listener: Listener): this {
    if (typeof listener !== 'function') throw new TypeError(`a listener of ${eventName} must be a function, not ${typeof listener}`)
    const list = this.entries.get(eventName) ?? []
    const last = list.map((entry) => entry.listener).lastIndexOf(listener)
    if (last >= 0) this.entries.set(eventName, list.filter((_, i) => i !== last))
    return this
  }

  removeListener (eventName: string, listener: Listener): this {
    return this.off(eventName, listener)
  }

  removeAllListeners (eventName?: string): this {
    if (eventName === undefined) this.entries.clear()
    else this.entries.delete(eventName)
    return this
  }

  listeners (eventName: string): Listener[] {
    return (this.entries.get(eventName) ?? []).map(({ listener }) => listener)
  }

  listenerCount (eventName: string): number {
    return this.listeners(eventName).length
  }

  setMaxListeners (n: number): this {
    if (!Number.isSafeInteger(n) || n < 0) throw new RangeError(`the most listeners must be a whole number, not ${n}`)
    this.most = n
    return this
  }

  /** The result of the listeners: the last value set in this.result, or returned. */
  emit (eventName: string, ...args: unknown[]): unknown {
    const context: EventContext = { target: this, type: eventName, result: undefined, stopped: false }
    for (const listener of this.taken(eventName)) {
      const returned = listener.apply(context, args)
      if (returned !== undefined && !(returned instanceof Promise)) context.result = returned
      if (context.stopped) break
    }
    return context.result
  }

  async emitAsync (eventName: string, ...args: unknown[]): Promise<unknown> {
    const context: EventContext = { target: this, type: eventName, result: undefined, stopped: false }
    for (const listener of this.taken(eventName)) {
      const returned = await listener.apply(context, args)
      if (returned !== undefined) context.result = returned
      if (context.stopped) break
    }
    return context.result
  }

  private taken (eventName: string): Listener[] {
    const list = this.entries.get(eventName) ?? []
    const kept = list.filter(({ isOnce }) => !isOnce)
    if (kept.length < list.length) this.entries.set(eventName, kept)
    return list.map(({ listener }) => listener)
  }
}
