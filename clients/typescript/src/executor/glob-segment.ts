// One segment of a pattern, with extended globs: `@(a|b)` `?(a|b)` `*(a|b)` `+(a|b)` `!(a|b)`. As in the daemon (src/fs/glob-group.c) its items are matched from the last to
// the first, each as the set of positions in the name from which it, and all behind it, match up to the end: the time is bounded for every pattern and name.

type Positions = Uint8Array // 1: in the set; one for each character of the name and its end

type Item =
  { kind: 'character', test: (char: string) => boolean } |
  { kind: 'star', isAllBehind: boolean } |
  { kind: 'group', group: string, choices: Item[][] }

const posix: Record<string, string> = {
  alpha: '\\p{L}', digit: '\\p{Nd}', alnum: '\\p{L}\\p{Nd}', upper: '\\p{Lu}', lower: '\\p{Ll}', 
  space: '\\p{Z}\\t\\r\\n\\v\\f', punct: '\\p{P}', xdigit: 'A-Fa-f0-9', word: '\\p{L}\\p{Nd}\\p{Pc}',
  blank: '\\p{Zs}\\t', cntrl: '\\p{Cc}', graph: '\\x21-\\x7e', print: '\\x20-\\x7e', ascii: '\\x00-\\x7f'
}
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

/** Past a backslash pair or a class, in which special characters are themselves. */
export function skipPlain (pattern: string, at: number): number {
  if (pattern[at] === '\\' && at + 1 < pattern.length) return at + 2
  const found = pattern[at] === '[' ? classAt(pattern, at) : undefined
  return found === undefined ? at + 1 : found.end + 1
}

/** A group opens at `at`: where its parenthesis closes; -1: none does. */
export function groupEnd (pattern: string, at: number): number {
  if (!'@?*+!'.includes(pattern[at] ?? ' ') || pattern[at + 1] !== '(') return -1
  for (let i = at + 1, depth = 0; i < pattern.length; i = skipPlain(pattern, i)) {
    depth += Number(pattern[i] === '(') - Number(pattern[i] === ')')
    if (depth === 0) return i
  }
  return -1
}

/** What stands between the bars of a group, whose inside this is. */
export function choicesOf (inside: string): string[] {
  const found: string[] = []
  let start = 0
  for (let i = 0, depth = 0; i < inside.length; i = skipPlain(inside, i)) {
    depth += Number(inside[i] === '(') - Number(inside[i] === ')')
    if (depth === 0 && inside[i] === '|') {
      found.push(inside.slice(start, i))
      start = i + 1
    }
  }
  return [...found, inside.slice(start)]
}

function read (segment: string): Item[] {
  const items: Item[] = []
  for (let at = 0; at < segment.length;) {
    const end = groupEnd(segment, at), last = items.at(-1)
    const next = end > 0 ? end + 1 : skipPlain(segment, at)
    if (end > 0) items.push({ kind: 'group', group: segment[at] as string, choices: choicesOf(segment.slice(at + 2, end)).map(read) })
    else if (segment[at] === '*') items.push({ kind: 'star', isAllBehind: at === segment.length - 1 && last?.kind === 'group' && last.group === '!' })
    else if (segment[at] === '?') items.push({ kind: 'character', test: () => true })
    else if (segment[at] === '[' && next > at + 1) {
      const expression = new RegExp(`^${(classAt(segment, at) as { source: string }).source}$`, 'u')
      items.push({ kind: 'character', test: (char) => expression.test(char) })
    } else {
      const wanted = String.fromCodePoint(segment.codePointAt(segment[at] === '\\' && next === at + 2 ? at + 1 : at) as number)
      items.push({ kind: 'character', test: (char) => char === wanted })
      at = (next === at + 2 ? at + 1 : at) + wanted.length
      continue
    }
    at = next
  }
  return items
}

/** All positions at or before the last one of the set, or only before it. */
function upTo (set: Positions, onlyBefore: boolean): Positions {
  return new Uint8Array(set.length).fill(1, 0, Math.max(0, set.lastIndexOf(1) + (onlyBefore ? 0 : 1)))
}

function union (sets: Positions[], size: number): Positions {
  const found = new Uint8Array(size)
  for (const set of sets) for (let i = 0; i < size; i++) found[i] = (found[i] as number) | (set[i] as number)
  return found
}

const without = (set: Positions, other: Positions): Positions => set.map((one, i) => one & ~(other[i] as number))

const beforeChoices = (choices: Item[][], name: string[], behind: Positions, tail: Positions): Positions =>
  union(choices.map((choice) => beforeSequence(choice, name, behind, tail)), behind.length)

/** Again from what was new each time: no position is looked at twice. */
function beforeRepeats (choices: Item[][], name: string[], behind: Positions, tail: Positions): Positions {
  let found: Positions = new Uint8Array(behind.length)
  for (let fresh = behind; fresh.includes(1);) {
    fresh = without(beforeChoices(choices, name, fresh, tail), found)
    found = union([found, fresh], behind.length)
  }
  return found
}

function beforeGroup (group: string, choices: Item[][], name: string[], behind: Positions, tail: Positions): Positions {
  if (group === '!') return without(upTo(behind, false), beforeChoices(choices, name, tail, tail))
  const found = '*+'.includes(group) ? beforeRepeats(choices, name, behind, tail) : beforeChoices(choices, name, behind, tail)
  return '*?'.includes(group) ? union([found, behind], behind.length) : found
}

/** isTail: for what `!` looks ahead to, where minimatch has a lone star take at least one character: `!(a)*` matches "a", as in bash. */
function beforeItem (item: Item, name: string[], behind: Positions, tail: Positions, isTail: boolean): Positions {
  if (item.kind === 'star') return upTo(behind, isTail && item.isAllBehind)
  if (item.kind === 'group') return beforeGroup(item.group, item.choices, name, behind, tail)
  return behind.map((_, i) => Number(behind[i + 1] === 1 && item.test(name[i] as string)))
}

/** behind: where what follows matches; tail: the same with each group around it done once, which is what `!` looks ahead to. */
function beforeSequence (items: Item[], name: string[], behind: Positions, tail: Positions): Positions {
  let found = behind, rest = tail
  let isSame = behind === tail
  for (const item of [...items].reverse()) {
    const before = beforeItem(item, name, found, rest, false)
    isSame &&= !(item.kind === 'star' && item.isAllBehind)
    rest = isSame ? before : beforeItem(item, name, rest, rest, true)
    found = before
  }
  return found
}

export function segmentTest (segment: string): (name: string) => boolean {
  const items = read(segment)
  return (name) => {
    const characters = Array.from(name), end = new Uint8Array(characters.length + 1)
    end[characters.length] = 1
    return beforeSequence(items, characters, end, end)[0] === 1
  }
}
