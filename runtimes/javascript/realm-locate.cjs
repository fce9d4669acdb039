'use strict'
// Finds the place where a module does not compile. Node reports it for scripts only, so the code is
// compiled again as the body of an async function, with its imports and exports blanked out; a
// place counts if the message is the same.
const vm = require('node:vm')

const blank = (text) => text.replace(/[^\r\n\u2028\u2029]/g, ' ')
const STATEMENTS = [
  /^[ \t]*import\b\s*(?:[\w$*\s{},'"-]*?\bfrom\b\s*)?(?:'[^'\n]*'|"[^"\n]*")/gm,
  /^[ \t]*export\s*(?:\*[^;\n]*|\{[^{}]*\}(?:\s*from\s*(?:'[^'\n]*'|"[^"\n]*"))?)/gm,
  /^[ \t]*export\b(?=\s+(?:const|let|var|function|class|async)\b)/gm
]
const DEFAULT = /^([ \t]*)export default\b/gm // `void 0,` is as good a place for an expression

function asBody (code) {
  const plain = STATEMENTS.reduce((text, statement) => text.replace(statement, blank), code)
  return `(async () => {\n${plain.replace(DEFAULT, '$1void 0,       ')}\n})`
}

// "file:3\n<the line>\n   ^^^": the line's number and the caret's column.
function placeIn (stack, identifier) {
  if (!stack.startsWith(`${identifier}:`)) return undefined
  const [head, , caret = ''] = stack.slice(identifier.length + 1).split('\n')
  const column = caret.indexOf('^') + 1
  return /^\d+$/.test(head) && column > 0 ? `:${head}:${column}` : undefined
}

// ":line:column", or nothing if unknown.
function locate (code, message, identifier) {
  try {
    new vm.Script(asBody(code), { filename: identifier, lineOffset: -1 }) // eslint-disable-line no-new
  } catch (thrown) {
    if (thrown.message === message) return placeIn(thrown.stack, identifier) ?? ''
  }
  return ''
}

module.exports = { locate }
