// The cost of a sandbox's operations from Node, end to end: through the façade, its daemon, the
// engine, the box, and back.
// node bench/clients/sandbox.mjs [--times N] [--json]: p50 and p99 in ms and how many a second, one
// after another and 8 at once; and bytes a second of bulk data. Read the ratios to the request that
// only the daemon handles: machines and their neighbours differ.
import { availableParallelism, cpus, loadavg } from 'node:os'
import { Cloche } from '../../clients/typescript/dist/index.js'
import { getSandbox, parseSSEStream } from '../../clients/typescript/dist/sandbox/index.js'

const flag = (name, fallback) => process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : fallback
const TIMES = Number(flag('--times', 200))
const AT_ONCE = 8
const MIB = 2 ** 20

async function measure (act, atOnce) {
  for (let i = 0; i < atOnce; i++) await act(i, i)
  const times = []
  let next = 0
  const started = performance.now()
  await Promise.all(Array.from({ length: atOnce }, async (_, lane) => {
    while (next < TIMES) {
      const i = next++
      const began = performance.now()
      await act(i, lane)
      times.push(performance.now() - began)
    }
  }))
  const seconds = (performance.now() - started) / 1000
  times.sort((a, b) => a - b)
  const at = (share) => times[Math.floor((times.length - 1) * share)]
  return { p50: at(0.5), p99: at(0.99), rate: TIMES / seconds }
}

async function throughput (act) {
  const began = performance.now()
  const bytes = await act()
  return { mibPerSecond: bytes / MIB / ((performance.now() - began) / 1000) }
}

const must = (ok, what) => { if (!ok) throw new Error(`failed: ${JSON.stringify(what)}`) }

const client = await Cloche.connect()
const sandbox = getSandbox(client, 'bench')
const sessions = await Promise.all(Array.from({ length: AT_ONCE }, async () => await sandbox.createSession()))
const small = 'x'.repeat(1024)
const large = new Uint8Array(32 * MIB)

const kinds = {
  'question (stats)': async () => { await client.stats() },
  'exec, a builtin': async (_, lane) => { must((await sessions[lane].exec('true')).success) },
  'exec, a program': async (_, lane) => { must((await sessions[lane].exec('/bin/true')).success) },
  'writeFile 1 KiB': async (i) => { must((await sandbox.writeFile(`/workspace/${i}`, small)).success) },
  'readFile 1 KiB': async (i) => { must((await sandbox.readFile(`/workspace/${i}`)).size === 1024) },
  'startProcess and waitForExit': async (_, lane) => { await (await sessions[lane].startProcess('true')).waitForExit().catch(() => {}) },
  'execStream to its end': async (_, lane) => { for await (const event of parseSSEStream(await sessions[lane].execStream('true'))) must(event.type !== 'error', event) }
}
const streams = {
  'writeFile 32 MiB': async () => (await sandbox.writeFile('/workspace/large', large)).bytes,
  'readFile 32 MiB as a stream': async () => {
    let bytes = 0
    for await (const chunk of (await sandbox.readFile('/workspace/large', { encoding: 'none' })).content) bytes += chunk.length
    return bytes
  },
  'output of exec, 32 MiB, as events': async () => {
    let bytes = 0
    for await (const { about } of client.sandbox('bench').exec({ command: 'head -c 33554432 /dev/zero', stream: true, fork: true })) bytes += about.data.length
    return bytes
  }
}

const rows = []
for (const [name, act] of Object.entries(kinds)) for (const atOnce of [1, AT_ONCE]) rows.push({ name, atOnce, ...await measure(act, atOnce) })
for (const [name, act] of Object.entries(streams)) rows.push({ name, ...await throughput(act) })
const made = getSandbox(client, 'bench-new')
const began = performance.now()
await made.exec('true')
rows.push({ name: 'a new sandbox and its first exec', p50: performance.now() - began })
await Promise.all([sandbox.destroy(), made.destroy()])
await client.close()

if (process.argv.includes('--json')) {
  console.log(JSON.stringify({ node: process.version, cpu: cpus()[0].model, cores: availableParallelism(), load: loadavg()[0], times: TIMES, rows }))
} else {
  const cell = (value) => value === undefined ? ''.padStart(9) : value.toFixed(value < 100 ? 2 : 0).padStart(9)
  console.log(`${'operation'.padEnd(36)}${'at once'.padStart(8)}${'p50 ms'.padStart(9)}${'p99 ms'.padStart(9)}${'a second'.padStart(9)}${'MiB/s'.padStart(9)}`)
  for (const { name, atOnce, p50, p99, rate, mibPerSecond } of rows) console.log(`${name.padEnd(36)}${String(atOnce ?? '').padStart(8)}${cell(p50)}${cell(p99)}${cell(rate)}${cell(mibPerSecond)}`)
}
