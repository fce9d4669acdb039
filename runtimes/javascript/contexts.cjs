'use strict'
// Contexts (cells.cjs), assembled: their part in the main realm, and their rehearsal in a template.
const crypto = require('node:crypto')
const fs = require('node:fs')
const { Module } = require('node:module')
const path = require('node:path')
const util = require('node:util')
const vm = require('node:vm')
const interrupts = require('./interrupts.cjs')
const shell = require('./shell.cjs')

const REHEARSALS = 20
const REHEARSED = [
  '1 + 1', 'let a = [1, 2, { b: "c" }]; const f = (x) => x + a.length, { b } = a[2]\nf(1)', '({ a: 1, b: [2] })', 'class A extends Map { x = 1 }; new A()', 'throw new TypeError("no")',
  'await null; for (var i = 0; i < 2; i++) a = i; a', 'import path from "node:path"; path.sep', 'display.html("<b>x</b>"); display({ a })', 'let = ='
]
const { then } = Promise.prototype
const { apply } = Reflect
const { setImmediate, setInterval, clearInterval } = globalThis

// agent: {load, compile, host, values, scan, language, program, describe, wellFormed, tell, askNow, askLater, THREW}
function makeContexts (agent) {
  const { load, program } = agent
  let { tell, askNow } = agent
  const host = {
    ...agent.host, process, fs, globalThis, Promise, Symbol, Buffer, Script: vm.Script, interrupts, setInterval, clearInterval,
    values: agent.values,
    scan: agent.scan,
    language: agent.language,
    describe: agent.describe,
    wellFormed: agent.wellFormed,
    askNow: (method, params, attachments, pulse) => askNow(method, params, attachments, pulse),
    askLater: agent.askLater,
    THREW: agent.THREW,
    inspect: util.inspect,
    dirname: path.dirname,
    readNodePath: () => Module._initPaths(),
    randomBytes: crypto.randomBytes,
    fromBase64: (text) => Buffer.from(text, 'base64'),
    isInterrupt: interrupts.isInterrupt,
    install: shell.install,
    notebook: program.notebook,
    then: (promise, ok, fail) => apply(then, promise, [ok, fail]),
    turn: () => new Promise((resolve) => { setImmediate(resolve) }),
    tell: (method, params, attachments) => tell(method, params, attachments),
    printError (text) {
      try {
        fs.writeSync(2, text)
      } catch {}
    }
  }
  let parser
  host.acorn = () => {
    if (parser === undefined) agent.compile('acorn.js', ['exports', 'module'])(parser = {}, {})
    return parser
  }
  Object.getOwnPropertyDescriptors(globalThis) // Node 22 creates DOMException on first access, and aborts if another realm accesses it
  const globals = host.globals = load('globals.cjs', host)
  host.displays = load('displays.cjs', host)
  host.names = load('names.cjs', host)
  host.rewriting = load('rewrite.cjs', host)
  host.looks = load('looks.cjs', host)
  const cells = load('cells.cjs', host)

  // A context without a receiver, until the returned function is called.
  function begin () {
    const { exit, reallyExit } = process
    tell = askNow = () => {}
    interrupts.start()
    cells.begin()
    return () => {
      cells.end()
      interrupts.stop()
      ;({ tell, askNow } = agent)
      Object.assign(process, { exit, reallyExit })
    }
  }

  // Compiles the functions that cells use before the fork; leaves none of their names.
  async function rehearse (times = REHEARSALS) {
    const stop = begin()
    for (let i = 0; i < times; i++) {
      for (const code of times === 1 ? REHEARSED.slice(0, 2) : REHEARSED) await cells.answer('cell', { code, count: 0 })
      await cells.answer('describe', {})
      await cells.answer('complete', { code: 'process.a', at: 9 })
      await cells.answer('inspect', { code: 'process.abort', at: 9, detail: 0 })
      await cells.answer('isComplete', { code: 'f({' })
    }
    globals.forget()
    stop()
  }

  // After a caller's set-up: no names, and the last result is put back.
  async function rehearseValue () {
    const stop = begin()
    const restore = globals.saveLast()
    await cells.answer('cell', { code: REHEARSED[0], count: 0 })
    restore()
    stop()
  }

  // No thread of the agent's runs during `judge`, nor, if that returns nothing, until `goOn`.
  function standStill (judge) {
    interrupts.pause()
    const blocker = judge()
    if (blocker === undefined) cells.remember()
    else interrupts.resume()
    return blocker
  }

  // Runs in a child too, whose process is another.
  function goOn () {
    shell.replaceExit()
    interrupts.resume()
  }

  return { ...cells, rehearse, rehearseValue, standStill, goOn }
}

module.exports = { makeContexts }
