#!/usr/bin/node
// unpack-wasm SOURCE TARGET: a CommonJS file that carries its WebAssembly as base64 becomes TARGET.cjs and TARGET.wasm. The text
// would cost each process that loads it 40 ms, the bytes cost 5.
import fs from 'node:fs'

const [source, target] = process.argv.slice(2)
const text = fs.readFileSync(source, 'utf8')
const parts = text.split(/\w+\.from\("([A-Za-z0-9+/=]{100000,})", "base64"\)/)
if (parts.length !== 3) throw new Error(`${source}: expected one WebAssembly module in base64, found ${(parts.length - 1) / 2}`)
const [before, bytes, after] = parts
fs.writeFileSync(`${target}.wasm`, Buffer.from(bytes, 'base64'))
fs.writeFileSync(`${target}.cjs`, `${before}require("WebAssembly bytes")${after}`)
