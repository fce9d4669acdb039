// The values of JavaScript's agent, with this one.
import { folder } from './harness.mjs'

process.env.CLOCHE_AGENT_FOLDER = folder
await import('../javascript/values.test.mjs')
