// One segment of a pattern, with extended globs: `@(a|b)` `?(a|b)` `*(a|b)` `+(a|b)` `!(a|b)`. As
// in the daemon (src/helpers/fs/rules/glob-group.c) a name is gone through once, from its end to its start. At
// each position the items are looked at from the last to the first: do this one and all after it
// match from here up to the name's end? Each item stores its results for one position, so that none
// is computed twice: each position sees each item once, or twice in a group that repeats.
//
// Two matches go through a sequence together, because `!` looks ahead to a match with each group
// around it done once (the tail), and a group that repeats is followed by itself as well. Each
// level of groups runs both on its choices and adds a tail of their own. The results are the bits
// of a number: bit 0 is the whole segment's; of items that are `deep` groups down, bit deep + 1 is
// the tail's, and those below it are their caller's.

interface Answers {
  next: number // at the next position; 0 at the name's end
  here: number // for a character: the result after it; for a star and `!`: that for any position from here on
}

type Item = Answers & (
  { kind: 'character', test: (char: string) => boolean } |
  { kind: 'star', isAllBehind: boolean } |
  { kind: 'group', group: string, choices: Item[][] }
)

const posix: Record<string, RegExp> = {
  '[:alnum:]': /[\p{L}\p{Nl}\p{Nd}]/u, '[:alpha:]': /[\p{L}\p{Nl}]/u, '[:ascii:]': /[\x00-\x7f]/, '[:blank:]': /[\p{Zs}\t]/u, '[:cntrl:]': /\p{Cc}/u,
  '[:digit:]': /\p{Nd}/u, '[:graph:]': /[^\p{Z}\p{C}]/u, '[:lower:]': /\p{Ll}/u, '[:print:]': /\P{C}/u, '[:punct:]': /\p{P}/u,
  '[:space:]': /[\p{Z}\t\r\n\v\f]/u, '[:upper:]': /\p{Lu}/u, '[:word:]': /[\p{L}\p{Nl}\p{Nd}\p{Pc}]/u, '[:xdigit:]': /[A-Fa-f0-9]/
}
const namedAt = (segment: string, at: number): string | undefined =>
  segment[at] === '[' ? Object.keys(posix).find((name) => segment.startsWith(name, at)) : undefined

type CharacterTest = (char: string) => boolean
const codeOf = (char: string): number => char.codePointAt(0) as number

/**
 * The class that opens at `at`, and its end. A range whose end is before its start is no member,
 * and a class without members matches nothing, negated or not; so does one with a range to a class
 * by name.
 */
function classAt (segment: string, at: number): { test: CharacterTest, end: number } | undefined {
  const isNegated = '!^'.includes(segment[at + 1] ?? ' '), start = at + (isNegated ? 2 : 1)
  const members: CharacterTest[] = []
  let i = start, isNever = false
  const take = (): string => {
    if (segment[i] === '\\' && i + 1 < segment.length) i++
    const char = String.fromCodePoint(segment.codePointAt(i) as number)
    i += char.length
    return char
  }
  while (i < segment.length) {
    if (segment[i] === ']' && i > start) {
      return { end: i, test: (char) => !isNever && members.length > 0 && members.some((holds) => holds(char)) !== isNegated }
    }
    const name = namedAt(segment, i)
    if (name !== undefined) {
      members.push((char) => (posix[name] as RegExp).test(char))
      i += name.length
      continue
    }
    const from = take(), isRange = segment[i] === '-' && i + 1 < segment.length && segment[i + 1] !== ']'
    if (isRange) i++
    if (isRange && namedAt(segment, i) !== undefined) {
      isNever = true
      continue
    }
    const to = isRange ? take() : from
    if (codeOf(from) <= codeOf(to)) members.push((char) => codeOf(from) <= codeOf(char) && codeOf(char) <= codeOf(to))
  }
  return undefined
}

/** Skips a backslash pair or a class, in which special characters are literal. */
export function skipPlain (pattern: string, at: number): number {
  if (pattern[at] === '\\' && at + 1 < pattern.length) return at + 2
  const found = pattern[at] === '[' ? classAt(pattern, at) : undefined
  return found === undefined ? at + 1 : found.end + 1
}

/** The closing parenthesis of the group that opens at `at`; -1: there is none. */
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
      items.push({ kind: 'character', test: (classAt(segment, at) as { test: CharacterTest }).test, next: 0, here: 0 })
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

/**
 * A repeat that matches here comes after the group as well. A second pass is enough: it adds to the
 * stored results of the choices for the positions before this one, not to the final one.
 */
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
  // In the tail a star after `!` must take at least one character, as in minimatch: `!(a)*` matches "a", as in bash.
  const leastOne = item.isAllBehind ? tailBit(deep) : 0
  item.here = item.next | behind
  return (item.here & ~leastOne) | (item.next & leastOne)
}

/** char: of the name; '' at its end. behind: the results of the items after these; hasTail: that of their tail. */
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
