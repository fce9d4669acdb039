// Maps args in all public forms to the daemon's.
import { InvalidArgumentError } from '../generated/errors.js'

/** A wrong value in a message: a text in quotes. */
export const shown = (value: unknown): string => typeof value === 'string' ? JSON.stringify(value) : String(value)

interface Indexed { index: number, value: unknown }

const isIndexed = (item: unknown): item is Indexed => {
  if (item === null || typeof item !== 'object') return false
  const { index } = item as Indexed
  return Object.keys(item).sort().join() === 'index,value' && Number.isSafeInteger(index) && index >= 0
}

interface Arguments {
  args?: unknown[]
  kwargs?: Record<string, unknown>
}

export function argumentsOf (
  args: readonly unknown[] | Record<string, unknown> | null | undefined, kwargs: Record<string, unknown> | null | undefined
): Arguments {
  const own = kwargs === undefined || kwargs === null ? {} : { kwargs }
  if (args === undefined || args === null) return own
  if (typeof args !== 'object') throw new InvalidArgumentError(`args is ${shown(args)}; an array is expected, or an object of names and values`)
  if (Array.isArray(args)) {
    return { args: args.some(isIndexed) ? args.map((item, index) => isIndexed(item) ? item : { index, value: item }) : args, ...own }
  }
  return byName(args as Record<string, unknown>, kwargs ?? undefined)
}

// Keywords, some of them with a position.
function byName (args: Record<string, unknown>, kwargs: Record<string, unknown> = {}): Arguments {
  const places = Object.values(args).filter(isIndexed)
  const named = Object.entries(args).filter(([, value]) => !isIndexed(value))
  for (const [name] of named) if (Object.hasOwn(kwargs, name)) throw new TypeError(`the argument ${name} stands in args and in kwargs`)
  return { ...places.length > 0 ? { args: places } : {}, kwargs: { ...Object.fromEntries(named), ...kwargs } }
}
