// JavaScript runs as it is written. A language that is compiled to JavaScript shares this folder
// and has a language.cjs of its own.
'use strict'
const { scan } = host
const JSX = /<[A-Za-z][\w.:-]*(\s[^<>]*)?\/?>|<>/ // with a closing tag read as a regular expression
const NO_JSX = 'JSX is not JavaScript: give the code as typescript, which compiles it'

let latest = ''
function translate (code, filename, isBare, isCell) {
  latest = code
  return code
}

// V8 names the character, acorn does not. Code that compiles has nothing that looks like JSX outside of its strings.
const named = (type, message) => type === 'SyntaxError' && /^Unexpected token( '<')?$/.test(message) && JSX.test(scan.mask(latest)) ? `${NO_JSX} (${message})` : message

function explain ({ type, message, stack }) {
  const said = named(type, message)
  return { type, message: said, stack: said === message ? stack : stack.replace(message, () => said) }
}

return {
  name: 'javascript',
  file: 'notebook.js', // the name of a notebook's code as a module
  hasTypes: false,
  translate,
  place: (stack) => stack, // maps a stack with places of translated code to the user's places
  named, // explains an error about syntax that the user may not see
  explain, // {type, message, stack} of an exception
  judge: (code, parse) => parse(code), // complete, incomplete, invalid or unknown
  interrupted: () => {}, // a look at code did not end
  rehearse: () => {}
}
