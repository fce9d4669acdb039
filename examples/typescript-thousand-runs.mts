// Set up once, then a thousand runs, each in a box of its own and each as if it were the first.
import { createSandbox } from 'cloche/isolate'

const RUNS = Number(process.argv[2] ?? 1000)
const IN_FLIGHT = 16

await using sandbox = await createSandbox()
await using prefix = await sandbox.precompile({
  code: 'globalThis.primes = [2]; for (let n = 3; primes.length < 1000; n += 2) if (primes.every((p) => n % p)) primes.push(n)\nglobalThis.visits = 0',
  globals: { lookUp: async (id: number) => ({ id, name: `user ${id}` }) }
})

const times: number[] = []
const seen = new Set<number>()
let next = 0

async function worker (): Promise<void> {
  while (next < RUNS) {
    const id = next++
    const started = performance.now()
    const result = await prefix.run({ code: `const user = await lookUp(${id}); export default { user, visits: ++visits, prime: primes[${id} % 1000] }` })
    if (!result.ok) throw new Error(`run ${id}: ${result.error.code} ${result.error.message}`)
    const { user, visits } = result.exports.default as { user: { id: number }, visits: number }
    if (visits !== 1 || user.id !== id) throw new Error(`run ${id} saw another's state: ${JSON.stringify(result.exports.default)}`)
    seen.add(user.id)
    times.push(performance.now() - started)
  }
}

const started = performance.now()
await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
const seconds = (performance.now() - started) / 1000
times.sort((a, b) => a - b)
const percentile = (share: number): string => (times[Math.floor((times.length - 1) * share)] ?? 0).toFixed(1)
console.log(`${seen.size} runs, all clean: ${(RUNS / seconds).toFixed(0)} a second, ${IN_FLIGHT} in flight, p50 ${percentile(0.5)} ms, p99 ${percentile(0.99)} ms`)
