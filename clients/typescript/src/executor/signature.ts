// A function's parameters, read from the text of its code. The language's own agent binds the
// arguments of a call by the real function; this is for programs that inspect code without running
// it, and for runs that ended before the agent reported its binding.
import type { FunctionSchema, JsonSchema, ParamSchema, SupportedLanguage } from './types.js'

export interface InferredSignature {
  params: ParamSchema[]
  /** More positional arguments than parameters are accepted. */
  variadic: boolean
  /** Arguments are taken by name. */
  acceptsKwargs: boolean
  /** JavaScript: the last parameter is an object of options. */
  hasOptionsParam: boolean
  source: 'schema' | 'inferred' | 'convention'
}

type Read = Omit<InferredSignature, 'source'>
const nothing = (): Read => ({ params: [], variadic: false, acceptsKwargs: false, hasOptionsParam: false })

interface Syntax {
  /**
   * Places where a function of that name (a pattern) begins; the text after it begins with its
   * parameters, mostly in parentheses.
   */
  definitions: (name: string) => RegExp[]
  read: (parts: string[]) => Read
  convention: Read
}

// -- parameters

const OPENING = '([{'
const CLOSING = ')]}'

/** The end of the string that begins at `at`. */
function stringEnd (text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === '\\') i++
    else if (text[i] === text[at]) return i
  }
  return text.length
}

/**
 * The parameters in parentheses at the beginning of a text without comments, undefined without a
 * closing one. A comma in `<…>` separates types, not parameters.
 */
function partsOf (text: string): string[] | undefined {
  const parts = ['']
  let [depth, angles] = [0, 0]
  for (let i = 0; i < text.length; i++) {
    const char = text[i] as string
    if (`"'\``.includes(char)) {
      const end = stringEnd(text, i)
      parts.push(`${parts.pop()}${text.slice(i, end + 1)}`)
      i = end
      continue
    }
    if (CLOSING.includes(char) && --depth === 0) return parts.map((part) => part.trim()).filter((part) => part !== '')
    if (char === '<') angles++
    if (char === '>' && angles > 0 && text[i - 1] !== '=') angles--
    if (char === ',' && depth === 1 && angles === 0) parts.push('')
    else if (!(OPENING.includes(char) && depth++ === 0)) parts.push(`${parts.pop()}${char}`)
  }
  return undefined
}

const hasDefault = (part: string): boolean => /=(?!>)/.test(part)
const nameBefore = (part: string, stop: RegExp): string => (part.split(stop)[0] as string).trim()

function readPython (parts: string[]): Read {
  const found = nothing()
  for (const part of parts) {
    if (part.startsWith('**')) found.acceptsKwargs = true
    else if (part.startsWith('*')) found.variadic ||= part !== '*'
    else if (part !== '/') found.params.push({ name: nameBefore(part, /[:=]/), required: !hasDefault(part) })
  }
  return { ...found, params: found.params.filter(({ name }, i) => i > 0 || (name !== 'self' && name !== 'cls')) }
}

function readRuby (parts: string[]): Read {
  const found = nothing()
  for (const part of parts) {
    if (part.startsWith('**') || part === '...') found.acceptsKwargs = true
    if (/^\*(?!\*)/.test(part) || part === '...') found.variadic = true
    if (/^[*&.]/.test(part)) continue
    const isKeyword = /^\w+:/.test(part)
    found.params.push({ name: nameBefore(part, /[:=]/), required: isKeyword ? part.endsWith(':') : !hasDefault(part) })
  }
  return found
}

function readPhp (parts: string[]): Read {
  const found = { ...nothing(), acceptsKwargs: true }
  for (const part of parts) {
    const name = /\$(\w+)/.exec(part)?.[1]
    if (part.includes('...')) found.variadic = true
    else if (name !== undefined) found.params.push({ name, required: !hasDefault(part) })
  }
  return found
}

function readJavaScript (parts: string[]): Read {
  const found = nothing()
  parts.forEach((part, i) => {
    const isLast = i === parts.length - 1
    if (part.startsWith('...')) found.variadic = true
    else if (part.startsWith('{')) found.hasOptionsParam ||= isLast
    else {
      const name = nameBefore(part, /[?:=]/)
      found.params.push({ name, required: !hasDefault(part) && !part.startsWith(`${name}?`) })
      found.hasOptionsParam ||= isLast && (/^(options?|opts?|config)$/.test(name) || /=\s*\{/.test(part))
    }
  })
  return found
}

function readC (parts: string[]): Read {
  const own = parts.filter((part) => part !== 'void')
  const params = own.filter((part) => part !== '...').map((part, i) => {
    const name = /(\w+)\s*(\[[^\]]*\]\s*)*$/.exec(nameBefore(part, /=/))?.[1] ?? `arg${i}`
    return { name, required: !hasDefault(part) }
  })
  return { ...nothing(), params, variadic: own.includes('...') }
}

// -- languages

const HASH = /#[^\n]*/g
const SLASHES = /\/\*[^]*?\*\/|\/\/[^\n]*/g
const open = { ...nothing(), variadic: true, acceptsKwargs: true }
const python: Syntax = { definitions: (name) => [new RegExp(`^(?:async[ \\t]+)?def[ \\t]+(${name})[ \\t]*(?=\\()`, 'gmu')], read: readPython, convention: open }
const ruby: Syntax = { definitions: (name) => [new RegExp(`^[ \\t]*def[ \\t]+(?:self\\.)?(${name})(?![\\w?!])[ \\t]*`, 'gmu')], read: readRuby, convention: open }
const php: Syntax = { definitions: (name) => [new RegExp(`\\bfunction\\s+&?\\s*(${name})\\s*(?=\\()`, 'gu')], read: readPhp, convention: open }
const javascript: Syntax = {
  definitions: (name) => [
    new RegExp(`^(?:export\\s+)?(?:default\\s+)?(?:async\\s+)?function\\s*\\*?\\s*(${name})\\s*(?:<[^(]*>\\s*)?(?=\\()`, 'gmu'),
    new RegExp(`^(?:export\\s+)?(?:const|let|var)\\s+(${name})\\s*=\\s*(?:async\\s*)?(?:function\\s*\\*?\\s*\\w*\\s*)?(?:<[^(]*>\\s*)?(?=\\()`, 'gmu'),
    new RegExp(`^(?:export\\s+)?(?:const|let|var)\\s+(${name})\\s*=\\s*(?:async\\s+)?(?=[\\w$]+\\s*=>)`, 'gmu')
  ],
  read: readJavaScript,
  convention: { ...nothing(), hasOptionsParam: true }
}
const c: Syntax = { definitions: (name) => [new RegExp(`^[\\w:<>,*&\\t ]*[\\w>*&]\\s*\\b(${name})\\s*(?=\\()`, 'gmu')], read: readC, convention: nothing() }
const words: Syntax = { definitions: () => [], read: nothing, convention: { ...nothing(), variadic: true } }

const languages: Record<string, { syntax: Syntax, comment: RegExp }> = {
  python: { syntax: python, comment: HASH },
  ruby: { syntax: ruby, comment: HASH },
  php: { syntax: php, comment: SLASHES },
  ...Object.fromEntries(['javascript', 'js', 'quickjs', 'typescript', 'ts'].map((name) => [name, { syntax: javascript, comment: SLASHES }])),
  ...Object.fromEntries(['c', 'clang', 'cpp', 'clangpp', 'c++'].map((name) => [name, { syntax: c, comment: SLASHES }])),
  bash: { syntax: words, comment: HASH },
  perl: { syntax: words, comment: HASH }
}

interface Definition { name: string, behind: string }

function definitionsIn (code: string, syntax: Syntax, name: string): Definition[] {
  return syntax.definitions(name).flatMap((pattern) =>
    [...code.matchAll(pattern)].map((found) => ({ name: String(found[1]), behind: code.slice(found.index + found[0].length) })))
}

/** The definition of that name, or the only public one. */
function definitionOf (code: string, syntax: Syntax, functionName: string | undefined): Definition | undefined {
  if (functionName !== undefined) return definitionsIn(code, syntax, functionName.replace(/[^\w]/gu, '\\$&')).at(-1)
  const isPublic = ({ name }: Definition): boolean => !name.startsWith('_') && name !== 'main'
  const found = new Map(definitionsIn(code, syntax, '[\\w$]+').filter(isPublic).map((definition) => [definition.name, definition]))
  return found.size === 1 ? [...found.values()][0] : undefined
}

/** Comments become spaces; text that looks like one in a string stays. */
function withoutComments (code: string, comment: RegExp): string {
  return code.replace(new RegExp(`("(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*')|${comment.source}`, 'g'), (_, string: string | undefined) => string ?? ' ')
}

function partsBehind (behind: string): string[] {
  if (behind.startsWith('(')) return partsOf(behind) ?? []
  // Ruby without parentheses; an arrow function of one name.
  const line = /^[^\n;]*/.exec(behind)?.[0] ?? ''
  return partsOf(`(${line.split('=>')[0]})`) ?? []
}

function bySchema ({ params, input, variadic, acceptsKwargs, strict }: FunctionSchema, convention: Read): InferredSignature {
  const given = params ?? (Array.isArray(input) ? input : Object.entries(input ?? {}).map(([name, schema]): JsonSchema => ({ name, ...schema })))
  const isOpen = params === undefined && strict !== true
  return {
    params: given as ParamSchema[],
    variadic: variadic ?? isOpen,
    acceptsKwargs: acceptsKwargs ?? (isOpen || convention.acceptsKwargs),
    hasOptionsParam: false,
    source: 'schema'
  }
}

/** A function's signature: the schema's, else from the code, else the language's convention. */
export class SignatureInferenceEngine {
  resolve (code: string, functionName: string | undefined, language: SupportedLanguage, schema?: FunctionSchema): InferredSignature {
    const known = Object.hasOwn(languages, language) ? languages[language] : undefined
    const { syntax, comment } = known ?? { syntax: words, comment: HASH }
    if (schema?.params !== undefined || schema?.input !== undefined) return bySchema(schema, syntax.convention)
    const found = definitionOf(withoutComments(code, comment), syntax, functionName)
    if (found === undefined) return { ...syntax.convention, params: [], source: 'convention' }
    return { ...syntax.read(partsBehind(found.behind)), source: 'inferred' }
  }
}
