// JavaScript runs as it is written. A language that is compiled to JavaScript shares this folder and has a language.cjs of its own.
'use strict'
const { scan } = host
const JSX = /<[A-Za-z][\w.:-]*(\s[^<>]*)?\/?>|<>/ // with a closing tag read as a regular expression
const NO_JSX = 'JSX is not JavaScript: give the code as typescript, which compiles it'

let latest = ''
function translate (code, filename, isBare, isCell) {
  latest = code
  return code
}

// V8 names the character, acorn does not. Code that compiles has nothing that looks like JSX outside of its texts.
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
  place: (stack) => stack, // a stack with places of translated code in the user's places
  named, // the message of an error, with what the user may not see in it
  explain, // {type, message, stack} of what was thrown
  rehearse: () => {}
}
