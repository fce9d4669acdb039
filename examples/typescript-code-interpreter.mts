// An agent with a code interpreter: each turn is a piece of code that finds what earlier ones left. The turns are scripted here, where yours come
// from a model; one is wrong and one never ends, and the work goes on after both. Run it with Node 22.18 or later, with a folder that has rivers.csv
// (this one): the figure is written there too.
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { getSandbox } from 'cloche/sandbox'

const folder = process.argv[2] ?? 'examples'
const turns: Array<{ code: string, timeout?: number }> = [
  { code: 'import pandas as pd\nrivers = pd.read_csv("rivers.csv")\nprint(len(rivers), "rows")\nrivers.head(2)' },
  { code: 'longest = rivers.nlargest(3, "length")' },
  { code: 'longest = rivers.nlargest(3, rivers.columns[-1])\nlist(rivers.columns)' },
  { code: 'n = 0\nwhile True: n += 1', timeout: 1500 },
  { code: 'import matplotlib.pyplot as plt\nplt.barh(longest.iloc[:, 0], longest.iloc[:, -1])\nplt.title("the longest")\nplt.show()' },
  { code: '{"rows": len(rivers), "counted": n > 0}' }
]

// Nothing is said of a network, so there is none.
const sandbox = getSandbox(undefined, 'analyst', { limits: { memoryBytes: 1024 * 2 ** 20 } })
try {
  await sandbox.writeFile('/workspace/rivers.csv', readFileSync(path.join(folder, 'rivers.csv')))
  const context = await sandbox.createCodeContext({ language: 'python', timeout: 60_000 })
  for (const { code, ...limits } of turns) {
    const { results, error, executionCount } = await sandbox.runCode(code, { context, ...limits, onStdout: ({ text }) => { process.stdout.write(`  ${text}`) } })
    // What a model is told of it.
    if (error !== undefined) console.log(`[${executionCount}] ${error.name}: ${error.message.split('\n')[0]}${error.lineNumber === undefined ? '' : ` (line ${error.lineNumber})`}`)
    for (const { html, png, chart, json, text } of results) {
      if (png !== undefined) {
        writeFileSync(path.join(folder, 'figure.png'), Buffer.from(png, 'base64'))
        console.log(`[${executionCount}] a figure: ${chart?.type} "${chart?.title}"`)
      } else console.log(`[${executionCount}] ${html !== undefined ? 'a table' : json !== undefined ? JSON.stringify(json) : text}`)
    }
  }
} finally {
  await sandbox.destroy()
}
