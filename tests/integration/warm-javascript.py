"""Node as a template: features that a forked Node could lose (timers, thread pool, garbage
collection, the end of its loop), and state that siblings must not share."""
from cloche import SHIPPED, equal
from warm import Failed, Warm

SETUP = """
    const crypto = require('crypto')
    const drawn = [Math.random(), crypto.randomUUID(), globalThis.crypto.randomUUID(), crypto.randomInt(9), await require('fs/promises').stat('/')]
    setTimeout(() => { globalThis.fired = true }, 10)
"""


def test_event_loop():
    with Warm("javascript", SETUP) as warm:
        equal(warm.value("async function f() { const t = Date.now(); await new Promise((r) => setTimeout(r, 50)); return [Date.now() - t >= 49, globalThis.fired] }"), [True, True])
        equal(warm.value("async function f() { const fs = require('fs/promises'); await fs.writeFile('/tmp/a', 'x'); return (await Promise.all([1, 2, 3, 4, 5, 6].map(() => fs.readFile('/tmp/a', 'utf8')))).join('') }"), "xxxxxx")
        equal(warm.value("async function f() { const { execFile } = require('child_process'); return (await require('util').promisify(execFile)('echo', ['x'])).stdout }"), "x\n")
        equal(warm.value("async function f() { return String(await WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))) }"), "[object WebAssembly.Module]")
        equal(warm.value("async function f() { const alive = setTimeout(() => {}, 20000); const got = new Promise((r) => process.on('SIGTERM', r)); process.kill(process.pid, 'SIGTERM'); const name = await got; clearTimeout(alive); return name }"), "SIGTERM")


def test_garbage_and_the_end_of_the_loop():
    fill = "let s = 0; for (let k = 0; k < 4; k++) { let a = []; for (let i = 0; i < 8e5; i++) a.push({ i }); s += a.length }"
    with Warm("javascript", env=SHIPPED) as warm:
        equal(warm.value("function f() { %s return s }" % fill), 3200000)
        # After a collection Node would wait for worker threads before it lets the loop end.
        equal(warm.run("function f() { %s return new Promise(() => {}) }" % fill).error["message"], "the function's promise never settled")
        worker = "let a = []; for (let i = 0; i < 8e5; i++) a.push({ i })"
        equal(warm.value("function f() { const { Worker } = require('worker_threads'); return new Promise((r) => new Worker(%r, { eval: true }).on('exit', r)) }" % worker), 0)


def test_numbers_of_siblings():
    code = "function f() { return [Math.random(), crypto.randomUUID(), globalThis.crypto.randomUUID(), crypto.randomInt(2 ** 40), crypto.randomBytes(8).toString('hex')] }"
    for spares in (0, 3):
        with Warm("javascript", SETUP, spares=spares, env=SHIPPED) as warm:
            rows = [warm.value(code, pause=50) for _ in range(4)]
            for column in zip(*rows):
                equal(len(set(column)), 4)


def test_descriptors_are_not_the_templates():
    with Warm("javascript", "const before = require('fs').readdirSync('/proc/self/fd').map((n) => { try { return require('fs').readlinkSync('/proc/self/fd/' + n) } catch {} })") as warm:
        equal(warm.value("function f() { const fs = require('fs'); return fs.readdirSync('/proc/self/fd').map((n) => { try { return fs.readlinkSync('/proc/self/fd/' + n) } catch {} }).filter((t) => /^(pipe|socket):/.test(t) && before.includes(t)) }"), [])
        equal(warm.value("function f() { const fs = require('fs'); for (let i = 4; i < 64; i++) try { fs.writeSync(i, Buffer.alloc(16, 255)) } catch {} ; return 1 }"), 1)
        equal(warm.value("1 + 1"), 2)


def test_what_cannot_be_forked():
    for setup, why in {
        "globalThis.w = new (require('worker_threads').Worker)('setInterval(() => {}, 1000)', { eval: true })": "a worker thread is alive",
        "require('fs').readFile('/etc/passwd', () => {})": "requests are under way",
        "globalThis.s = require('net').createServer().listen(0); await new Promise((r) => s.on('listening', r))": "descriptors are open",
    }.items():
        try:
            with Warm("javascript", setup) as warm:
                warm.run("1")
            raise AssertionError(setup)
        except Failed as failure:
            assert why in failure.message, failure.message
