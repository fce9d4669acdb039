"""The bare realm through the library: modules, exports, console, bridge, and the contract's error codes (isolate contract)."""
from cloche import equal
from warm import Failed, Warm


def codes(runs, setup="", **limits):
    with Warm("bare", setup, spares=1) as warm:
        return [warm.run(code, limits=limits).error.get("code") for code in runs]


def test_exports_are_the_result():
    with Warm("bare", "globalThis.base = 40") as warm:
        equal(warm.value("export default base + 2; export const name = 'n'"), {"default": 42, "name": "n"})
        equal(warm.value("base"), {})
        equal(warm.value("export default await new Promise((r) => setTimeout(() => r('late'), 5))"), {"default": "late"})


def test_each_run_is_clean():
    with Warm("bare", "globalThis.list = [1]", spares=2) as warm:
        for _ in range(4):
            equal(warm.value("list.push(2); globalThis.leak = 1; export default [list.length, 'x' in globalThis]"), {"default": [2, False]})
            equal(warm.value("export default typeof leak"), {"default": "undefined"})


def test_rich_values():
    with Warm("bare") as warm:
        result = warm.run("const o = { d: new Date(0), m: new Map([[1, new Set(['a'])]]), f: new Float32Array([1.5]), n: NaN, b: 10n ** 20n }; o.self = o; export default o")
        value = result.raw["result"]["default"]
        equal(value["self"], {"$": "ref", "n": 1})
        equal((value["d"]["$"], value["m"]["$"], value["f"]["t"], value["n"]["v"], value["b"]["v"]), ("date", "map", "f32", "NaN", str(10**20)))


def test_console_lines():
    with Warm("bare") as warm:
        result = warm.run("console.log('a', 1, {b: [2]}); console.warn('w'); console.debug('x\\ny'); export default 1")
        equal(result.raw["console"], {"stdout": ['a 1 {"b":[2]}', "x\ny"], "stderr": ["w"]})


def test_lines_survive_the_end():
    with Warm("bare") as warm:
        for code, limits, expected in [
            ("console.log('before'); const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))", {"memoryBytes": 128 << 20}, "ERR_MEMORY_LIMIT"),
            ("console.log('before'); for (;;);", {"cpuMs": 200}, "ERR_CPU_TIMEOUT"),
        ]:
            result = warm.run(code, limits=limits)
            equal((result.error["code"], result.raw["console"]["stdout"]), (expected, ["before"]))
        for wall_ms in (400, 4000, 20000):  # on a busy machine the limit may come before the line
            result = warm.run("console.log('before'); for (;;);", limits={"wallMs": wall_ms, "cpuMs": 0})
            if result.raw["console"]["stdout"]:
                break
        equal((result.error["code"], result.raw["console"]["stdout"]), ("ERR_WALL_TIMEOUT", ["before"]))


def test_lines_over_the_limit_are_dropped_whole():
    with Warm("bare") as warm:
        result = warm.run("console.log('x'.repeat(90)); console.log('y'.repeat(90)); console.log('z'); export default 1", limits={"outputBytes": 100})
        equal(result.raw["console"]["stdout"], ["x" * 90, "z"])
        equal(result.status, "success")


def test_what_is_there_and_what_is_not():
    with Warm("bare") as warm:
        there = ("URL", "URLSearchParams", "TextEncoder", "TextDecoder", "setTimeout", "structuredClone", "queueMicrotask", "atob", "btoa", "crypto",
                 "AbortController", "Headers", "Request", "Response", "performance", "console")
        absent = ("process", "Buffer", "require", "fetch", "WebAssembly", "SharedArrayBuffer", "global")
        equal(warm.value(f"export default {list(there)!r}.filter((n) => !(n in globalThis))"), {"default": []})
        equal(warm.value(f"export default {list(absent)!r}.filter((n) => n in globalThis)"), {"default": []})


def test_codes_of_failures():
    equal(codes(["throw new TypeError('x')", "export default (", "return 1", "import 'nothing'", "export default () => 1", "export default Promise.resolve(1)",
                 "await fail()", "await echo(() => 1)", "export default missing", "(function f() { f() })()"]),
          ["ERR_USER_CODE", "ERR_COMPILE", "ERR_COMPILE", "ERR_MODULE_NOT_FOUND", "ERR_EXPORT_NOT_SERIALIZABLE", "ERR_EXPORT_NOT_SERIALIZABLE",
           "ERR_HOST_BRIDGE", "ERR_FUNCTION_ARGUMENT_NOT_SUPPORTED", "ERR_USER_CODE", "ERR_USER_CODE"])


def test_codes_of_limits():
    equal(codes(["await echo(); await echo(); await echo()"], bridgeCalls=2), ["ERR_BRIDGE_CALL_LIMIT_EXCEEDED"])
    equal(codes(["try { await echo(); await echo() } catch {}\nexport default 1"], bridgeCalls=1), ["ERR_BRIDGE_CALL_LIMIT_EXCEEDED"])
    equal(codes(["await echo('x'.repeat(5000))"], bridgeBytes=2048), ["ERR_BRIDGE_PAYLOAD_TOO_LARGE"])
    equal(codes(["export default 'x'.repeat(5000)"], resultBytes=1024), ["ERR_EXPORT_TOO_LARGE"])
    equal(codes(["await hang()"], wallMs=300), ["ERR_WALL_TIMEOUT"])


def test_calls_are_in_flight_together():
    with Warm("bare") as warm:
        equal(warm.value("export default await Promise.all([echo(1), echo(2), echo(3)])"), {"default": [[1], [2], [3]]})
        equal(warm.value("hang(); export default await echo('on')"), {"default": ["on"]})


def test_errors_of_the_host():
    with Warm("bare") as warm:
        equal(warm.value("try { await fail() } catch (e) { globalThis.e = e }\nexport default [e instanceof Error, e.name, e.message, e.status]"),
              {"default": [True, "ValueError", "no such thing", 404]})
        error = warm.run("await fail()").error
        equal((error["code"], error["fields"]), ("ERR_HOST_BRIDGE", {"status": 404}))
        equal(warm.run("try { await fail() } catch (e) { throw new Error('mine: ' + e.message) }").error["code"], "ERR_USER_CODE")


def test_modules_of_the_host():
    with Warm("bare") as warm:
        equal(warm.value("import { deep } from 'hostmodule'; export default [await deep.echo('x'), ANSWER]"), {"default": [["x"], 42]})


def test_set_up_that_fails():
    for setup, code in [("throw new Error('no')", "Error"), ("export default (", "SyntaxError"), ("await new Promise(() => {})", "ERR_PREFIX_DID_NOT_SETTLE"),
                        ("await echo(1)", "ERR_PREFIX_BRIDGE_CALL")]:
        try:
            with Warm("bare", setup) as warm:
                warm.run("1")
        except Failed as failed:
            assert failed.code == "prefix", failed
        else:
            raise AssertionError(setup)


def test_randomness_is_each_runs_own():
    with Warm("bare", "globalThis.before = Math.random()", spares=3) as warm:
        rows = [r.value["default"] for r in warm.runs("export default [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(8)).join(), before]", times=6)]
    for column in list(zip(*rows))[:3]:
        equal(len(set(column)), 6)
    equal(len({row[3] for row in rows}), 1)
