// The cost of a run from Node, end to end: through the client, its daemon, the engine, a box, and back.
// node bench/clients/node.mjs [--runs N] [--json]: for each kind of run and 1, 8, 64 in flight p50, p99 and runs a second. Peers are
// those of bench/peers (npm ci there), measured in this process in between. Read the ratios: machines and their neighbours differ.
import { availableParallelism, cpus, loadavg } from 'node:os'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Cloche } from '../../clients/typescript/dist/index.js'
import { createSandbox } from '../../clients/typescript/dist/isolate/index.js'

const flag = (name, fallback) => process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : fallback
const RUNS = Number(flag('--runs', 200))
const IN_FLIGHT = [1, 8, 64]
const peersRequire = createRequire(new URL('../peers/package.json', import.meta.url))

async function measure (run, inFlight) {
  for (let i = 0; i < 5; i++) await run(i)
  const times = []
  let next = 0
  const started = performance.now()
  await Promise.all(Array.from({ length: inFlight }, async () => {
    while (next < RUNS) {
      const i = next++
      const began = performance.now()
      await run(i)
      times.push(performance.now() - began)
    }
  }))
  const seconds = (performance.now() - started) / 1000
  times.sort((a, b) => a - b)
  const at = (share) => times[Math.floor((times.length - 1) * share)]
  return { p50: at(0.5), p99: at(0.99), rate: RUNS / seconds }
}

const must = (ok, what) => { if (!ok) throw new Error(`a run failed: ${JSON.stringify(what)}`) }

// -- Cloche

async function ours () {
  const client = await Cloche.connect()
  const sandbox = await createSandbox({ client })
  const prefix = await sandbox.precompile({ code: 'globalThis.base = 40', globals: { id: async (n) => n } })
  const python = await client.prefix({ language: 'python', code: 'base = 40' })
  const check = async (running, wanted) => {
    const got = await running
    must(got.success && got.result === wanted, got)
  }
  const checkModule = async (running) => {
    const got = await running
    must(got.ok && got.exports.default === 42, got)
  }
  const kinds = {
    'question (stats)': () => client.stats(),
    'call warm, python': () => check(client.call({ language: 'python', code: 'def f(a, b): return a + b', args: [40, 2] }), 42),
    'call warm, javascript': () => check(client.call({ language: 'javascript', code: 'const f = (a, b) => a + b', args: [40, 2] }), 42),
    'prefix call, python': () => check(python.call({ code: 'return base + 2' }), 42),
    'isolate run': () => checkModule(sandbox.run({ code: 'export default 42' })),
    'isolate prefix run': () => checkModule(prefix.run({ code: 'export default base + 2' })),
    'isolate prefix run, one host call': () => checkModule(prefix.run({ code: 'export default base + await id(2)' }))
  }
  return { kinds, close: () => client.close() }
}

// -- peers, if installed

async function isolatedVm () {
  const { default: ivm } = await import(pathToFileURL(peersRequire.resolve('isolated-vm')))
  return {
    kinds: {
      'isolated-vm, new isolate': async () => {
        const isolate = new ivm.Isolate({ memoryLimit: 128 })
        const context = await isolate.createContext()
        must(await context.eval('40 + 2') === 42, 'isolated-vm')
        isolate.dispose()
      }
    },
    close: () => {}
  }
}

async function quickjs () {
  const { getQuickJS } = await import(pathToFileURL(peersRequire.resolve('quickjs-emscripten')))
  const engine = await getQuickJS()
  return { kinds: { 'quickjs-emscripten, new context': async () => must(engine.evalCode('40 + 2') === 42, 'quickjs') }, close: () => {} }
}

async function all () {
  const groups = [await ours()]
  for (const [name, make] of Object.entries({ 'isolated-vm': isolatedVm, 'quickjs-emscripten': quickjs })) {
    try {
      groups.push(await make())
    } catch (error) {
      console.error(`left out: ${name} (${error.code ?? error.message})`)
    }
  }
  const rows = []
  for (const inFlight of IN_FLIGHT) {
    for (const { kinds } of groups) {
      for (const [name, run] of Object.entries(kinds)) rows.push({ name, inFlight, ...await measure(run, inFlight) })
    }
  }
  for (const { close } of groups) await close()
  return rows
}

function table (rows) {
  const lines = [`| run | in flight | p50 ms | p99 ms | a second |`, '|---|---:|---:|---:|---:|']
  for (const { name, inFlight, p50, p99, rate } of rows) lines.push(`| ${name} | ${inFlight} | ${p50.toFixed(2)} | ${p99.toFixed(2)} | ${rate.toFixed(0)} |`)
  return lines.join('\n')
}

const before = loadavg()[0]
const rows = await all()
const machine = { node: process.version, processor: cpus()[0]?.model, processors: availableParallelism(), loadBefore: before, runs: RUNS }
if (process.argv.includes('--json')) console.log(JSON.stringify({ machine, rows }))
else console.log(`${table(rows)}\n\n${machine.processors} of ${machine.processor}, Node ${machine.node}, ${RUNS} runs each, load ${before.toFixed(1)} before`)
