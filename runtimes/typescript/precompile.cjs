'use strict'
// Writes typescript.code.br: V8's code of the compiler and of all its functions that rehearsal.ts,
// decorators and JSX use (compiler.cjs). It is for the Node that runs this, with the flags of a cold
// agent; compressed, because each cold box has a copy of its runtime.
const fs = require('node:fs')
const path = require('node:path')
const vm = require('node:vm')
const zlib = require('node:zlib')

const KEPT = 'typescript.code.br'
const SOURCES = ['typescript.js.br', 'compiler.cjs', 'precompile.cjs']
const EXAMPLE = `
const d = (v: any, c: any) => v
@d class D { @d accessor a: number = 1; @d m(x?: string) { using u = x as any; return u } }
const V = ({ of }: { of: string[] }) => <><b id="x" {...of}>{of.map((one) => <i key={one}>a</i>)}</b></>
`
const pathOf = (name) => path.join(__dirname, name)

function compiled () {
  const context = vm.createContext(Object.create(null))
  let script
  const host = {
    require,
    scan: () => ({ isModule: true }),
    readFile: (name) => fs.readFileSync(pathOf(name)),
    hasFile: () => false,
    evaluateScript (name, text) {
      script = new vm.Script(text, { filename: name })
      return script.runInContext(context)
    }
  }
  const compiler = vm.compileFunction(fs.readFileSync(pathOf('compiler.cjs'), 'utf8'), ['host'])(host)
  compiler.compile(fs.readFileSync(pathOf('rehearsal.ts'), 'utf8') + EXAMPLE, { isJSX: true, isCell: false, settings: {} })
  return script.createCachedData()
}

function isFresh () {
  if (!fs.existsSync(pathOf(KEPT))) return false
  const { mtimeMs } = fs.statSync(pathOf(KEPT))
  return SOURCES.every((name) => fs.statSync(pathOf(name)).mtimeMs <= mtimeMs)
}

if (!isFresh()) {
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN } = zlib.constants
  fs.writeFileSync(pathOf(KEPT), zlib.brotliCompressSync(compiled(), { params: { [BROTLI_PARAM_QUALITY]: 9, [BROTLI_PARAM_LGWIN]: 24 } }))
}
