// One segment of a pattern, with extended globs: `@(a|b)` `?(a|b)` `*(a|b)` `+(a|b)` `!(a|b)`. As in the daemon (src/fs/glob-group.c) a name is gone through once, from its end
// to its start. At each position the items are looked at from the last to the first: do this one and all behind it match from here up to the name's end? Each item keeps
// its answers of one position, so that none is worked out twice: each position sees each item once, or twice in a group that repeats.
//
// Two questions go through a sequence together, for `!` looks ahead to what matches with each group around it done once (the tail), and a group that repeats is followed by
// itself as well. Each level of groups asks both of its choices and adds a tail of their own. The answers are the bits of a number: bit 0 is the whole segment's; of items
// that are `deep` groups down, bit deep + 1 is the tail's, and those below it are their caller's.

interface Answers {
  next: number // at the next position; 0 at the name's end
  here: number // of a character: what is behind it; of a star and `!`: that of any position from here on
}

type Item = Answers & (
  { kind: 'character', test: (char: string) => boolean } |
  { kind: 'star', isAllBehind: boolean } |
  { kind: 'group', group: string, choices: Item[][] }
)

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

/** Splits the inside of a group at its bars. */
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

/** all: each item, with those of groups, is added to it. */
function read (segment: string, all: Item[]): Item[] {
  const items: Item[] = []
  for (let at = 0; at < segment.length;) {
    const end = groupEnd(segment, at), last = items.at(-1)
    const next = end > 0 ? end + 1 : skipPlain(segment, at)
    if (end > 0) items.push({ kind: 'group', group: segment[at] as string, choices: choicesOf(segment.slice(at + 2, end)).map((choice) => read(choice, all)), next: 0, here: 0 })
    else if (segment[at] === '*') items.push({ kind: 'star', isAllBehind: at === segment.length - 1 && last?.kind === 'group' && last.group === '!', next: 0, here: 0 })
    else if (segment[at] === '?') items.push({ kind: 'character', test: () => true, next: 0, here: 0 })
    else if (segment[at] === '[' && next > at + 1) {
      const expression = new RegExp(`^${(classAt(segment, at) as { source: string }).source}$`, 'u')
      items.push({ kind: 'character', test: (char) => expression.test(char), next: 0, here: 0 })
    } else {
      const wanted = String.fromCodePoint(segment.codePointAt(segment[at] === '\\' && next === at + 2 ? at + 1 : at) as number)
      items.push({ kind: 'character', test: (char) => char === wanted, next: 0, here: 0 })
      at = (next === at + 2 ? at + 1 : at) + wanted.length
      continue
    }
    at = next
  }
  all.push(...items)
  return items
}

const tailBit = (deep: number): number => 2 << deep

function matchChoices (choices: Item[][], char: string, behind: number, hasTail: boolean, deep: number): number {
  return choices.reduce((found, choice) => found | matchItems(choice, char, behind, hasTail, deep + 1), 0)
}

/** A repeat that matches here is behind the group as well. A second time is enough: it adds to what the choices keep for the positions before this one, not to what is found. */
function matchRepeats (choices: Item[][], char: string, behind: number, hasTail: boolean, deep: number): number {
  const found = matchChoices(choices, char, behind, hasTail, deep)
  if ((found & ~behind) !== 0) matchChoices(choices, char, behind | found, hasTail, deep)
  return found
}

function matchGroup (item: Item & { kind: 'group' }, char: string, behind: number, deep: number): number {
  const { group, choices } = item, tail = behind & tailBit(deep), hasTail = tail !== 0
  if (group === '!') {
    item.here = item.next | behind
    return matchChoices(choices, char, tail, hasTail, deep) === 0 ? item.here : 0
  }
  const found = ('*+'.includes(group) ? matchRepeats : matchChoices)(choices, char, behind, hasTail, deep)
  return '*?'.includes(group) ? found | behind : found
}

function matchItem (item: Item, char: string, behind: number, deep: number): number {
  if (item.kind === 'group') return matchGroup(item, char, behind, deep)
  if (item.kind === 'character') {
    item.here = behind
    return item.next !== 0 && item.test(char) ? item.next : 0
  }
  // In the tail minimatch has a star that follows `!` take at least one character: `!(a)*` matches "a", as in bash.
  const leastOne = item.isAllBehind ? tailBit(deep) : 0
  item.here = item.next | behind
  return (item.here & ~leastOne) | (item.next & leastOne)
}

/** char: of the name; '' at its end. behind: the answers of what follows the items; hasTail: that of their tail. */
function matchItems (items: Item[], char: string, behind: number, hasTail: boolean, deep: number): number {
  const found = items.reduceRight((found, item) => matchItem(item, char, found, deep), behind | (hasTail ? tailBit(deep) : 0))
  return found & (tailBit(deep) - 1)
}

export function segmentTest (segment: string): (name: string) => boolean {
  const all: Item[] = [], items = read(segment, all)
  return (name) => {
    for (const item of all) item.next = 0
    let found = matchItems(items, '', 1, true, 0)
    for (const char of Array.from(name).reverse()) {
      for (const item of all) item.next = item.here
      found = matchItems(items, char, 0, false, 0)
    }
    return found !== 0
  }
}
