// Modules around the user's own: they call one of its exports, or inspect them. The user's module
// is imported under its file name, so that stacks and messages show that; arguments come by a call
// of the host, never as source text.

export const CALL_MODULE = 'cloche:call'
const OWN_FILE = 'cloche:run.mjs'

/** Imports the module, so that its exports can be called later. */
export const importing = (specifier: string): string => `import ${JSON.stringify(specifier)}\n`

/** Exports the value of a call as default, or `missing` and the reason. */
export const calling = (specifier: string): string => `import * as all from ${JSON.stringify(specifier)}
import { take } from ${JSON.stringify(CALL_MODULE)}
const { path, args } = await take()
let receiver, found = all, missing = false
for (const name of path) {
  if (found === null || found === undefined) { missing = true; break }
  receiver = found
  found = found[name]
}
if (typeof found !== 'function') missing = true
export default missing ? undefined : await Reflect.apply(found, receiver, args)
export { missing }
`

/** Exports the sendable values, and the names of the others. */
export const reading = (specifier: string): string => `import * as all from ${JSON.stringify(specifier)}
const exports = { __proto__: null }, skipped = []
for (const name of Object.keys(all)) {
  try {
    structuredClone(all[name])
    exports[name] = all[name]
  } catch {
    skipped.push(name)
  }
}
export { exports, skipped }
`

// The time for work of `waitUntil` is set from inside, because it holds for one run of many that share a prefix.
const RUNTIME = 'cloche:runtime'
export function withGrace (code: string, { graceMs, wallTimeMs }: { graceMs: number, wallTimeMs: number }): string {
  if (!code.includes('waitUntil') && !code.includes(CALL_MODULE)) return code
  let name = '$grace'
  while (code.includes(name)) name += '_'
  return `${code}\n;import { graceMs as ${name} } from '${RUNTIME}'; ${name}(${graceMs === 0 ? 1e12 : graceMs}, ${wallTimeMs})`
}

/** Prints the lines of the set-up's console first. */
export const withSetUpLines = (code: string): string => `${code}\n;import 'cloche:set-up'`

export { OWN_FILE }
const isOurs = (line: string): boolean => line.includes(OWN_FILE)
export const ownStack = (stack: string): string => stack.split('\n').filter((line) => !isOurs(line)).join('\n')
