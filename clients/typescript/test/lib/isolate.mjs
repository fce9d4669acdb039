// A sandbox for the tests of one suite, and helpers that most of them use.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { Cloche } from 'cloche'
import { createSandbox } from 'cloche/isolate'

/** Called within describe(); `given` gets the client and the sandbox before the first test, `done` is called after the last. */
export function isolated (given, done = () => {}) {
  let client, sandbox
  before(async () => {
    client = await Cloche.connect()
    sandbox = await createSandbox({ client })
    given({ client, sandbox })
  })
  after(async () => {
    await sandbox?.dispose()
    await client?.close()
    await done()
  })
  const run = (code, more = {}) => sandbox.run({ code, ...more })
  const value = async (code, more) => {
    const result = await run(code, more)
    assert.ok(result.ok, JSON.stringify(result.error))
    return result.exports.default
  }
  const failure = async (code, more) => {
    const result = await run(code, more)
    assert.equal(result.status, 'failed', JSON.stringify(result.exports))
    return result.error
  }
  return { run, value, failure }
}
