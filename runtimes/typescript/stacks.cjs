'use strict'
// Stacks of code that was printed anew, in the user's places: for the main realm, where Node
// formats stacks by Error.prepareStackTrace.
const { toString } = Error.prototype
const { prepareStackTrace: plain } = Error // undefined, or Node's own
const { apply } = Reflect

// The frame as V8 shows it, with its place replaced.
function show (site, find) {
  const text = `${site}`
  const [file, line, column] = [site.getFileName(), site.getLineNumber(), site.getColumnNumber()]
  const found = typeof file === 'string' ? find(file, line, column) : undefined
  return found ? text.replace(`${file}:${line}:${column}`, () => `${file}:${found.line}:${found.column}`) : text
}

function headOf (error) {
  try {
    return apply(toString, error, [])
  } catch {
    return '<error>'
  }
}

// find(file, line, column): {line, column} of the user's, or undefined. A prepareStackTrace of the user's own stays.
function follow (find) {
  if (Error.prepareStackTrace !== plain) return
  const { prepareStackTrace } = { prepareStackTrace: (error, sites) => [headOf(error), ...sites.map((site) => `    at ${show(site, find)}`)].join('\n') }
  Object.defineProperty(Error, 'prepareStackTrace', { value: prepareStackTrace, writable: true, enumerable: false, configurable: true })
}

module.exports = { follow }
