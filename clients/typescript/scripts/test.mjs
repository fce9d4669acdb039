// Runs test/**/*.test.mjs with Node's own runner; arguments are parts of file names to run only those, or options of the runner.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const options = process.argv.slice(2).filter((word) => word.startsWith('-'))
const wanted = process.argv.slice(2).filter((word) => !word.startsWith('-'))
const files = readdirSync(`${root}test`, { recursive: true }).filter((name) => name.endsWith('.test.mjs') && (wanted.length === 0 || wanted.some((part) => name.includes(part)))).sort()
if (files.length === 0) {
  console.error(`no test is called like ${wanted.join(', ')}`)
  process.exit(2)
}
const { status } = spawnSync(process.execPath, ['--test', '--test-concurrency=2', '--test-timeout=400000', ...options, ...files.map((name) => `test/${name}`)], { cwd: root, stdio: 'inherit' })
process.exit(status ?? 1)
