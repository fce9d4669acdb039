// TypeScript to JavaScript, by amaro. A function of `host`, run in the agent's own realm. Types
// become blanks, so that the rest keeps its place. Code with an enum, a namespace or the like is
// printed anew, and its places are mapped back; code with decorators, JSX and the like goes through
// compiler.cjs.
'use strict'
const { scan } = host
const { apply } = Reflect
const PROGRAM = { head: '', tail: '' }
const BODY = { head: 'async function _() {', tail: '\n}' } // a wrapper in which `return` is allowed
const OPTIONAL = '\v' // blank to JavaScript; scan.cjs looks for it after a parameter's name
const CELL = { verbatimModuleSyntax: true }
const TRANSFORM = { nativeClassProperties: true, noEmptyExport: true }

// -- the library

const { decode } = host.TextDecoder.prototype
const { encodeInto } = host.TextEncoder.prototype

class TextDecoder {
  #own = new host.TextDecoder('utf-8', { ignoreBOM: true })
  decode (bytes) { return bytes === undefined ? '' : apply(decode, this.#own, [bytes]) }
}

class TextEncoder {
  #own = new host.TextEncoder()
  encodeInto (text, bytes) { return apply(encodeInto, this.#own, [text, bytes]) }
}

let library
let stacks
function load () {
  const modules = { __proto__: null, util: { TextDecoder, TextEncoder }, 'node:buffer': {}, 'WebAssembly bytes': host.readFile('amaro.wasm') }
  const module = { exports: {} }
  // Loaded before user code that may break its dependencies.
  stacks = host.require('./stacks.cjs')
  host.program.useFiles(host.require('./files.cjs').makeFiles({ translate, scan, program: host.program }))
  const compile = host.compile('amaro.cjs', ['exports', 'require', 'module'])
  // Validating all of the library would double its cost in a cold call; the user's own modules are validated as ever.
  host.require('node:v8').setFlagsFromString('--wasm-lazy-validation')
  compile(module.exports, (name) => modules[name], module)
  host.require('node:v8').setFlagsFromString('--no-wasm-lazy-validation')
  return module.exports
}

function run (code, mode, more) {
  library ??= load()
  try {
    return library.transformSync(code, { mode, ...more })
  } catch (failure) {
    if (typeof failure?.code === 'string') throw failure
    library = undefined // it ran out of stack or memory, and cannot be trusted any more
    throw { code: 'Overflow', message: `the code is too large or nested too deeply: ${failure.message}`, startLine: 1, startColumn: 0 } // eslint-disable-line no-throw-literal
  }
}

// -- the easy way: types become blanks

const isBlank = (c) => c === ' ' || c === '\n' || c === '\r' || c === '\t'

// The `?` of an optional parameter is gone with its type: a blank of another kind stays in its place.
function markOptional (source, stripped) {
  if (source.length !== stripped.length) return stripped
  let out = ''
  let from = 0
  for (let at = source.indexOf('?'); at >= 0; at = source.indexOf('?', at + 1)) {
    if (stripped[at] !== ' ') continue
    let before = at - 1
    while (before >= 0 && isBlank(source[before])) before--
    if (before < 0 || isBlank(stripped[before])) continue
    out += stripped.slice(from, at) + OPTIONAL
    from = at + 1
  }
  return out + stripped.slice(from)
}

// Unused imports are removed, as in TypeScript: their names may be types. A name in a template's
// `${…}` counts as used, without a closer look.
const IMPORT = /^([ \t]*import\s+)([^'"();=]*?)(\s*\bfrom\b\s*)(?:_|'[^'\n]*'|"[^"\n]*")[^\n;]*;?/gm
const blank = (text) => text.replace(/[^\r\n]/g, ' ')
const localName = (text) => /([\p{ID_Start}$_][\p{ID_Continue}$]*)\s*$/u.exec(text)?.[1]

function withoutUnused (code) {
  if (!/\bimport\b[^'"();=]*\bfrom\b/.test(code)) return code
  const masked = scan.mask(code)
  const imports = [...masked.matchAll(IMPORT)]
  const rest = imports.reduce((text, { 0: all, index }) => text.slice(0, index) + blank(all) + text.slice(index + all.length), masked)
  const templates = code.indexOf('${') < 0 ? '' : code.slice(code.indexOf('${'))
  const words = new Set(`${rest}\n${templates}`.match(/[\p{ID_Start}$_][\p{ID_Continue}$]*/gu))
  const isUsed = (specifier) => localName(specifier) === undefined || words.has(localName(specifier))
  let out = code
  for (const { 0: all, 1: word, 2: clause, index } of imports) {
    const kept = clause.replace(/[^{},]+,?/g, (specifier) => isUsed(specifier.replace(/,$/, '')) ? specifier : blank(specifier)).replace(/,(\s*)$/, ' $1')
    if (kept === clause) continue
    const isEmpty = localName(kept.replace(/[{},]/g, ' ')) === undefined
    const at = index + word.length
    out = isEmpty ? out.slice(0, index) + blank(all) + out.slice(index + all.length) : out.slice(0, at) + kept + out.slice(at + kept.length)
  }
  return out
}

function strip (code, { head, tail }, isCell) {
  const stripped = run(head + code + tail, 'strip-only').code
  const translated = stripped.slice(head.length, stripped.length - tail.length)
  const marked = markOptional(code, translated)
  return isCell ? marked : withoutUnused(marked) // a later cell may use it
}

// -- the other way: printed anew, with a map

const maps = new Map() // by file name: for each line [column, line, column of the source][]
const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

function decodeSegment (text) {
  const numbers = []
  let value = 0
  let shift = 0
  for (const c of text) {
    const digit = DIGITS.indexOf(c)
    value |= (digit & 31) << shift
    shift += 5
    if (digit & 32) continue
    numbers.push(value & 1 ? -(value >> 1) : value >> 1)
    value = shift = 0
  }
  return numbers
}

function decodeMap (mappings) {
  let line = 0
  let column = 0
  return mappings.split(';').map((text) => {
    let at = 0
    const segments = []
    for (const segment of text === '' ? [] : text.split(',')) {
      const [move, , lines, columns] = decodeSegment(segment)
      at += move
      if (lines === undefined) continue
      line += lines
      column += columns
      segments.push([at, line, column])
    }
    return segments
  })
}

const NAME = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy
const OPTIONAL_NAME = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*\s*\?\s*[:,)=]/uy
const matchAt = (pattern, text, at) => {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0]
}

// As in markOptional; text after a mark moves, and the map with it.
function markOptionalIn (text, segments, sourceLines) {
  let moved = 0
  for (const segment of segments) {
    segment[0] += moved
    const name = matchAt(NAME, text, segment[0])
    if (name === undefined || !matchAt(OPTIONAL_NAME, sourceLines[segment[1]] ?? '', segment[2])?.startsWith(name)) continue
    const end = segment[0] + name.length
    if (!/^(\s|\/\*.*?\*\/)*[,)=]/.test(text.slice(end))) continue
    text = text.slice(0, end) + OPTIONAL + text.slice(end)
    moved++
  }
  return text
}

const places = (code) => code.split(/\r\n|[\n\r\u2028\u2029]/)

// {marked, mapped}: the printed lines, and their segments.
function markPrinted (printed, mappings, source) {
  const mapped = decodeMap(mappings)
  const sourceLines = places(source)
  return { mapped, marked: printed.split('\n').map((line, i) => markOptionalIn(line, mapped[i] ?? [], sourceLines)) }
}

function print (code, { head, tail }, filename, more) {
  const { code: printed, map } = run(head + code + tail, 'transform', { sourceMap: true, transform: { ...TRANSFORM, ...more } })
  const { marked, mapped } = markPrinted(printed, JSON.parse(map).mappings, head + code)
  if (head) {
    marked[0] = marked[0].slice(head.length)
    mapped.forEach((segments) => segments.forEach((segment) => { if (segment[1] === 0) segment[2] = Math.max(0, segment[2] - head.length) }))
    while (marked.length > 1 && marked.pop().trim() !== '}');
  }
  maps.set(filename, mapped)
  return marked.join('\n')
}

// `import x = require(…)` in a module needs a require of its own.
function transform (code, wrap, filename, isCell) {
  const printed = print(code, wrap, filename, isCell ? CELL : undefined)
  if (isCell) return printed
  if (!/\bimport\s+[\w$]+\s*=/.test(code) || !scan(printed).isModule) return printed
  return print(code, wrap, filename, { importExportAssignConfig: 'NodeNext' })
}

// -- code that has to be compiled

let compiler
function compileAll (code, filename, isJSX, { isCell, isBare }) {
  compiler ??= host.compile('compiler.cjs', ['host'])({ ...host, scan })
  dependsOnFiles = !isBare
  const settings = isBare ? {} : host.require('./tsconfig.cjs').settingsFor(filename)
  const { code: printed, mappings } = compiler.compile(code, { isJSX, isCell, settings })
  const { marked, mapped } = markPrinted(printed, mappings, code)
  maps.set(filename, mapped)
  return marked.join('\n')
}

const MAYBE_COMPILED = /@|\busing\b|\baccessor\b/
const USING = /(?<![\w$.])using[^\S\n]+(?!(?:of|in|as|satisfies|instanceof)[^\S\n]*[^\s=:])[\p{ID_Start}$_][\p{ID_Continue}$]*\s*(?:[=:]|of\b)/u
const ACCESSOR = /(?<![\w$.])accessor[^\S\n]+(?!(?:in|of|instanceof|as|satisfies)\b)[\p{ID_Start}$_#[]/u
let knowsUsing // Node 24 and later

function wantsCompiler (code) {
  if (!MAYBE_COMPILED.test(code)) return false
  const masked = scan.mask(code)
  if (masked.includes('@') || ACCESSOR.test(masked)) return true
  knowsUsing ??= host.program.compiles('{ using a = null }')
  return !knowsUsing && USING.test(masked)
}

// -- code that cannot be run

// The line and a caret, as V8 shows them.
function excerpt (filename, code, line, column) {
  const text = places(code)[line - 1] ?? ''
  return `${filename}:${line}:${column}\n${text}\n${text.slice(0, column - 1).replace(/[^\t]/g, ' ')}^\n\n`
}

function syntaxError (message, filename, code, line, column) {
  const error = new host.SyntaxError(`${message} (${filename}:${line}:${column})`)
  const value = `${excerpt(filename, code, line, column)}SyntaxError: ${error.message}`
  Object.defineProperty(error, 'stack', { value, writable: true, configurable: true })
  return error
}

// The library counts a tab as four columns, and wide characters as two or three: columns of the
// same text without them are right.
function columnOf (failure, code, wrap) {
  let { startColumn } = failure
  if (failure.isExact) return startColumn + 1
  if (failure.code !== 'Overflow' && /[^ -~\r\n]/.test(code)) {
    try {
      run(wrap.head + code.replace(/\t/g, ' ').replace(/[^ -~\r\n]/g, 'x') + wrap.tail, 'strip-only')
    } catch (plain) {
      if (plain?.startLine === failure.startLine && plain.message === failure.message) startColumn = plain.startColumn
    }
  }
  return Math.max(0, startColumn - (failure.startLine === 1 ? wrap.head.length : 0)) + 1
}

function refuse (failure, code, wrap, filename) {
  if (failure.startLine === undefined) throw failure
  const lines = places(code)
  const message = failure.message.replace(/ in strip-only mode$/, '')
  throw syntaxError(message, filename, code, Math.min(failure.startLine, lines.length), columnOf(failure, code, wrap))
}

// -- entry points for the agent

const isReturn = (failure) => failure.code === 'InvalidSyntax' && failure.message.startsWith('Return statement')
const isImport = (failure) => failure.code === 'InvalidSyntax' && failure.message.startsWith("'import', and 'export'")
const JSX = /<\/[A-Za-z][\w.:-]*\s*>|<\/?>|<[A-Za-z][^<>]*\/>/
const JSX_FILE = /\.[jt]sx$/

// Types are removed first, and only the rest is searched: most code has nothing else.
function attempt (code, wrap, filename, kind) {
  maps.delete(filename)
  if (JSX_FILE.test(filename) && JSX.test(code)) return compileAll(code, filename, true, kind)
  try {
    const stripped = strip(code, wrap, kind.isCell)
    return wantsCompiler(stripped) ? compileAll(code, filename, false, kind) : stripped
  } catch (failure) {
    if (failure.isExact) throw failure
    if (failure.code === 'InvalidSyntax' && !isReturn(failure) && !isImport(failure) && JSX.test(code)) return compileJSX(code, filename, kind, failure)
    if (failure.code !== 'UnsupportedSyntax') throw failure
    return wantsCompiler(code) ? compileAll(code, filename, false, kind) : transform(code, wrap, filename, kind.isCell)
  }
}

// Text that looks like JSX may be a string in code with a mistake.
function compileJSX (code, filename, kind, failure) {
  try {
    return compileAll(code, filename, true, kind)
  } catch (other) {
    const at = places(code).slice(Math.max(0, failure.startLine - 2), failure.startLine)
    throw !other.isExact || JSX.test(at.join('\n')) || JSX.test(scan.mask(code)) ? other : failure
  }
}

function translateBody (code, filename, kind, otherwise) {
  try {
    return attempt(code, BODY, filename, kind)
  } catch (failure) {
    return isImport(failure) ? otherwise() : refuse(failure, code, BODY, filename)
  }
}

function translateProgram (code, filename, kind, whenReturning) {
  try {
    return attempt(code, PROGRAM, filename, kind)
  } catch (failure) {
    const refused = () => refuse(failure, code, PROGRAM, filename)
    return isReturn(failure) ? whenReturning(refused) : refused()
  }
}

// Code that looks like a body is parsed as one first: a failed attempt costs as much as a good one.
function translateAny (code, filename, kind) {
  if (/^return\b/m.test(code)) return translateBody(code, filename, kind, () => translateProgram(code, filename, kind, (refused) => refused()))
  return translateProgram(code, filename, kind, (refused) => translateBody(code, filename, kind, refused))
}

const known = new Map() // by file name, the latest translation
// isBare: for the bare realm, which must not get a function of the main one; its stacks go through
// `place`. isCell: a program, whose imports later ones may use.
function translate (given, filename, isBare, isCell) {
  if (kept !== undefined && !isCell && kept.given === given && kept.filename === filename && kept.isBare === !!isBare) return useKept()
  const code = given.replace(/^\ufeff/, '')
  const kind = { isBare, isCell }
  dependsOnFiles = false
  const translated = isCell ? translateProgram(code, filename, kind, (refused) => refused()) : translateAny(code, filename, kind)
  known.set(filename, { code, translated })
  if (maps.has(filename) && !isBare) stacks.follow(find)
  return translated
}

// -- is it complete?

const STRING_GOES_ON = /\\(?:\r\n?|\n)\s*$/
const isAtEnd = (code, { message, startLine, startColumn }) => {
  const lines = places(code)
  return scan.mask([(lines[startLine - 1] ?? '').slice(startColumn), ...lines.slice(startLine)].join('\n')).trim() === ''
}

// Columns are right in text without tabs and wide characters. parse: JavaScript's own.
function judge (given, parse) {
  const code = given.replace(/\t/g, ' ').replace(/[^ -~\r\n]/g, 'x')
  try {
    return parse(run(given, 'strip-only').code)
  } catch (failure) {
    if (failure.code === 'UnsupportedSyntax') return 'complete'
    if (failure.code !== 'InvalidSyntax') return 'unknown'
  }
  try {
    run(code, 'strip-only')
  } catch (failure) {
    const isOpen = failure.code === 'InvalidSyntax' && (/(got|token) ['`]<eof>['`]|Unexpected eof|Unterminated (template|block comment)/.test(failure.message) ||
      (/Unterminated string/.test(failure.message) && STRING_GOES_ON.test(given)) || isAtEnd(code, failure))
    if (isOpen || parse(given) === 'incomplete') return 'incomplete'
  }
  return JSX.test(given) || MAYBE_COMPILED.test(given) ? 'unknown' : 'invalid' // for the compiler, which takes a quarter of a second
}

const interrupted = () => { library = undefined }

// -- translations that the engine keeps

const UTF8_BYTES_OF_UNIT = 3
const encoder = new TextEncoder()
const textDecoder = new TextDecoder()
let kept // {given, filename, isBare, translated, mapped}: the latest that was told or taken
let dependsOnFiles // the latest translation, on a tsconfig.json of the box

function useKept () {
  const { given, filename, isBare, translated, mapped } = kept
  known.set(filename, { code: given.replace(/^\ufeff/, ''), translated })
  maps.delete(filename)
  if (mapped !== undefined) maps.set(filename, mapped)
  if (mapped !== undefined && !isBare) stacks.follow(find)
  return translated
}

// Translates, and returns bytes for `take`; undefined for code that does not compile, and whose
// translation is not that of the code alone. The next `translate` of the same code costs nothing.
function tell (given, filename, isBare) {
  try {
    const translated = translate(given, filename, isBare)
    if (dependsOnFiles) return undefined
    kept = { given, filename, isBare, translated, mapped: maps.get(filename) }
  } catch {
    return undefined
  }
  const text = JSON.stringify([kept.translated, kept.mapped])
  const bytes = new host.Uint8Array(UTF8_BYTES_OF_UNIT * text.length)
  return bytes.subarray(0, encoder.encodeInto(text, bytes).written)
}

function take (given, filename, isBare, bytes) {
  library ??= load()
  const [translated, mapped] = JSON.parse(textDecoder.decode(bytes))
  kept = { given, filename, isBare, translated, mapped: mapped ?? undefined }
}

// Maps a place in the translated code to the user's file: {line, column}, from 1, or undefined.
function find (filename, line, column) {
  const lines = maps.get(filename) ?? []
  let found
  for (let at = line - 1; at >= 0 && found === undefined; at--) {
    const segments = lines[at] ?? []
    found = segments.filter((segment) => at < line - 1 || segment[0] < column).pop() ?? segments[0]
  }
  return found && { line: found[1] + 1, column: found[2] + 1 }
}

// A stack's text in the user's places.
function place (stack) {
  for (const filename of maps.keys()) {
    stack = stack.split(`${filename}:`).map((part, i) => i === 0 ? part : placePart(filename, part)).join('')
  }
  return stack
}

function placePart (filename, part) {
  const at = /^(\d+):(\d+)/.exec(part)
  const found = at && find(filename, Number(at[1]), Number(at[2]))
  return found ? `${filename}:${found.line}:${found.column}${part.slice(at[0].length)}` : `${filename}:${part}`
}

const EXCERPT = /^(.+):(\d+)\n(.*)\n([ \t]*)\^+\n\n/

// Maps the place of an excerpt of translated code to the user's: {filename, line, column}. It may
// show text that the agent put before the line.
function placeOfExcerpt ([, filename, line, text, before]) {
  const own = known.has(filename) ? places(known.get(filename).translated)[line - 1] : undefined
  if (own === undefined || !text.endsWith(own)) return undefined
  const column = Math.max(0, before.length - (text.length - own.length)) + 1
  return { filename, ...find(filename, Number(line), column) ?? { line: Number(line), column } }
}

// V8 does not report the place where a module does not compile.
function placeInModule (message) {
  for (const [filename, { translated }] of known) {
    const found = /^:(\d+):(\d+)$/.exec(host.require('./realm-locate.cjs').locate(translated, message, filename))
    if (found === null) continue
    const [line, column] = [Number(found[1]), Number(found[2])]
    return { filename, ...find(filename, line, column) ?? { line, column } }
  }
}

// Exceptions with the user's lines; code that does not compile with its place, like the errors of the library.
function explain ({ type, message, stack }) {
  const shown = EXCERPT.exec(stack)
  const isCompiled = type !== 'SyntaxError' || /\n {4}at /.test(stack) || / \(.+:\d+:\d+\)$/.test(message)
  const place = shown !== null ? placeOfExcerpt(shown) : isCompiled ? undefined : placeInModule(message)
  if (place === undefined) return { type, message, stack }
  const { filename, line, column } = place
  const { code } = known.get(filename)
  if (isCompiled) return { type, message, stack: excerpt(filename, code, line, column) + stack.slice(shown[0].length) }
  const error = syntaxError(message, filename, code, line, column)
  return { type, message: error.message, stack: error.stack }
}

const REHEARSALS = 12
const COMPILINGS = 3
const PRINTED = '\nenum E { A, B = "b" }\nclass P { constructor(private readonly a: E, public b?: number) {} }\nnamespace N { export const c: number = 1 }\n'
const BODIES = ['const x: number = args[0]\nreturn x satisfies number', 'enum E { A }\nreturn E.A as number', 'let y: = 3']
const COMPILED = ['\nconst d = (v: any, c: any) => v\n@d class D { @d accessor a: number = 1; @d m(x?: string) { using u = x as any; return u } }\n',
  '\nconst V = ({ of }: { of: string[] }) => <><b id="x" {...of}>{of.map((one) => <i key={one}>a</i>)}</b></>\n']

function rehearseOne (code) {
  try {
    scan(translate(code, 'main.ts', true))
    place('    at f (main.ts:1:1)')
    take(code, 'main.ts', true, tell(code, 'main.ts', true))
    kept = undefined
  } catch {}
}

// Code that has run is compiled, and is fast in a template's children.
function rehearse () {
  const text = host.readFile('rehearsal.ts').toString()
  for (let i = 0; i < REHEARSALS; i++) for (const code of [text, text + PRINTED, ...BODIES]) rehearseOne(code)
  // Pages of young objects that the compiler needs once would be copied by every fork.
  host.require('node:v8').setFlagsFromString('--semi-space-growth-factor=1')
  for (let i = 0; i < COMPILINGS; i++) for (const code of COMPILED) rehearseOne(text + code)
  host.require('node:v8').setFlagsFromString('--semi-space-growth-factor=2')
  maps.clear()
  known.clear()
}

return { name: 'typescript', file: 'notebook.ts', hasTypes: true, translate, tell, take, place, named: (type, message) => message, explain, judge, interrupted, rehearse }
