// Looks at code and at names: `inspect` and `isComplete`. They run no user code: no getter, no
// proxy, no function of a cell. A function of `host`, run in the agent's own realm.
'use strict'
const { types, globals, scan, names, language, rewriting } = host
const { find, typeOf, summaryOf, textOf, dataOf } = names
const TEXT_MAX = 64 << 10
const SOURCE_MAX = 32 << 10
const SIGNATURE_MAX = 2000
const CALL_MAX = 10000 // characters before the cursor in which the call's bracket is looked for
const NAME = '[\\p{ID_Start}$_][\\p{ID_Continue}$\\u200c\\u200d]*'
const CHAIN_AT_END = new RegExp(`${NAME}(?:\\s*(?:\\?\\s*)?\\.\\s*#?${NAME})*$`, 'u')
const WORD_AT_START = new RegExp('^[\\p{ID_Continue}$\\u200c\\u200d]+', 'u')
const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function')
const PROTOTYPES = { __proto__: null, string: String.prototype, number: Number.prototype, boolean: Boolean.prototype, bigint: BigInt.prototype, symbol: Symbol.prototype }

// -- inspect

// The names of the chain in which `at` is or at whose end, up to the part with `at`.
function chainAt (code, at) {
  const end = at + (WORD_AT_START.exec(code.slice(at, at + 1000))?.[0].length ?? 0)
  const found = CHAIN_AT_END.exec(code.slice(Math.max(0, end - 1000), end))
  const before = found === null ? '' : code.slice(0, end - found[0].length).trimEnd()
  if (found === null || before.endsWith('.')) return undefined // an attribute of a value without a name
  return found[0].split('.').map((part) => part.replace(/[\s?]/g, ''))
}

// The chain of the call in whose brackets `at` is.
function callAt (code, at) {
  let depth = 0
  for (let place = at - 1; place >= 0 && place > at - CALL_MAX; place--) {
    if (')]}'.includes(code[place])) depth++
    else if ('([{'.includes(code[place]) && depth-- === 0) return code[place] === '(' ? chainAt(code, code.slice(0, place).trimEnd().length) : undefined
  }
}

// {value}, {isGetter: true}, or undefined.
function lead ([first, ...rest]) {
  let found = first === 'this' || first === 'globalThis' ? { value: host.globalThis } : globals.look(first)
  for (const name of rest) {
    const value = found?.value
    const descriptor = isObject(value) ? find(value, name) : PROTOTYPES[typeof value] && find(PROTOTYPES[typeof value], name)
    found = descriptor === undefined ? undefined : 'value' in descriptor ? { value: descriptor.value } : { isGetter: true }
  }
  return found
}

// Its text up to the brackets of its parameters.
function signatureOf (name, value) {
  const text = textOf(value).slice(0, SIGNATURE_MAX)
  if (/^class\b/.test(text)) return `class ${name}${/^class\s+(?:[\p{ID_Start}$_][\p{ID_Continue}$]*)?\s*(extends\s+[\w.$]+)?/u.exec(text)[1]?.replace(/^/, ' ') ?? ''}`
  const parameters = scan.parameters(text)?.map((parameter) => (parameter.rest ? '...' : '') + (parameter.name ?? '{}')) ?? ['...']
  return `${/^async\b/.test(text) ? 'async ' : ''}${name}(${parameters.join(', ')})`
}

function inspect ({ code, at, detail }) {
  const place = [...code.slice(0, 2 * at)].slice(0, at).join('').length
  const chain = chainAt(code, place) ?? callAt(code, place)
  const found = chain === undefined ? undefined : lead(chain)
  if (found === undefined) return { data: {} }
  const name = chain[chain.length - 1]
  const { value } = found
  const rows = []
  if (found.isGetter) {
    rows.push('Value: not computed: that would run its getter', 'Type: getter')
  } else if (typeof value === 'function' && !types.isProxy(value)) {
    rows.push(`Signature: ${signatureOf(name, value)}`, `Type: ${typeOf(value)}`)
    if (detail > 0) rows.push(`Source:\n${textOf(value).slice(0, SOURCE_MAX)}`)
  } else {
    rows.push(`Value: ${summaryOf(value)}`, `Type: ${typeOf(value)}`)
    const message = types.isNativeError(value) && !types.isProxy(value) ? dataOf(value, 'stack') : undefined
    if (detail > 0 && typeof message === 'string') rows.push(`Stack:\n${message.slice(0, SOURCE_MAX)}`)
  }
  return { data: { 'text/plain': host.wellFormed(rows.join('\n').slice(0, TEXT_MAX)) } }
}

// -- isComplete

const CONTINUED = /\\(?:\r\n?|[\n\u2028\u2029])$/
let Parser

// As Node's own prompt judges: code that fails at its end could go on.
function makeParser () {
  const acorn = host.acorn()
  Parser = class extends acorn.Parser {
    #isAtEnd = false

    nextToken () {
      super.nextToken()
      this.#isAtEnd = this.type === acorn.tokTypes.eof
    }

    raise (at, message) {
      const isOpen = message === 'Unterminated template' || message === 'Unterminated comment' ||
        (message === 'Unterminated string constant' && CONTINUED.test(this.input.slice(at, this.pos))) ||
        (this.#isAtEnd && (at >= this.lastTokEnd || message.startsWith('Missing catch')))
      throw isOpen ? 'incomplete' : message.startsWith('Not enough stack') ? 'unknown' : 'invalid' // eslint-disable-line no-throw-literal
    }

    raiseRecoverable (at, message) { this.raise(at, message) }
  }
}

function parse (code) {
  if (Parser === undefined) makeParser()
  try {
    Parser.parse(code, rewriting.PARSING)
    return 'complete'
  } catch (thrown) {
    return typeof thrown === 'string' ? thrown : 'unknown' // nested too deeply
  }
}

// An object alone is no program, but a cell.
function judge (code) {
  const status = language.judge(code, parse)
  if (status === 'complete' || !/^\s*\{/.test(code)) return status
  if (language.judge(`(${code}\n)`, parse) === 'complete') return 'complete'
  return status === 'incomplete' ? status : language.judge(`(${code}`, parse) === 'incomplete' ? 'incomplete' : status
}

function isComplete ({ code }) {
  const status = judge(code.replace(/^\ufeff/, ''))
  if (status !== 'incomplete') return { status, indent: '' }
  const last = code.trimEnd().split('\n').pop()
  return { status, indent: /^[ \t]*/.exec(last)[0] + (/[([{]$/.test(last) ? '  ' : '') }
}

return { inspect, isComplete }
