'use strict'
// Globals of cells beside Node's own: `display`, `prompt`, `input`, and a process.exit that ends the cell only.
const { chartOf } = require('./charts.cjs')

const { writeSync } = require('node:fs')
const { isUint8Array } = require('node:util').types

const { Buffer, Error, TypeError } = globalThis
const { nextTick } = process
const { wait } = Atomics
const pause = new Int32Array(new SharedArrayBuffer(4))
const { assign, defineProperty } = Object
const KINDS = {
  html: 'text/html', markdown: 'text/markdown', latex: 'text/latex', svg: 'image/svg+xml', json: 'application/json', javascript: 'application/javascript',
  png: 'image/png', jpeg: 'image/jpeg', pdf: 'application/pdf'
}
const IS_DATA = new Set(['json', 'png', 'jpeg', 'pdf'])

class Exit extends Error {}
defineProperty(Exit.prototype, 'name', { value: 'Exit', writable: true, configurable: true })

// context: show(value or undefined, data or undefined, options), clear(wait), ask(prompt, password), askLater(prompt, password).
function makeDisplay (context) {
  const display = { display: (value, options) => context.show(value, undefined, options) }.display
  for (const name of Object.keys(KINDS)) {
    display[name] = { [name] (given, options) {
      if (!IS_DATA.has(name) && typeof given !== 'string') throw new TypeError(`display.${name} wants text, not ${given === null ? 'null' : typeof given}`)
      return context.show(undefined, { [KINDS[name]]: given }, options)
    } }[name]
  }
  const chart = (given, options) => context.show(undefined, chartOf(given), options)
  const clear = ({ wait = false } = {}) => context.clear(wait === true)
  return assign(display, { chart, clear })
}

function makeQuestions ({ ask, askLater }) {
  const textOf = (value) => value === undefined ? '' : `${value}`
  return {
    prompt: (text, { password = false } = {}) => ask(textOf(text), password === true),
    input: async (text, { password = false } = {}) => askLater(textOf(text), password === true)
  }
}

function exit (code = process.exitCode ?? 0) {
  throw new Exit(`process.exit(${code}) was called; the context stays`)
}

// An interrupt may come during a stream's own write, which then would never end: so streams never
// wait here, they write to the descriptor at once.
function writeThrough (stream, fd) {
  function write (chunk, encoding, done) {
    if (typeof encoding === 'function') [done, encoding] = [encoding, undefined]
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk
    if (!isUint8Array(bytes)) throw new TypeError(`what is written must be text or a Uint8Array, not ${chunk === null ? 'null' : typeof chunk}`)
    for (let at = 0; at < bytes.length;) {
      try {
        at += writeSync(fd, bytes, at, bytes.length - at)
      } catch (thrown) {
        if (thrown.code !== 'EAGAIN') throw thrown
        wait(pause, 0, 0, 1)
      }
    }
    if (typeof done === 'function') nextTick(done)
    return true
  }
  defineProperty(stream, 'write', { value: write, writable: true, enumerable: false, configurable: true })
}

// offer(name, value): defines a global.
function install (offer, context) {
  writeThrough(process.stdout, 1)
  writeThrough(process.stderr, 2)
  offer('display', makeDisplay(context))
  const questions = makeQuestions(context)
  for (const name of Object.keys(questions)) offer(name, questions[name])
  replaceExit()
}

const replaceExit = () => { process.exit = process.reallyExit = exit }

module.exports = { install, replaceExit }
