'use strict'
// Finds the place where a module does not compile. Node reports it for scripts only, so the code is
// compiled again with its imports and exports blanked out: as the body of an async function, and,
// because that may return, as a script whose awaits are another operator of the same length. A
// place counts if the message is the same.
const vm = require('node:vm')

const blank = (text) => text.replace(/[^\r\n\u2028\u2029]/g, ' ')
const STATEMENTS = [
  /^[ \t]*import\b\s*(?:[\w$*\s{},'"-]*?\bfrom\b\s*)?(?:'[^'\n]*'|"[^"\n]*")/gm,
  /^[ \t]*export\s*(?:\*[^;\n]*|\{[^{}]*\}(?:\s*from\s*(?:'[^'\n]*'|"[^"\n]*"))?)/gm,
  /^[ \t]*export\b(?=\s+(?:const|let|var|function|class|async)\b)/gm
]
const DEFAULT = /^([ \t]*)export default\b/gm // `void 0,` is as good a place for an expression

const withoutModules = (code) =>
  STATEMENTS.reduce((text, statement) => text.replace(statement, blank), code).replace(DEFAULT, '$1void 0,       ')
const asBody = (code) => `(async () => { 'use strict';\n${withoutModules(code)}\n})`
const asScript = (code) => `'use strict';\n${withoutModules(code).replace(/\bfor\s+await\b/g, (text) => `for${blank(text.slice(3))}`).replace(/\bawait\b/g, 'void ')}`

// "file:3\n<the line>\n   ^^^": the line's number and the caret's column.
function placeIn (stack, identifier) {
  if (!stack.startsWith(`${identifier}:`)) return undefined
  const [head, , caret = ''] = stack.slice(identifier.length + 1).split('\n')
  const column = caret.indexOf('^') + 1
  return /^\d+$/.test(head) && column > 0 ? `:${head}:${column}` : undefined
}

const compiles = (text) => {
  try {
    new vm.Script(text) // eslint-disable-line no-new
    return true
  } catch {
    return false
  }
}

// An export may not be where a statement before it is not complete: blanked out, it would complete it.
function exportIn (code) {
  for (const { index } of code.matchAll(/^[ \t]*export\b/gm)) {
    const before = code.slice(0, index)
    if (compiles(asBody(before))) continue
    const at = code.indexOf('export', index)
    return `:${before.split('\n').length}:${at - index + 1}`
  }
}

// ":line:column", or nothing if unknown.
function locate (code, message, identifier) {
  if (message === "Unexpected token 'export'") return exportIn(code) ?? ''
  for (const form of [asBody, asScript]) {
    try {
      new vm.Script(form(code), { filename: identifier, lineOffset: -1 }) // eslint-disable-line no-new
    } catch (thrown) {
      if (thrown.message === message) return placeIn(thrown.stack, identifier) ?? ''
    }
  }
  return ''
}

module.exports = { locate }
