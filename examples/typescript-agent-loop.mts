// An agent's loop: a model writes code, the code calls tools, what came of it goes back to the model. The model is scripted
// here, where yours asks an API; it makes a mistake and learns from the answer. Run it with Node 22.18 or later.
import { createSubprocessSandbox, type SandboxResult, type Tool } from 'cloche/subprocess'

const stock: Record<string, { price: number, left: number }> = { lamp: { price: 40, left: 3 }, desk: { price: 210, left: 1 }, chair: { price: 75, left: 0 } }
const orders: Array<{ item: string, count: number }> = []

const tools: Tool[] = [
  { name: 'shop:find', description: 'Price and number left of an item.', inputSchema: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'], additionalProperties: false } },
  {
    name: 'shop:order',
    description: 'Orders an item.',
    inputSchema: { type: 'object', properties: { item: { type: 'string' }, count: { type: 'integer', minimum: 1, maximum: 10 } }, required: ['item', 'count'], additionalProperties: false }
  }
]

async function callTool (name: string, params: unknown): Promise<unknown> {
  const { item, count } = params as { item: string, count: number }
  const found = stock[item]
  if (name === 'shop:find') return found ?? null
  if (found === undefined || found.left < count) throw new Error(`only ${found?.left ?? 0} of ${item} left`)
  found.left -= count
  orders.push({ item, count })
  return { total: count * found.price }
}

interface Turn { code: string }
type Model = (history: readonly SandboxResult[]) => Turn | { answer: string }

// "Furnish a study for at most 300."
const model: Model = (history) => {
  const last = history.at(-1)
  if (last === undefined) return { code: 'const items = ["desk", "chair", "lamp"]\nfor (const item of items) console.log(item, await shop.find({ item }))\nreturn await shop.order({ item: "desk", count: 0 })' }
  if (last.error?.includes('at least 1') === true) {
    return {
      code: `const bought = []
let left = 300
for (const item of ["desk", "chair", "lamp"]) {
  const { price } = await shop.find({ item })
  if (price > left) continue
  try {
    left -= (await shop.order({ item, count: 1 })).total
    bought.push(item)
  } catch (error) {
    console.warn(error.message)
  }
}
return { bought, left }`
    }
  }
  const { bought, left } = last.result as { bought: string[], left: number }
  return { answer: `Bought ${bought.join(' and ')}; ${left} is left.` }
}

await using sandbox = createSubprocessSandbox({ timeout: 10_000, memoryLimit: 128 })
const history: SandboxResult[] = []
for (let turn = 1; turn <= 5; turn++) {
  const next = model(history)
  if ('answer' in next) {
    console.log(`answer: ${next.answer}`)
    break
  }
  const outcome = await sandbox.execute(next.code, tools, callTool)
  history.push(outcome)
  console.log(`turn ${turn}: ${outcome.error ?? JSON.stringify(outcome.result)}`)
  for (const line of outcome.logs) console.log(`  ${line}`)
}
console.log(`orders: ${JSON.stringify(orders)}`)
