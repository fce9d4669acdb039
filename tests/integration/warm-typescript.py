"""TypeScript forked from a template: the translator works in the children, siblings do not see each other, the bare realm too."""
from cloche import SHIPPED, equal
from warm import Failed, Warm

SETUP = """
    import { randomUUID } from 'node:crypto'
    export enum Color { Red = 'red', Blue = 'blue' }
    export interface Named { name: string; note?: string }
    export class Box { constructor(public readonly named: Named, public seen: number[] = []) {} }
    export const box = new Box({ name: 'n' })
    export const drawn: string = randomUUID()
"""


def test_a_set_up_is_there_and_stays_as_it_was():
    for spares in (0, 2):
        with Warm("typescript", SETUP, spares=spares) as warm:
            for n in range(3):
                equal(warm.value("declare const box: any\nfunction f(x: number, y?: number): unknown[] { box.seen.push(x); return [box.seen, box.named.name, Color.Blue] }",
                                 args=[n]), [[n], "n", "blue"])


def test_all_of_the_language_in_a_child():
    with Warm("typescript", env=SHIPPED) as warm:
        equal(warm.value("enum E { A = 4 }\nnamespace N { export const c = 2 }\nreturn (E.A + N.c) as number"), 6)
        long = "interface I { a?: string }\n" + "".join(f"export const f{n} = (x: number, y?: I): number => x + {n}\n" for n in range(2000))
        equal(warm.value(long, function="f7", args=[1]), 8)
        equal(warm.value("import { sep } from 'path'\nexport const f = async <T,>(x: T): Promise<[T, string]> => [x, sep]", args=[1]), [1, "/"])


def test_numbers_of_siblings():
    with Warm("typescript", SETUP, spares=2) as warm:
        rows = [warm.value("const f = (): unknown[] => [Math.random(), crypto.randomUUID()]") for _ in range(4)]
        for column in zip(*rows):
            equal(len(set(column)), 4)


def test_errors():
    with Warm("typescript", SETUP) as warm:
        error = warm.run("enum E { A }\nfunction f(a: E): never {\n  throw new TypeError('x' as string)\n}", args=[1]).error
        equal((error["type"], error["stack"]), ("TypeError", "TypeError: x\n    at f (main.ts:3:9)"))
        error = warm.run("const a: number = 1\nlet x: = 2").error
        equal(error["type"], "SyntaxError")
        assert error["message"].endswith("(main.ts:2:8)"), error


def test_a_set_up_that_fails():
    for setup, said in {"let x: = 1": ":1:8)", "enum E { A }\nthrow new Error('no ' + E.A)": "no 0", "class A { @x m() {} }": "x is not defined"}.items():
        try:
            with Warm("typescript", setup) as warm:
                warm.run("1")
            raise AssertionError(setup)
        except Failed as failure:
            assert said in failure.message, failure.message


def test_the_hosts_functions():
    with Warm("typescript", "export type Reply = { a: number }[]") as warm:
        equal(warm.value("declare const echo: (...x: unknown[]) => Promise<unknown>\nexport const f = async (n: number): Promise<unknown> => await echo(n, 'x' as string)", args=[3]), [3, "x"])


def test_the_bare_realm():
    with Warm("bare-typescript", env=SHIPPED, setup="enum Unit { Metre = 'm' }\n;(globalThis as any).Unit = Unit") as warm:
        equal(warm.value("declare const Unit: any\ninterface L { v: number; u?: string }\nconst l: L = { v: 2, u: Unit.Metre }\nexport default l\nexport const n: number = l.v!"),
              {"default": {"v": 2, "u": "m"}, "n": 2})
        error = warm.run("export default 1\nlet x: = 2").error
        equal(error.get("code"), "ERR_COMPILE", error)
        assert "main.ts:2:8" in error["message"], error
        error = warm.run("enum E { A }\n\nthrow new RangeError('far')").error
        assert "main.ts:3:" in error["stack"], error


def test_code_that_comes_again():
    """From the second time on its translation is kept (src/engine/warm/translation.h): nothing else is."""
    throwing = "enum E { A }\nfunction f(a: E): never {\n  throw new TypeError('x' as string)\n}"
    with Warm("typescript", SETUP, spares=1) as warm:
        for n in range(4):
            equal(warm.value("enum E { A = 4 }\nexport const f = (x: number, y?: number): unknown[] => { box.seen.push(x); return [box.seen, E.A] }", args=[n]), [[n], 4])
            equal(warm.run(throwing, args=[1]).error["stack"], "TypeError: x\n    at f (main.ts:3:9)")
            assert warm.run("const a: number = 1\nlet x: = 2").error["message"].endswith("(main.ts:2:8)")
            equal(warm.value(throwing.replace("throw", "return").replace("string)", "string).message"), args=[n]), "x")
