// Globs of a mount's rules: `*` `?` `[abc]` `[!abc]` within a segment, `**` any number of segments,
// `{a,b}` and `{1..9}` alternatives, `@(a|b)` `?(a|b)` `*(a|b)` `+(a|b)` `!(a|b)` within a segment,
// `\c` the character itself; a `!` at the start: paths that the rest does not match. Dot files are
// like others. tests/vectors/globs.json has examples.

import { choicesOf, groupEnd, segmentTest, skipPlain } from './glob-segment.js'

const ALTERNATIVES_MAX = 256
const GROUPS_DEEP_MAX = 16
const LITERAL_OPENERS_MAX = 16
const PATTERN_BYTES_MAX = 4096

/** The end and the commas of the brace that opens at `at`; undefined if it does not close. */
function braceAt (pattern: string, at: number): { end: number, commas: number[] } | undefined {
  const commas: number[] = []
  let depth = 0
  for (let i = at; i < pattern.length; i++) {
    if (pattern[i] === '\\') i++
    else if (pattern[i] === '{') depth++
    else if (pattern[i] === ',' && depth === 1) commas.push(i)
    else if (pattern[i] === '}' && --depth === 0) return { end: i, commas }
  }
  return undefined
}

const tooMany = (pattern: string): RangeError => new RangeError(`the pattern ${JSON.stringify(pattern)} has more than ${ALTERNATIVES_MAX} alternatives`)

function rangeOf (text: string): string[] | undefined {
  const ends = /^(-?\d{1,15})\.\.(-?\d{1,15})$/.exec(text)?.slice(1)
  if (ends === undefined) return undefined
  const [from, to] = ends.map(Number) as [number, number]
  const step = from <= to ? 1 : -1
  if (Math.abs(to - from) >= ALTERNATIVES_MAX) throw tooMany(`{${text}}`)
  const width = ends.some((end) => /^-?0\d/.test(end)) ? Math.max(...ends.map((end) => end.length)) : 0
  const written = (value: number): string => value < 0 ? `-${String(-value).padStart(width - 1, '0')}` : String(value).padStart(width, '0')
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, i) => written(from + i * step))
}

function choices (pattern: string, at: number, { end, commas }: { end: number, commas: number[] }): string[] | undefined {
  if (commas.length === 0) return rangeOf(pattern.slice(at + 1, end))
  const starts = [at, ...commas]
  return starts.map((start, i) => pattern.slice(start + 1, commas[i] ?? end))
}

function expand (pattern: string, from = 0): string[] {
  for (let at = from; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++
    else if (pattern[at] === '{') {
      const brace = braceAt(pattern, at)
      const alternatives = brace && choices(pattern, at, brace)
      if (brace === undefined || alternatives === undefined) continue
      const expanded = alternatives.flatMap((one) => expand(pattern.slice(0, at) + one + pattern.slice(brace.end + 1), at))
      if (expanded.length > ALTERNATIVES_MAX) throw tooMany(pattern)
      return expanded
    }
  }
  return [pattern]
}

type Segment = '**' | ((name: string) => boolean)

/** Backtracking to the last `**` is enough: an earlier one could give up nothing that this one cannot. */
function matches (segments: Segment[], names: string[]): boolean {
  const last = segments.at(-1) === '**' ? [...segments, () => true] : segments
  let at = 0, from = 0, star = -1, resume = 0
  while (from < names.length) {
    const segment = last[at]
    if (segment === '**') {
      star = ++at
      resume = from
    } else if (segment !== undefined && segment(names[from] as string)) {
      at++
      from++
    } else if (star >= 0) {
      at = star
      from = ++resume
    } else return false
  }
  while (last[at] === '**') at++
  return at === last.length
}

/**
 * Empty and `.` segments are dropped: `/a`, `./a` and `a//b` are paths below the mount as well.
 * `a/**` with a slash after it means everything below a.
 */
function segmentsOf (pattern: string): Segment[] {
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw new TypeError(`the pattern ${JSON.stringify(pattern)} leaves the mount`)
  return parts.map((part): Segment => part === '**' ? '**' : segmentTest(part))
}

function bangsOf (pattern: string): number {
  let count = 0
  while (pattern[count] === '!' && groupEnd(pattern, count) < 0) count++
  return count
}

const refuse = (pattern: string, what: string): never => { throw new TypeError(`the pattern ${JSON.stringify(pattern)} has ${what}`) }

const opensNoClass = (pattern: string, at: number): boolean => pattern[at] === '[' && skipPlain(pattern, at) === at + 1

function opensNoBrace (pattern: string, at: number): boolean {
  if (pattern[at] !== '{') return false
  const brace = braceAt(pattern, at)
  return brace === undefined || choices(pattern, at, brace) === undefined
}

const opensNoGroup = (pattern: string, at: number): boolean =>
  '@?*+!'.includes(pattern[at] as string) && pattern[at + 1] === '(' && groupEnd(pattern, at) < 0

/** Braces come before classes, as in minimatch: `[{a,b}]` is `[a]` or `[b]`. */
const skipEscaped = (pattern: string, at: number): number => at + (pattern[at] === '\\' && at + 1 < pattern.length ? 2 : 1)

/** Each of them costs a search to the pattern's end. */
function checkLiteralOpeners (pattern: string, isOne: (pattern: string, at: number) => boolean, skip = skipPlain): void {
  for (let at = 0, count = 0; at < pattern.length; at = skip(pattern, at)) {
    if (isOne(pattern, at) && ++count > LITERAL_OPENERS_MAX) {
      refuse(pattern, `more than ${LITERAL_OPENERS_MAX} of '[', '{' and groups that open nothing: write a backslash before them`)
    }
  }
}

/** Returns the part of a pattern that would take long or has no meaning; `part` is `deep` groups down. */
function checkGroups (part: string, pattern: string, deep = 0, repeats = false): void {
  for (let at = 0; at < part.length;) {
    const end = groupEnd(part, at), kind = part[at] as string
    if (end > 0) {
      const inside = part.slice(at + 2, end), doesRepeat = '*+'.includes(kind)
      if (deep === GROUPS_DEEP_MAX) refuse(pattern, `groups ${deep + 1} deep, at most ${GROUPS_DEEP_MAX} are taken`)
      if (repeats && doesRepeat) refuse(pattern, 'a group that repeats within one that repeats')
      if (!'@?'.includes(kind) && inside.includes('/')) refuse(pattern, `a '/' within ${kind}(…), which is about one name`)
      checkGroups(inside, pattern, deep + 1, repeats || doesRepeat)
    }
    at = end > 0 ? end + 1 : skipPlain(part, at)
  }
}

/**
 * Braces and commas that form no alternatives are literal; in the braces that are written around
 * them a backslash keeps them so.
 */
const escaped = (choice: string): string => choice.replace(/\\[^]|[{},]/g, (found) => found.length > 1 ? found : `\\${found}`)

/**
 * Rewrites a group with a `/`: `@(a/b|c)` as `{a/b,c}`, `?(a/b|c)` as `{,a/b,c}`; a single choice
 * without braces, because braces around one are no alternatives.
 */
function withoutGroups (pattern: string): string {
  for (let at = 0; at < pattern.length;) {
    const end = groupEnd(pattern, at)
    if (end > 0 && pattern.slice(at, end).includes('/')) {
      const inside = [...pattern[at] === '?' ? [''] : [], ...choicesOf(pattern.slice(at + 2, end))]
      const written = inside.length > 1 ? `{${inside.map(escaped).join(',')}}` : inside[0] as string
      return withoutGroups(pattern.slice(0, at) + written + pattern.slice(end + 1))
    }
    at = end > 0 ? end + 1 : skipPlain(pattern, at)
  }
  return pattern
}

/**
 * All alternatives of a pattern without negation: first its braces, then its groups with a `/`,
 * which become braces.
 */
function writtenOut (rest: string, pattern: string): string[] {
  const found: string[] = []
  for (const one of expand(rest)) {
    checkGroups(one, pattern) // missing in the whole: `{+,x}(a)`
    found.push(...expand(withoutGroups(one)))
    if (found.length > ALTERNATIVES_MAX) throw tooMany(pattern)
  }
  return found
}

export function globTest (pattern: string): (path: string) => boolean {
  if (typeof pattern !== 'string' || pattern === '') throw new TypeError('a pattern must be a string that is not empty')
  const bangs = bangsOf(pattern), rest = pattern.slice(bangs)
  if (rest === '' || new TextEncoder().encode(rest).length > PATTERN_BYTES_MAX) throw new TypeError(`a pattern must have 1 to ${PATTERN_BYTES_MAX} bytes`)
  checkLiteralOpeners(rest, opensNoClass)
  checkLiteralOpeners(rest, opensNoBrace, skipEscaped)
  checkLiteralOpeners(rest, opensNoGroup)
  checkGroups(rest, pattern)
  const alternatives = writtenOut(rest, pattern).map((alternative) => {
    for (const part of alternative.split('/')) checkGroups(part, pattern) // missing in the whole: `[/+(a)]`
    return segmentsOf(alternative)
  })
  return (path) => {
    const names = path === '' ? [] : path.split('/')
    return alternatives.some((segments) => matches(segments, names)) === (bangs % 2 === 0)
  }
}
