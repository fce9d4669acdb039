'use strict'
// import() in a realm of its own would return a promise of Node's realm, and with it Node's
// Function. So no code with a live import() is ever compiled: each becomes a call of a function of
// the guest's realm.

const BLANK = /\s/
function skipBlank (code, at) {
  while (at < code.length) {
    if (BLANK.test(code[at])) at++
    else if (code.startsWith('//', at)) at = endOfLine(code, at)
    else if (code.startsWith('/*', at)) at = endOfComment(code, at)
    else break
  }
  return at
}

function endOfLine (code, at) {
  while (at < code.length && !/[\n\r\u2028\u2029]/.test(code[at])) at++
  return at
}

function endOfComment (code, at) {
  const end = code.indexOf('*/', at + 2)
  return end < 0 ? code.length : end + 2
}

// Places of `import` before a parenthesis, in code or in a text.
function candidates (code) {
  const found = []
  for (let at = code.indexOf('import'); at >= 0; at = code.indexOf('import', at + 6)) {
    if (code[skipBlank(code, at + 6)] === '(') found.push(at)
  }
  return found
}

const put = (code, places, word) => {
  let text = ''
  let from = 0
  for (const at of places) {
    text += code.slice(from, at) + word
    from = at + 6
  }
  return text + code.slice(from)
}

// A keyword must not hold an escape, everything else may: a text that no longer compiles with one was an import().
const ESCAPED = '\\u0069mport'
function live (code, compiles) {
  const all = candidates(code)
  if (all.length === 0 || compiles(put(code, all, ESCAPED))) return []
  return all.length === 1 ? all : all.filter((at) => !compiles(put(code, [at], ESCAPED)))
}

// As many letters as `import`, so columns stay.
function freeName (code) {
  for (let i = 0; i < 1296; i++) {
    const name = `$imp${i.toString(36).padStart(2, '_')}`
    if (!code.includes(name)) return name
  }
  throw new RangeError('import(): no free name')
}

// The code without live imports and the name that stands for them, if any. `code` must compile.
function withoutImports (code, compiles) {
  const places = live(code, compiles)
  if (places.length === 0) return { code, name: undefined }
  const name = freeName(code)
  return { code: put(code, places, name), name }
}

module.exports = { withoutImports }
