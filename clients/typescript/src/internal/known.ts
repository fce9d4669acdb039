// Checks options by name: an unknown one is refused, because a misspelt limit or mount would silently not be in force.
import { InvalidArgumentError } from '../generated/errors.js'

/** Each option of T once; the compiler checks that none is missing. `internal` ones are not listed in messages. */
export type Names<T> = { readonly [K in keyof Required<T>]: true | 'internal' }

/** The number of insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function distance (a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, k) => i === 0 ? k : i))
  const at = (i: number, k: number): number => (rows[i] as number[])[k] as number
  for (let i = 1; i <= a.length; i++) {
    for (let k = 1; k <= b.length; k++) {
      const replaced = at(i - 1, k - 1) + (a[i - 1] === b[k - 1] ? 0 : 1)
      const swapped = i > 1 && k > 1 && a[i - 1] === b[k - 2] && a[i - 2] === b[k - 1] ? at(i - 2, k - 2) + 1 : Infinity
      ;(rows[i] as number[])[k] = Math.min(replaced, swapped, at(i - 1, k) + 1, at(i, k - 1) + 1)
    }
  }
  return at(a.length, b.length)
}

const HINT_LENGTH_MAX = 40

/**
 * The known name that was probably meant, or undefined; letters' case does not count, and a third
 * of them may be wrong.
 */
export function nearest (typed: string, names: readonly string[]): string | undefined {
  if (typed.length > HINT_LENGTH_MAX) return undefined
  const found = names.map((name) => ({ name, far: distance(typed.toLowerCase(), name.toLowerCase()) })).sort((a, b) => a.far - b.far)[0]
  return found !== undefined && found.far <= Math.floor((typed.length + 2) / 3) && found.far < found.name.length ? found.name : undefined
}

/** The problem and the way out. */
export function noOption (name: string, names: readonly string[]): string {
  const meant = nearest(name, names)
  return `there is no option ${JSON.stringify(name)}; ${meant === undefined ? `there are ${names.join(', ')}` : `did you mean ${meant}?`}`
}

/** undefined counts as absent; a value that is no object is left to its reader. */
export function checkKnown<T> (owner: string, given: unknown, known: Names<T>): void {
  if (given === null || typeof given !== 'object') return
  if (Array.isArray(given)) throw new InvalidArgumentError(`${owner}: options are an array; an object of names and values is expected`)
  const names = Object.entries(known).filter(([, kind]) => kind === true).map(([name]) => name)
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || Object.hasOwn(known, name)) continue
    throw new InvalidArgumentError(`${owner}: ${noOption(name, names)}`)
  }
}
