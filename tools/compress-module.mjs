#!/usr/bin/node
// compress-module SOURCE TARGET: compress the text of a large module: each cold box has a copy of
// its runtime, and few need this part.
import fs from 'node:fs'
import zlib from 'node:zlib'

const [source, target] = process.argv.slice(2)
const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_LGWIN, BROTLI_PARAM_SIZE_HINT } = zlib.constants
const text = fs.readFileSync(source)
fs.writeFileSync(target, zlib.brotliCompressSync(text, { params: { [BROTLI_PARAM_QUALITY]: 9, [BROTLI_PARAM_LGWIN]: 24, [BROTLI_PARAM_SIZE_HINT]: text.length } }))
