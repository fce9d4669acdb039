// Modules of the main realm, in a process of its own: a garbage collection comes at every moment when one can end the process.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

const file = new URL('../../../runtimes/javascript/program.cjs', import.meta.url).pathname
const flags = ['--experimental-vm-modules', '--no-warnings', '--expose-gc', '--eval']
const run = async (code) => (await promisify(execFile)(process.execPath, [...flags, code], { timeout: 30000 })).stdout

// program.cjs calls back after linking and before evaluating. The first collection frees objects
// that hold the garbage of the next.
const COLLECTING = `
  const program = require(${JSON.stringify(file)})
  const importModule = program.importer('/tmp/main.js', require)
  const module = (code) => program.loadModule(code, 'main.js', importModule)
  program.beforeUserCode(() => { for (let i = 0; i < 3; i++) gc() })`

test('modules: what the code imports outlives a garbage collection before the code runs', async () => {
  const code = 'import os, { EOL } from "os"; import * as fs from "node:fs"; import { pi } from "host"; export default [typeof os, EOL, typeof fs.statSync, pi]'
  const loading = `program.namespaceOf('host', { pi: 3 }).then((space) => program.offer('host', space)).then(() => module(${JSON.stringify(code)}))`
  assert.equal(await run(`${COLLECTING}\n${loading}.then((space) => console.log(JSON.stringify(space.default)))`), '["object","\\n","function",3]\n')
})

test('modules: and those that its own modules import', async () => {
  const own = 'import os from "os"; export const kind = typeof os'
  const files = `program.useFiles({ forget () {}, module: (specifier, require) => specifier === './own' ? program.sourceModule(${JSON.stringify(own)}, '/tmp/own.js', importModule) : undefined })`
  assert.equal(await run(`${COLLECTING}\n${files}\nmodule('import { kind } from "./own"; export default kind').then((space) => console.log(space.default))`), 'object\n')
})
