"""TypeScript through the command line: supported syntax, refused syntax, places of errors."""
import json
import os
import tempfile

from cloche import call, cli, equal, run, value_of

FAILING = "interface A { x?: number }\nconst f = (a: A): never => {\n  throw new RangeError(`no ${a.x as number}`)\n}"


def refused(code, type_name, *words, **options):
    result = call("typescript", code, **options)
    equal((result.status, result.error["type"]), ("error", type_name), result)
    for word in words:
        assert word in result.error["message"], result
    return result.error


def test_functions_bodies_and_modules():
    equal(value_of("typescript", "function f(a: number, b?: number): number { return a + (b ?? 10) }", args=[5]), 15)
    equal(value_of("ts", "const a: number = args[0]\nreturn a satisfies number", args=[5]), 5)
    equal(value_of("ts", "import { sep } from 'node:path'\nexport default async (x: string): Promise<string> => sep + x", args=["a"]), "/a")


def test_what_is_more_than_types():
    equal(value_of("ts", "enum E { A = 'a', B = 'b' }\nnamespace N { export const c = 3 }\nclass P { constructor(readonly d: number) {} }\n"
                         "export const f = (e: E = E.B) => [e, N.c, new P(4).d]"), ["b", 3, 4])


def test_optional_parameters():
    result = call("ts", "const f = (a: number, b?: string) => [a, b ?? 'none']", kwargs={"a": 1})
    equal((result.value, result.meta["signatureSource"]), ([1, "none"], "inferred"), result)
    refused("const f = (a: number, b?: string) => 1", "TypeError", "missing required argument 'a'", kwargs={"b": "x"})
    refused("const f = (a: number, b?: string) => 1", "TypeError", "unknown argument 'c'", kwargs={"a": 1, "c": 2})


def test_a_schema():
    schema = {"params": [{"name": "count", "type": "integer", "required": True}, {"name": "label", "type": "string", "default": "none"}]}
    result = call("ts", "const f = (n: number, l: string) => [n, l]", kwargs={"count": 2}, schema=schema)
    equal((result.value, result.meta["signatureSource"]), ([2, "none"], "schema"), result)
    refused("const f = (n: number, l: string) => 1", "TypeError", "count", kwargs={"count": "two"}, schema=schema)


def test_errors_are_in_the_users_places():
    error = refused(FAILING, "RangeError", "no 4", args=[{"x": 4}])
    equal(error["stack"], "RangeError: no 4\n    at f (main.ts:3:9)")
    error = refused(FAILING + "\nenum E { A }", "RangeError", "no 4", args=[{"x": 4}])
    equal(error["stack"], "RangeError: no 4\n    at f (main.ts:3:9)")


def test_syntax_errors():
    refused("const a = 1\nlet x: = 3", "SyntaxError", "(main.ts:2:8)")
    refused("const f = () => <b>hi</c>", "SyntaxError", "Expected corresponding JSX closing tag for 'b' (main.ts:1:24)")
    refused("class A { m(@dec a: number): void {} }", "SyntaxError", 'need "experimentalDecorators" in a tsconfig.json: @dec (main.ts:1:13)')


MARKED = "const _mark = (v: any, c: any) => { v.mark = c?.kind ?? 'older' }\n@_mark class A { %s }\nconst f = () => (A as any).mark"
VIEW = "/** @jsx _h */\nconst _h = (...all: unknown[]) => all\nconst f = (name: string) => <b id=\"x\">{name}</b>"


def test_decorators_jsx_and_using():
    equal(value_of("ts", MARKED % "accessor a: number = 1"), "class")
    equal(value_of("ts", VIEW, args=["a"]), ["b", {"id": "x"}, "a"])
    equal(value_of("ts", "function f(l: string[]) { { using a = { [Symbol.dispose]() { l.push('end') } } }\nreturn l }", args=[["begin"]]), ["begin", "end"])


def test_tsconfig():
    with tempfile.TemporaryDirectory() as folder:
        sources = {"tsconfig.json": '{ // mine\n "compilerOptions": { "experimentalDecorators": true, "paths": { "@/*": ["./src/*"] }, "jsxFactory": "_h" } }',
                   "one.ts": "export const one = (): number => 1", "view.tsx": "const _h = (...all: unknown[]) => all\nexport const view = <b/>"}
        for name, text in sources.items():
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        files = [f"tsconfig.json={folder}/tsconfig.json", f"src/one.ts={folder}/one.ts", f"src/view.tsx={folder}/view.tsx"]
        equal(value_of("ts", MARKED % "m(@_mark a: number) {}", file=files), "older")
        equal(value_of("ts", "import { one } from '@/one'\nimport { view } from '@/view'\nexport const f = () => [one(), view]", file=files), [1, ["b", None]])


def test_values_come_back():
    value = {"n": [1, 1.5, None, True, "é日😀"], "b": {"$": "bytes", "b64": "AAEC"}, "i": {"$": "bigint", "v": "90071992547409930"},
             "m": {"$": "map", "v": [[1, {"$": "set", "v": [1]}]]}, "d": {"$": "date", "v": "2026-11-21T10:20:30.123Z"}}
    equal(call("ts", "const f = <T,>(x: T): T => x", args=[value]).raw["result"], value)


def test_the_filename_of_the_caller():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine.ts")
        with open(path, "w") as f:
            f.write("let x: = 1")
        result = json.loads(cli("call", "ts", "-f", path, "--json").stdout)
        assert "mine.ts:1:8" in result["error"]["message"] or "main.ts:1:8" in result["error"]["message"], result


def test_files_in_typescript():
    with tempfile.TemporaryDirectory() as folder:
        sources = {"types.ts": "export interface User { name: string }", "lib.ts": "import { User } from './types'\nexport enum Role { Admin = 'admin' }\n"
                   "export const hello = (u: User): string => u.name + Role.Admin"}
        for name, text in sources.items():
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        files = [f"{name}={folder}/{name}" for name in sources]
        equal(value_of("ts", "import { hello } from './lib'\nimport { User } from './types'\nexport const f = (u: User) => hello(u)", args=[{"name": "a"}], file=files), "aadmin")


def test_json_is_imported_with_an_attribute_and_in_typescript_without():
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {"d.json": '{"a": 1}', "own.ts": "import d from './d.json'\nexport const own = d"}.items():
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
        files = [f"{name}={folder}/{name}" for name in ("d.json", "own.ts")]
        for code in ("import d from './d.json' with { type: 'json' }\nexport const f = () => d", "const f = async () => (await import('./d.json', { with: { type: 'json' } })).default"):
            for language in ("js", "ts"):
                equal(value_of(language, code, file=files), {"a": 1})
        for code in ("import d from './d.json'\nexport const f = () => d", "import { own } from './own'\nexport const f = () => own", "const f = async () => (await import('./d.json')).default"):
            equal(value_of("ts", code, file=files), {"a": 1})
        error = call("js", "import d from './d.json'\nexport const f = () => d", file=files).error
        assert "import attribute" in error["message"], error


def test_scripts():
    finished = run("ts", "import { readFileSync } from 'fs'\nenum E { A = 1 }\nconst text: string = readFileSync(0, 'utf8')\n"
                         "console.log(E[1], text, process.argv.slice(2).join())\nprocess.exitCode = 3", "x", "-y", stdin=b"in")
    equal((finished.code, finished.stdout), (3, b"A in x,-y\n"), finished)
    finished = run("ts", FAILING + "\nif (require.main === module) f({ x: 1 })")
    equal((finished.code, finished.stdout, finished.stderr), (1, b"", b"RangeError: no 1\n    at f (main.ts:3:9)\n    at main.ts:5:30\n"), finished)
    finished = run("ts", "console.log('not run')\nlet x: = 3")
    equal((finished.code, finished.stdout), (65, b""), finished)
    assert b"main.ts:2:8" in finished.stderr, finished
