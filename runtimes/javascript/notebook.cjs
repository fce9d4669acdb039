'use strict'
// The set-up of the prefix that contexts of JavaScript and TypeScript are forked from: functions
// that cells mostly use have been loaded and have run once. No name stays but the one that makes
// the agent rehearse cells (contexts.cjs).
await (async () => {
  const util = require('node:util')
  const shown = [[1, 'a', { b: [null, undefined, 1.5] }], new Map([[1, new Set(['x'])]]), new Error('x'), new Date(0), /x/, Buffer.from('x'), () => 1, class A {}, new Uint8Array(3), Symbol('s'), 1n]
  for (const value of shown) util.inspect(value)
  console.log('%s %o', 'x', { a: 1 })
  console.table([{ a: 1, b: 2 }])
  new Date(0).toLocaleString()
  new Intl.NumberFormat('en').format(1234.5)
  structuredClone({ a: new Map() })
  await fetch('data:application/json,{}').then((response) => response.json())
  await new Promise((resolve) => { setTimeout(resolve, 1) })
})()
globalThis.__cloche_notebook__ = true
