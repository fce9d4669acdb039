// Reading source text without a parser: comments, strings, templates and regular expressions are
// blanked out, brackets are counted, and the rest is searched. A function of `host`, run in the
// agent's own realm.
'use strict'
const REGEX_MAY_FOLLOW = /(^|[([{,;=:?!&|^~+\-*%<>]|\b(return|typeof|case|in|of|do|else|void|delete|throw|new|await|yield|instanceof))\s*$/

const blank = (text) => text.replace(/[^\n]/g, ' ')

function endOfQuoted (source, at) {
  const quote = source[at]
  for (at++; at < source.length && source[at] !== quote; at++) if (source[at] === '\\') at++
  return Math.min(at + 1, source.length)
}

function endOfRegex (source, at) {
  let inClass = false
  for (at++; at < source.length && source[at] !== '\n'; at++) {
    if (source[at] === '\\') at++
    else if (source[at] === '[') inClass = true
    else if (source[at] === ']') inClass = false
    else if (source[at] === '/' && !inClass) return at + 1
  }
  return at
}

// The end of a template, its `${…}` parts included.
function endOfTemplate (source, at) {
  for (at++; at < source.length && source[at] !== '`'; at++) {
    if (source[at] === '\\') at++
    else if (source.startsWith('${', at)) at = endOfBraces(source, at + 1) - 1
  }
  return Math.min(at + 1, source.length)
}

function endOfBraces (source, at) {
  let depth = 0
  while (at < source.length) {
    const next = endOfToken(source, at, '')
    if (next > at) { at = next; continue }
    if (source[at] === '{') depth++
    if (source[at] === '}' && --depth === 0) return at + 1
    at++
  }
  return at
}

// The end of the comment or literal at `at`; `at` itself if there is none. before: the code before it.
function endOfToken (source, at, before) {
  const c = source[at]
  if (c === '"' || c === "'") return endOfQuoted(source, at)
  if (c === '`') return endOfTemplate(source, at)
  if (c !== '/') return at
  if (source[at + 1] === '/') return source.indexOf('\n', at) < 0 ? source.length : source.indexOf('\n', at)
  if (source[at + 1] === '*') return source.indexOf('*/', at + 2) < 0 ? source.length : source.indexOf('*/', at + 2) + 2
  return REGEX_MAY_FOLLOW.test(before.slice(-40)) ? endOfRegex(source, at) : at
}

// The same text with comments and literals blanked; a literal leaves "_" at its beginning, so that
// it still is an operand.
function mask (source) {
  let out = ''
  let at = source.startsWith('#!') ? source.indexOf('\n') < 0 ? source.length : source.indexOf('\n') : 0
  out = blank(source.slice(0, at))
  while (at < source.length) {
    const end = endOfToken(source, at, out)
    if (end === at) {
      out += source[at++]
      continue
    }
    const isComment = source[at] === '/' && (source[at + 1] === '/' || source[at + 1] === '*')
    out += isComment ? blank(source.slice(at, end)) : `_${blank(source.slice(at + 1, end))}`
    at = end
  }
  return out
}

// Text inside any bracket blanked too, the brackets kept.
function topLevel (masked) {
  let depth = 0
  let out = ''
  for (const c of masked) {
    if (c === ')' || c === ']' || c === '}') depth--
    out += depth > 0 && c !== '\n' ? ' '.repeat(c.length) : c
    if (c === '(' || c === '[' || c === '{') depth++
  }
  return out
}

// Bodies of functions and classes blanked, other blocks kept: a `return` or `await` that remains
// belongs to the top level.
function outsideFunctions (masked) {
  const stack = []
  let out = ''
  let inside = 0
  for (let i = 0; i < masked.length; i++) {
    const c = masked[i]
    if (c === '}') inside -= stack.pop() ? 1 : 0
    out += inside > 0 && c !== '\n' ? ' ' : c
    if (c === '{') {
      const before = masked.slice(Math.max(0, i - 2000), i)
      const isBody = /=>\s*$/.test(before) || /\bclass\b[^{};]*$/.test(before) || (/\)\s*$/.test(before) && !/\b(if|for|while|switch|with|catch)\s*(await\s*)?$/.test(beforeBrackets(before)))
      stack.push(isBody)
      inside += isBody ? 1 : 0
    }
  }
  return out
}

// The text before the bracket that ends it.
function beforeBrackets (text) {
  let depth = 0
  for (let i = text.length - 1; i >= 0; i--) {
    if (text[i] === ')') depth++
    if (text[i] === '(' && --depth === 0) return text.slice(0, i)
  }
  return ''
}

const startsAt = (pattern, text, at) => {
  pattern.lastIndex = at
  return pattern.test(text)
}

// True if the expression that begins there is a function, not one that is called at once; it may be in parentheses.
function isFunctionAt (top, masked, at) {
  if (startsAt(/(?:async\s+)?(?:function\b|\(\s*\)\s*=>|[A-Za-z_$][\w$]*\s*=>)/y, top, at)) return !startsAt(/(?:async\s+)?function\b[^()]*\(\s*\)\s*\{\s*\}\s*\(/y, top, at)
  return startsAt(/\(\s*\)\s*(?:[;\n]|$)/y, top, at) && startsAt(/\(\s*(?:async\s+)?(?:function\b|\([^()]*\)\s*=>|[A-Za-z_$][\w$]*\s*=>)/y, masked, at)
}

function beginsStatement (top, at) {
  while (at > 0 && (top[at - 1] === ' ' || top[at - 1] === '\t')) at--
  return at === 0 || /[;}\n]$|\bexport(\s+default)?$/.test(top.slice(Math.max(0, at - 40), at))
}

// {isModule, functions, bindings, hasReturn, hasAwait, usesExports} of a program.
function scan (source) {
  const masked = mask(source)
  const top = topLevel(masked)
  const outside = outsideFunctions(masked)
  const functions = [...top.matchAll(/(?<![\w$.])(?:async\s+)?function\s*\*?\s*([A-Za-z_$][\w$]*)\s*\(/g)]
    .filter((m) => beginsStatement(top, m.index)).map((m) => m[1])
  const bindings = [...top.matchAll(/(?:^|[;}\n])[^\S\n]*(?:export\s+)?(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=(?![=>])\s*/gm)]
  return {
    // import(…) and import.meta are expressions, and export is never one.
    isModule: /(^|[;}\n])[^\S\n]*(import\s*(?![(.])|export\b)/m.test(top),
    functions: [...new Set([...functions, ...bindings.filter((m) => isFunctionAt(top, masked, m.index + m[0].length)).map((m) => m[1])])],
    bindings: bindings.map((m) => m[1]),
    hasReturn: /(?<![\w$.])return(?![\w$])/.test(outside),
    hasAwait: /(?<![\w$.])await(?![\w$])/.test(outside),
    usesExports: /(?<![\w$.])(module\s*\.\s*exports|exports\s*\.)/.test(masked)
  }
}

function splitTop (text, masked, separator) {
  const parts = []
  let depth = 0
  let begin = 0
  for (let i = 0; i < masked.length; i++) {
    const c = masked[i]
    if ('([{'.includes(c)) depth++
    if (')]}'.includes(c)) depth--
    if (c === separator && depth === 0) {
      parts.push([text.slice(begin, i), masked.slice(begin, i)])
      begin = i + 1
    }
  }
  parts.push([text.slice(begin), masked.slice(begin)])
  return parts.filter(([, m]) => m.trim())
}

function parameter ([, masked]) {
  const [head, ...rest] = splitTop(masked, masked, '=')
  const isMarked = head[1].includes('\v') // the optional parameters of TypeScript (language.cjs there)
  const name = head[1].trim()
  const fallback = rest.length ? rest.map(([t]) => t).join('=').trim() : undefined
  if (name.startsWith('...')) return { name: name.slice(3).trim(), rest: true }
  const pattern = name.startsWith('{') ? 'object' : name.startsWith('[') ? 'array' : undefined
  return {
    name: pattern ? undefined : name,
    optional: isMarked || fallback !== undefined,
    isOptions: pattern === 'object' || /^\{/.test(fallback ?? '') || /^(options|opts|config)$/.test(name)
  }
}

// The parameters of a function's own text, or undefined for native and bound ones.
function parameters (text) {
  const masked = mask(text)
  if (/\{\s*\[native code\]\s*\}\s*$/.test(text)) return undefined
  const arrow = /^\s*(?:async\s+)?([A-Za-z_$][\w$]*)\s*=>/.exec(masked)
  if (arrow && arrow[1] !== 'async') return [{ name: arrow[1], optional: false, isOptions: /^(options|opts|config)$/.test(arrow[1]) }]
  let open = masked.indexOf('(')
  const computed = masked.indexOf('[')
  if (computed >= 0 && computed < open) open = masked.indexOf('(', masked.indexOf(']'))
  if (open < 0) return undefined
  let depth = 0
  for (let i = open; i < masked.length; i++) {
    if (masked[i] === '(') depth++
    if (masked[i] === ')' && --depth === 0) return splitTop(masked.slice(open + 1, i), masked.slice(open + 1, i), ',').map(parameter)
  }
  return undefined
}

// Statements of a program that only defines things. Brackets are empty in the text of the top level.
const CLASS = /class\s+([A-Za-z_$][\w$]*)(?:\s+extends\b[^{;]*)?\s*\{\s*\}/y
const OTHERS = [
  /[\s;]+/y,
  /(?:async\s+)?function\s*\*?\s*[A-Za-z_$][\w$]*\s*\(\s*\)\s*\{\s*\}/y,
  /(?:const|let|var)\b(?:[^\n;([{]|\(\s*\)|\[\s*\]|\{\s*\})*(?:;|\n|$)/y,
  /_[^\S\n]*(?:;|\n|$)/y // 'use strict'
]

// The class that arguments were probably meant for, if the program only defines things and its variables ignore them.
function onlyClass (source) {
  const top = topLevel(mask(source))
  let name
  for (let at = 0; at < top.length;) {
    CLASS.lastIndex = at
    const found = CLASS.exec(top)
    name = found?.[1] ?? name
    const end = found ? CLASS.lastIndex : OTHERS.find((pattern) => startsAt(pattern, top, at))?.lastIndex
    if (end === undefined || (!found && /(?<![\w$.])(?:args|kwargs)(?![\w$])/.test(source.slice(at, end)))) return undefined
    at = end
  }
  return name
}

return { scan: Object.assign(scan, { mask, parameters, onlyClass }) }
