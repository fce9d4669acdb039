// An agent at the other end of a socket pair, spoken to as the engine does (spec/agent.md).
import { spawn } from 'node:child_process'
import { resolve } from 'node:path'

const javascript = new URL('../../../runtimes/javascript/agent.cjs', import.meta.url).pathname
// The runtimes as boxes have them (tools/stage-runtimes).
export const built = resolve(process.env.CLOCHE_BUILD ?? new URL('../../../build', import.meta.url).pathname, 'runtimes')
const fake = new URL('./fake-library.cjs', import.meta.url).pathname

function frame (message, attachments = []) {
  const json = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }))
  const head = Buffer.alloc(8)
  const bytes = Buffer.concat(attachments)
  head.writeUInt32LE(4 + json.length + bytes.length, 0)
  head.writeUInt32LE(json.length, 4)
  return Buffer.concat([head, json, bytes])
}

// `bridge(params, attachments)`: the host's response, {value} and optionally attachments, or throws
// {name, message, fields}. `agent`: the file of a runtime that shares this one's. `input(params)`:
// the host's response to a request for input: text, or throws {message}; undefined: nothing.
export function startAgent ({ agent = javascript, bridge = ({ args }) => ({ value: args }), input = () => '', asTemplate = false, cwd = '/tmp', env = {} } = {}) {
  const flags = ['--experimental-vm-modules', '--no-warnings', ...asTemplate ? ['--single-threaded', '--v8-pool-size=0', '--no-memory-reducer', '-r', fake] : []]
  const child = spawn(process.execPath, [...flags, agent], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'], cwd, env: { ...process.env, ...env } })
  const channel = child.stdio[3]
  const told = []
  const asked = []
  const output = { stdout: '', stderr: '' }
  let bytes = Buffer.alloc(0)
  let waiting
  let last = 0

  async function answer ({ id, params }, attachments) {
    asked.push(params.target.join('/'))
    try {
      const { value, attachments: own } = await bridge(params, attachments)
      channel.write(frame({ id, result: { value } }, own))
    } catch (thrown) {
      if (thrown instanceof Error) throw thrown
      channel.write(frame({ id, error: { code: -32000, message: thrown.message, data: thrown } }))
    }
  }

  function answerInput ({ id, params }) {
    try {
      const value = input(params)
      if (value !== undefined) channel.write(frame({ id, result: { value } }))
    } catch (thrown) {
      channel.write(frame({ id, error: { code: -32000, message: thrown.message, data: { message: thrown.message } } }))
    }
  }

  // A display of a cell is a request, and the cell waits for the answer.
  function takeTold ({ id, method, params }, attachments) {
    told.push(attachments.length > 0 ? [method, params, attachments] : [method, params])
    if (id !== undefined) channel.write(frame({ id, result: {} }))
  }

  function receive (message, attachments) {
    if (message.method === 'bridge') answer(message, attachments)
    else if (message.method === 'input') answerInput(message)
    else if (message.method !== undefined) takeTold(message, attachments)
    else waiting.resolve({ ...message, attachments })
  }

  channel.on('data', (more) => {
    bytes = Buffer.concat([bytes, more])
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32LE(0)) {
      const end = 4 + bytes.readUInt32LE(0)
      const json = 8 + bytes.readUInt32LE(4)
      receive(JSON.parse(bytes.subarray(8, json)), bytes.subarray(json, end))
      bytes = bytes.subarray(end)
    }
  })
  channel.on('error', () => {})
  for (const name of ['stdout', 'stderr']) child[name].on('data', (text) => { output[name] += text })
  child.on('exit', (code, signal) => waiting?.reject(new Error(`the agent ended (${code ?? signal}): ${output.stderr}`)))

  const ended = new Promise((resolve) => child.on('close', resolve)) // and its output was read

  const ask = (method, params = {}, attachments = []) => new Promise((resolve, reject) => {
    waiting = { resolve, reject }
    channel.write(frame({ id: ++last, method, params }, attachments))
  })
  const result = async (...rest) => {
    const { result: found, error } = await ask(...rest)
    if (error) throw Object.assign(new Error(error.message), error)
    return found
  }
  const withDefaults = (code, more) => ({
    code, filename: 'main.js', function: null, args: [], holes: [], kwargs: {}, order: null, resultBytes: 1 << 24, globals: {}, imports: {}, ...more
  })
  return {
    ask, result, told, asked, output, child,
    call: async (code, more) => (await result('call', withDefaults(code, more))).value,
    prepare: (code, more) => result('prepare', { code, filename: 'prefix.js', globals: {}, imports: {}, ...more }),
    evaluate: async (code, more) => (await result('evaluate', withDefaults(code, more))).exports,
    fails: (promise) => promise.then((value) => { throw new Error(`it gave ${JSON.stringify(value)}`) }, (thrown) => thrown),
    stop: () => {
      channel.end()
      return ended
    }
  }
}
