// Globs of a mount's rules: `*` `?` `[abc]` `[!abc]` within a segment, `**` any number of segments, `{a,b}` and `{1..9}`
// alternatives, `@(a|b)` and `?(a|b)` likewise, `\c` the character itself; a `!` at the start: what the rest does not match. Dot files are
// like others. tests/vectors/globs.json says what is meant.

const ALTERNATIVES_MAX = 256

/** The end and the commas of the brace that opens at `at`; undefined when it does not close. */
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

function rangeOf (text: string): string[] | undefined {
  const ends = /^(-?\d{1,4})\.\.(-?\d{1,4})$/.exec(text)
  if (ends === null) return undefined
  const [from, to] = [Number(ends[1]), Number(ends[2])]
  const step = from <= to ? 1 : -1
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, i) => String(from + i * step))
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
      if (expanded.length > ALTERNATIVES_MAX) {
        throw new RangeError(`the pattern ${JSON.stringify(pattern)} has more than ${ALTERNATIVES_MAX} alternatives`)
      }
      return expanded
    }
  }
  return [pattern]
}

const posix: Record<string, string> = {
  alpha: '\\p{L}', digit: '\\p{Nd}', alnum: '\\p{L}\\p{Nd}', upper: '\\p{Lu}', lower: '\\p{Ll}', 
  space: '\\p{Z}\\t\\r\\n\\v\\f', punct: '\\p{P}', xdigit: 'A-Fa-f0-9', word: '\\p{L}\\p{Nd}\\p{Pc}',
  blank: '\\p{Zs}\\t', cntrl: '\\p{Cc}', graph: '\\x21-\\x7e', print: '\\x20-\\x7e', ascii: '\\x00-\\x7f'
}
const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
/** In a class a hyphen that is itself has a backslash; elsewhere it must not have one. */
const escapedInClass = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')

/** The class that opens at `at`, as a regular expression has it, and where it ends. */
function classAt (segment: string, at: number): { source: string, end: number } | undefined {
  const start = /^[!^]/.test(segment.slice(at + 1)) ? at + 2 : at + 1
  let source = ''
  for (let i = start; i < segment.length; i++) {
    const char = segment[i] as string
    const named = /^\[:(\w+):\]/.exec(segment.slice(i))
    if (char === ']' && i > start) return { source: `[${start === at + 2 ? '^' : ''}${source}]`, end: i }
    if (named !== null && named[1] !== undefined && posix[named[1]] !== undefined) {
      source += posix[named[1]]
      i += named[0].length - 1
    } else if (char === '\\' && i + 1 < segment.length) source += escapedInClass(segment[++i] as string)
    else source += char === '-' && source !== '' && segment[i + 1] !== ']' ? '-' : escapedInClass(char)
  }
  return undefined
}

function segmentTest (segment: string): (name: string) => boolean {
  let source = ''
  for (let i = 0; i < segment.length; i++) {
    const char = segment[i] as string
    const found = char === '[' ? classAt(segment, i) : undefined
    if (found !== undefined) {
      source += found.source
      i = found.end
    } else if (char === '*') {
      if (segment[i - 1] !== '*') source += '[^]*'
    } else if (char === '?') source += '[^]'
    else source += escaped(char === '\\' && i + 1 < segment.length ? segment[++i] as string : char)
  }
  const pattern = new RegExp(`^${source}$`, 'u')
  return (name) => pattern.test(name)
}

type Segment = '**' | ((name: string) => boolean)

function matches (segments: Segment[], names: string[], at = 0, from = 0): boolean {
  for (let i = at; i < segments.length; i++) {
    const segment = segments[i] as Segment
    if (segment === '**') {
      if (i === segments.length - 1) return from < names.length
      for (let next = from; next <= names.length; next++) if (matches(segments, names, i + 1, next)) return true
      return false
    }
    const name = names[from++]
    if (name === undefined || !segment(name)) return false
  }
  return from === names.length
}

/** Segments without meaning go: `/a`, `./a` and `a//b` are paths below the mount as well. `a/**` with a slash behind it is what is below a. */
function segmentsOf (pattern: string): Segment[] {
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.includes('..')) throw new TypeError(`the pattern ${JSON.stringify(pattern)} leaves the mount`)
  return parts.map((part): Segment => part === '**' ? '**' : segmentTest(part))
}

/** The parenthesis that closes the one at `at`, -1 without one. */
function groupEnd (pattern: string, at: number): number {
  for (let i = at, depth = 0; i < pattern.length; i++) {
    if (pattern[i] === '\\') i++
    else if (pattern[i] === '(') depth++
    else if (pattern[i] === ')' && --depth === 0) return i
  }
  return -1
}

const isGroup = (pattern: string, at: number): boolean => pattern[at + 1] === '(' && groupEnd(pattern, at + 1) > 0

function bangsOf (pattern: string): number {
  let count = 0
  while (pattern[count] === '!' && !isGroup(pattern, count)) count++
  return count
}

function choicesOf (group: string): string[] {
  const found = ['']
  for (let i = 0, depth = 0; i < group.length; i++) {
    const piece = group[i] === '\\' ? group.slice(i, ++i + 1) : group[i] as string
    depth += Number(piece === '(') - Number(piece === ')')
    if (piece === '|' && depth === 0) found.push('')
    else found.push(`${found.pop()}${piece}`)
  }
  return found
}

/** `@(a|b)` as `{a,b}`, `?(a|b)` as `{,a,b}`; of one choice as it is, for braces around one are no alternatives. */
function withoutGroups (pattern: string): string {
  for (let at = 0; at < pattern.length; at++) {
    if (pattern[at] === '\\') at++
    else if ('@?*+!'.includes(pattern[at] as string) && isGroup(pattern, at)) {
      if ('*+!'.includes(pattern[at] as string)) {
        throw new TypeError(`the pattern ${JSON.stringify(pattern)} has an extended glob that repeats or excludes, which is not taken`)
      }
      const end = groupEnd(pattern, at + 1)
      const inside = [...pattern[at] === '?' ? [''] : [], ...choicesOf(pattern.slice(at + 2, end))]
      const written = inside.length > 1 ? `{${inside.join(',')}}` : inside[0] as string
      return withoutGroups(pattern.slice(0, at) + written + pattern.slice(end + 1))
    }
  }
  return pattern
}

export function globTest (pattern: string): (path: string) => boolean {
  if (typeof pattern !== 'string' || pattern === '') throw new TypeError('a pattern must be a string that is not empty')
  const bangs = bangsOf(pattern)
  const plain = withoutGroups(pattern.slice(bangs))
  const alternatives = expand(plain).map(segmentsOf)
  return (path) => {
    const names = path === '' ? [] : path.split('/')
    return alternatives.some((segments) => matches(segments, names)) === (bangs % 2 === 0)
  }
}
