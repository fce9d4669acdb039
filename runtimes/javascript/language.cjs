// JavaScript runs as it is written. A language that is compiled to JavaScript shares this folder and has a language.cjs of its own.
'use strict'
return {
  name: 'javascript',
  file: 'notebook.js', // the name of a notebook's code as a module
  hasTypes: false,
  translate: (code, filename, isBare, isCell) => code,
  place: (stack) => stack, // a stack with places of translated code in the user's places
  explain: (told) => told, // {type, message, stack} of what was thrown
  rehearse: () => {}
}
