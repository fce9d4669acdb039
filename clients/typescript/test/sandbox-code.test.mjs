// Contexts through the client's own classes, and the code interpreter of the sandbox façade, against the real daemon.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Cloche, ContextEndedError, ContextHandle, NotFoundError } from 'cloche'
import { CodeExecutionError, ContextNotFoundError, Execution, getSandbox, parseSSEStream, Result } from 'cloche/sandbox'
import { real } from './lib/real.mjs'
import { serve } from './lib/served.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))
const all = async (iterable) => { const found = []; for await (const item of iterable) found.push(item); return found }

describe('refused connections', real, () => {
  test('a daemon of our own names the method', async () => {
    const client = await Cloche.connect()
    try {
      const { sandbox: box } = await client.sandboxes.create({ name: 'own', network: { allow: ['example.org:443'] } })
      const command = 'curl -sS -m 5 http://93.184.216.34:81/'
      const [denied] = (await box.exec({ command })).denials
      assert.deepEqual([denied.allow, denied.remedy], [['93.184.216.34:81'], 'sandbox.update {"sandbox": "own", "addNetwork": {"allow": ["93.184.216.34:81"]}}'])
      const { sandbox, ...change } = JSON.parse(denied.remedy.slice('sandbox.update '.length))
      await client.sandbox(sandbox).update(change)
      assert.equal((await box.exec({ command })).denials, undefined)
    } finally {
      await client.close()
    }
  })

  test('are told by the command and the code that asked for them', async () => {
    const served = await serve()
    try {
      const sandbox = getSandbox({ socket: served.socket }, 'refused', { network: { allow: ['example.org:443'] } })
      const asks = 'import socket\ntry: socket.getaddrinfo("example.net", 80)\nexcept OSError: pass'
      const execution = await sandbox.runCode(asks)
      const command = await sandbox.exec(`python3 -c '${asks}'`)
      for (const { denials: [denied, ...more] } of [execution, execution.toJSON(), command]) {
        assert.deepEqual([denied.kind, denied.host, denied.why, denied.remedy, more], ['dns', 'example.net', 'no rule allows this name', 'cloche net refused --add example.net', []])
      }
      assert.equal((await sandbox.exec('true')).denials, undefined)
      assert.equal((await sandbox.runCode('1')).denials, undefined)
      await sandbox.destroy()
    } finally {
      await served.end()
    }
  })
})

describe('contexts', real, () => {
  let served, client, box
  before(async () => {
    served = await serve()
    client = await Cloche.connect({ socket: served.socket })
    box = client.sandbox('code')
  })
  after(async () => {
    await client?.close()
    await served?.end()
    assert.deepEqual(unhandled, [])
  })

  describe('of a client', () => {
    test('made, found, listed, restarted, deleted', async () => {
      const { context, created, info } = await box.contexts.create({ name: 'life', cwd: '/workspace/there', env: { COLOUR: 'blue' }, timeoutMs: 60_000 })
      assert.ok(context instanceof ContextHandle)
      assert.deepEqual([context.name, created, info.language, info.state, info.timeoutMs, info.forkable], ['life', true, 'python', 'idle', 60_000, false])
      assert.equal((await box.contexts.create({ name: 'life' })).created, false)
      const { stdout, executionCount, status } = await context.run('import os\nkept = 1\nprint(os.environ["COLOUR"], os.getcwd())')
      assert.deepEqual([stdout, executionCount, status], ['blue /workspace/there\n', 1, 'ok'])
      assert.equal((await context.get()).executionCount, 1)
      assert.ok((await box.contexts.list()).some((found) => found.context === 'life'))
      assert.equal((await context.restart()).executionCount, 0)
      assert.equal((await context.run('kept')).error.name, 'NameError')
      await context.delete()
      await assert.rejects(context.get(), { name: 'NotFoundError' })
      const unnamed = (await box.contexts.create()).context
      assert.notEqual(unnamed.name, '')
      await unnamed.delete()
    })

    test('one to one: the default context, displays in the answer', async () => {
      const { context, displays } = await box.context.run({ code: 'from IPython.display import HTML\ndisplay(HTML("<b>x</b>"))\n40 + 2' })
      assert.equal(context, 'default-python')
      assert.deepEqual(displays.map(({ data, isResult }) => [data['text/html'] ?? data['text/plain'], isResult]), [['<b>x</b>', false], ['42', true]])
      assert.ok((await box.context.list()).contexts.some((found) => found.context === 'default-python'))
    })

    test('events as they come; who leaves the loop interrupts the cell', async () => {
      const { context } = await box.contexts.create()
      const asking = context.run('import time, os\nprint("first")\nfor _ in range(3000):\n  if os.path.exists("/tmp/go"): break\n  time.sleep(0.01)\nelse: raise TimeoutError()\n"\\u00fc"', { stream: true })
      const told = []
      for await (const { event, about } of asking) {
        told.push(event)
        if (event === 'output') await box.file.write({ path: '/tmp/go', content: '' })
        if (event === 'display') assert.equal(about.data['text/plain'], "'ü'")
      }
      assert.deepEqual(told, ['begin', 'output', 'display'])
      const { status, displays } = await asking
      assert.deepEqual([status, displays], ['ok', []])
      for await (const { event } of context.run('kept = 7\nprint("up")\nwhile True: time.sleep(0.01)', { stream: true })) if (event === 'output') break
      assert.equal((await context.run('kept')).displays[0].data['text/plain'], '7')
      await context.delete()
    })

    test('interrupted, out of time, ended and begun anew', async () => {
      const { context } = await box.contexts.create()
      const running = context.run('import time\nkept = 1\nprint("up")\nwhile True: time.sleep(0.01)', { stream: true })
      for await (const { event } of running) if (event === 'output') assert.equal(await context.interrupt(), true)
      const { interrupted, error } = await running
      assert.deepEqual([interrupted, error.name], [true, 'KeyboardInterrupt'])
      assert.equal(await context.interrupt(), false)
      const late = await context.run('while True: time.sleep(0.01)', { timeoutMs: 200 })
      assert.deepEqual([late.timedOut, late.error.name, late.ended], [true, 'Timeout', false])
      assert.equal((await context.run('kept')).displays[0].data['text/plain'], '1')
      const ended = await context.run('os = __import__("os"); os._exit(3)')
      assert.deepEqual([ended.ended, ended.error.name], [true, 'ContextEnded'])
      assert.equal((await context.get()).state, 'ended')
      await assert.rejects(context.run('1'), (thrown) => thrown instanceof ContextEndedError)
      assert.equal((await context.run('"kept" in globals()', { restart: true })).displays[0].data['text/plain'], 'False')
      await context.delete()
    })

    test('questions are answered, by a function or by hand', async () => {
      const { context } = await box.contexts.create()
      const asked = []
      const code = 'import getpass\n[input("name? "), getpass.getpass("word? ")]'
      const { displays } = await context.run(code, { input: async ({ prompt, password }) => { asked.push([prompt, password]); return `<${prompt}>` } })
      assert.deepEqual(asked, [['name? ', false], ['word? ', true]])
      assert.deepEqual(displays, [], 'they were told as events')
      assert.equal((await context.run('_')).displays[0].data['text/plain'], "['<name? >', '<word? >']")
      const byHand = context.run('input("? ")', { input: true })
      for await (const { event, about } of byHand) if (event === 'input') await context.input(about.input, 'mine')
      assert.equal((await byHand).status, 'ok')
      const nothing = await context.run('input("? ")', { input: () => { throw new Error('nobody is here') } })
      assert.equal(nothing.error.name, 'EOFError')
      assert.equal((await context.run('input("? ")')).error.name, 'EOFError', 'unless it may ask')
      await assert.rejects(context.input(99_999, 'x'), { name: 'NotFoundError' })
      await context.delete()
    })

    test('live copies, each with its own variables and files', async () => {
      const { context } = await box.contexts.create({ name: 'trunk', forkable: true })
      const seen = async (one) => (await one.run('[x, open("branch.txt").read()]')).displays[0].data['application/json']
      await context.run('x = 1\nopen("branch.txt", "w").write("kept"); None')
      const [first, second] = await context.fork({ count: 2 })
      assert.equal((await first.get()).forkedFrom, 'trunk')
      await first.run('x = 2\nopen("branch.txt", "w").write("changed"); None')
      assert.deepEqual([await seen(first), await seen(second), await seen(context)], [[2, 'changed'], [1, 'kept'], [1, 'kept']])
      const { context: plain } = await box.contexts.create()
      await assert.rejects(plain.fork(), { name: 'StateError' })
      await context.delete()
      assert.deepEqual(await seen(second), [1, 'kept'], 'they go on without it')
      for (const one of [first, second, plain]) await one.delete()
    })

    test('from a prefix: all that its set-up made', async () => {
      const prefix = await client.prefix({ language: 'python', code: 'import json\nrows = [1, 2]' })
      const made = await Promise.all([1, 2].map(async () => await box.contexts.create({ prefix })))
      await prefix.dispose()
      for (const { context, info } of made) {
        assert.equal(info.prefix, prefix.id)
        assert.equal((await context.run('rows.append(3); json.dumps(rows)')).displays[0].data['text/plain'], "'[1, 2, 3]'")
        await context.delete()
      }
      await assert.rejects(box.contexts.create({ prefix }), { name: 'NotFoundError', message: /there is no prefix/ })
    })

    test('checkpoints: back to what was, with its files', async () => {
      const { context } = await box.contexts.create({ forkable: true })
      await context.run('x = 1\nopen("point.txt", "w").write("then"); None')
      const { checkpoint, files } = await context.checkpoint({ checkpoint: 'before' })
      assert.deepEqual([checkpoint, files], ['before', true])
      await context.run('x = 2\nopen("point.txt", "w").write("now"); None')
      assert.equal((await context.rollback('before')).state, 'idle')
      assert.deepEqual((await context.run('[x, open("point.txt").read()]')).displays[0].data['application/json'], [1, 'then'])
      assert.deepEqual((await context.checkpoints()).map((one) => one.checkpoint), ['before'])
      await context.forget('before')
      assert.deepEqual(await context.checkpoints(), [])
      await assert.rejects(context.rollback(), (thrown) => thrown instanceof NotFoundError)
      await context.delete()
    })

    test('what it holds, and how code could go on', async () => {
      const { context } = await box.contexts.create()
      await context.run('number = 42\nwords = ["a"]')
      assert.deepEqual((await context.describe()).map(({ name, type }) => [name, type]), [['number', 'int'], ['words', 'list']])
      const { matches, from, to } = await context.complete('ü = numb')
      assert.deepEqual([matches.includes('number'), from, to], [true, 4, 8])
      const { found, data } = await context.inspect('ü = number + 1', { at: 6, detail: 1 })
      assert.deepEqual([found, data['text/plain']], [true, 'Value: 42\nType: int'])
      assert.deepEqual(await context.inspect('nosuch'), { found: false, data: {} })
      assert.deepEqual(await context.isComplete('if number:'), { status: 'incomplete', indent: '    ' })
      assert.deepEqual(await context.history(1), [{ count: 1, code: 'number = 42\nwords = ["a"]' }])
      await context.delete()
    })
  })

  describe('of the façade', () => {
    let sandbox
    before(() => { sandbox = getSandbox({ socket: served.socket }, 'facade') })

    test('the result, with callbacks', async () => {
      const heard = []
      const execution = await sandbox.runCode('import sys\nprint("grüße"); print("no", file=sys.stderr)\n{"a": [1]}', {
        onStdout: ({ text, timestamp }) => { heard.push(text, typeof timestamp) },
        onStderr: async ({ text }) => { heard.push(text) },
        onResult: (result) => { heard.push(result.json) },
        onError: () => assert.fail('there is no error')
      })
      assert.ok(execution instanceof Execution && execution.results[0] instanceof Result)
      assert.deepEqual(heard, ['grüße\n', 'number', 'no\n', { a: [1] }])
      assert.deepEqual([execution.logs, execution.executionCount, execution.error, execution.context.id], [{ stdout: ['grüße\n'], stderr: ['no\n'] }, 1, undefined, 'default-python'])
      assert.deepEqual(execution.results[0].formats(), ['json', 'text'])
      const { code, results } = JSON.parse(JSON.stringify(execution))
      assert.deepEqual([code, results[0].json, 'error' in execution.toJSON()], [execution.code, { a: [1] }, false])
    })

    test('input that the code requests', async () => {
      const asked = []
      const { logs, error } = await sandbox.runCode('import getpass\nprint(input("name? "), getpass.getpass("word? "))', {
        onInput: async (request) => { asked.push(request); return request.password ? 's' : 'Ada' }
      })
      assert.deepEqual([error, logs.stdout.join('').endsWith('Ada s\n'), asked], [undefined, true, [{ prompt: 'name? ', password: false }, { prompt: 'word? ', password: true }]])
      assert.equal((await sandbox.runCode('input()', { onInput: () => null })).error.name, 'EOFError')
      assert.notEqual((await sandbox.runCode('input()')).error, undefined, 'nobody answers')
      const told = await all(parseSSEStream(await sandbox.runCodeStream('input("? ")', { onInput: () => 'yes' })))
      assert.deepEqual(told.filter(({ type }) => type !== 'stdout').map(({ type, prompt, text }) => [type, prompt ?? text]), [['input_request', '? '], ['result', "'yes'"], ['execution_complete', undefined]])
    })

    test('results that the code clears', async () => {
      const code = 'from IPython.display import clear_output, display, HTML\nfor i in range(3):\n  clear_output(wait=WAIT); display(HTML(f"<b>{i}</b>"))\nclear_output(wait=True)'
      for (const wait of [true, false]) {
        const cleared = []
        const { results } = await sandbox.runCode(code.replace('WAIT', wait ? 'True' : 'False'), { onClear: (clear) => { cleared.push(clear.wait) } })
        assert.deepEqual([results.map(({ html }) => html), cleared], [['<b>2</b>'], [wait, wait, wait, true]])
      }
      const told = await all(parseSSEStream(await sandbox.runCodeStream('from IPython.display import clear_output\nclear_output()')))
      assert.deepEqual(told.map(({ type, wait }) => [type, wait]), [['clear_output', false], ['execution_complete', undefined]])
    })

    test('errors are results; state stays', async () => {
      await sandbox.runCode('kept = 1')
      const errors = []
      const { error, results } = await sandbox.runCode('x = 0\n1 / x', { onError: (one) => { errors.push(one) } })
      assert.deepEqual([error.name, error.message, error.value, error.lineNumber, results], ['ZeroDivisionError', 'division by zero', 'division by zero', 2, []])
      assert.deepEqual(errors, [error])
      assert.equal((await sandbox.runCode('1 +')).error.name, 'SyntaxError')
      assert.equal((await sandbox.runCode('kept')).results[0].text, '1')
      assert.equal((await sandbox.runCode('import os; os._exit(1)')).error.name, 'ContextEnded')
      assert.equal((await sandbox.runCode('"kept" in globals()')).results[0].text, 'False', 'it begins anew')
    })

    test('tables, pictures, charts', async () => {
      const table = await sandbox.runCode('import pandas as pd\npd.DataFrame({"n": [1]})')
      assert.deepEqual(table.results[0].formats(), ['html', 'text'])
      const { results: [{ png, chart }] } = await sandbox.runCode('import matplotlib.pyplot as plt\nplt.bar(["a", "b"], [1, 2]); plt.title("t")\nplt.show()')
      assert.equal(Buffer.from(png, 'base64').subarray(1, 4).toString(), 'PNG')
      assert.deepEqual([chart.type, chart.title, chart.data.map(({ value }) => value)], ['bar', 't', [1, 2]])
      const two = await sandbox.runCode('f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.pie([1, 2]); 5')
      assert.deepEqual(two.results.map((result) => [result.chart?.type, result.chart?.data.map(({ type }) => type), result.text === '5']), [['superchart', ['line', 'pie'], false], [undefined, undefined, true]])
    })

    test('a timeout and a signal interrupt', async () => {
      await sandbox.runCode('import time\nkept = 3')
      assert.equal((await sandbox.runCode('while True: time.sleep(0.01)', { timeout: 200 })).error.name, 'Timeout')
      const controller = new AbortController()
      const running = sandbox.runCode('print("up")\nwhile True: time.sleep(0.01)', { signal: controller.signal, onStdout: () => { controller.abort(new Error('stop it')) } })
      await assert.rejects(running, /stop it/)
      await assert.rejects(sandbox.runCode('while True: time.sleep(0.01)', { timeout: 60_000, onStdout: () => {}, signal: AbortSignal.abort(new Error('before')) }), /before/)
      const thrower = sandbox.runCode('print("up")\nwhile True: time.sleep(0.01)', { onStdout: () => { throw new Error('mine') } })
      await assert.rejects(thrower, /mine/)
      assert.equal((await sandbox.runCode('kept')).results[0].text, '3')
    })

    test('as a stream of events', async () => {
      const told = await all(parseSSEStream(await sandbox.runCodeStream('print("a")\n7')))
      assert.deepEqual(told.map(({ type, text }) => [type, text]), [['stdout', 'a\n'], ['result', '7'], ['execution_complete', undefined]])
      assert.ok(told[2].execution_count > 1 && typeof told[0].timestamp === 'number')
      const failed = await all(parseSSEStream(await sandbox.runCodeStream('nothing')))
      assert.deepEqual([failed.at(-1).type, failed.at(-1).ename], ['error', 'NameError'])
      const stream = await sandbox.runCodeStream('print("up")\nwhile True: time.sleep(0.01)')
      for await (const { type } of parseSSEStream(stream)) if (type === 'stdout') break
      assert.equal((await sandbox.runCode('1')).results[0].text, '1', 'who cancels it interrupts')
    })

    test('contexts', async () => {
      await sandbox.setEnvVars({ SHARED: 's', GONE: undefined })
      const context = await sandbox.createCodeContext({ cwd: '/workspace/own', envVars: { A: 'a', B: undefined } })
      assert.deepEqual([context.language, context.cwd, context.createdAt instanceof Date, context.lastUsed instanceof Date], ['python', '/workspace/own', true, true])
      const { logs } = await sandbox.runCode('import os\nprint(os.getcwd(), os.environ["A"], os.environ["SHARED"], "B" in os.environ)', { context })
      assert.equal(logs.stdout.join(''), '/workspace/own a s False\n')
      assert.equal((await sandbox.runCode('kept', { context })).error.name, 'NameError', 'they do not see each other')
      const session = await sandbox.createSession({ id: 'beside' })
      assert.equal((await session.runCode('os.environ["A"]', { context })).results[0].text, "'a'")
      assert.deepEqual((await sandbox.listCodeContexts()).map(({ id }) => id).sort(), [context.id, 'default-python'].sort())
      const wrong = await sandbox.runCode('1', { context, language: 'ruby' }).catch((thrown) => thrown)
      assert.ok(wrong instanceof CodeExecutionError && wrong.code === 'CODE_EXECUTION_ERROR', String(wrong))
      await assert.rejects(sandbox.runCode('1', { envVars: { A: '1' } }), { name: 'ValidationFailedError' })
      await assert.rejects(sandbox.createCodeContext({ language: 'cobol' }), { code: 'INVALID_LANGUAGE' })
      await client.prefix({ language: 'javascript', code: 'const held = 42', name: 'held' })
      const ofPrefix = await sandbox.createCodeContext({ prefix: 'held' })
      assert.equal(ofPrefix.language, 'javascript')
      assert.equal((await sandbox.runCode('held', { context: ofPrefix })).results[0].text, '42')
      await client.disposePrefix('held')
      await sandbox.deleteCodeContext(context.id)
      for (const act of [() => sandbox.deleteCodeContext(context.id), () => sandbox.runCode('1', { context }), () => sandbox.runCodeStream('1', { context })]) {
        const gone = await act().then(() => assert.fail('it is gone'), (thrown) => thrown)
        assert.ok(gone instanceof ContextNotFoundError && gone.contextId === context.id && gone.httpStatus === 404, String(gone))
      }
    })

    test('a sandbox that was stopped has its default context made again', async () => {
      for (let i = 0; i < 2; i++) await sandbox.createCodeContext()
      await sandbox.runCode('kept = 1')
      await sandbox.stop()
      assert.equal((await sandbox.runCode('"kept" in globals()')).results[0].text, 'False')
    })
  })
})
