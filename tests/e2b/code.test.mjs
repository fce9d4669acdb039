// Cells and contexts by the genuine @e2b/code-interpreter. Each test has its failing twin.
import { strict as assert } from "node:assert";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { programsOf } from "./readme.mjs";

const { Sandbox, Secret, Volume } = createRequire(join(process.env.E2B_CLIENTS, "x.js"))("@e2b/code-interpreter");
let box;

before(async () => { box = await Sandbox.create({ timeoutMs: 300_000 }); });
after(async () => { await box.kill(); });

test("a cell has its result, its output and its number", async () => {
        const out = [], done = await box.runCode("x = 41\nprint('p')\nimport sys; print('q', file=sys.stderr)\nx + 1", { onStdout: (message) => out.push(message.line) });
        assert.deepEqual([done.text, done.logs.stdout.join(""), done.logs.stderr.join(""), done.error, out.join("")], ["42", "p\n", "q\n", undefined, "p\n"]);
        assert.equal((await box.runCode("x")).text, "41"); // the default context stays
        assert.equal((await box.runCode("'text'")).text, "text");
        assert.ok(done.executionCount >= 1);
});

test("an error has its name, value and traceback, and the context goes on", async () => {
        const { error } = await box.runCode("y = 1\n1 / 0");
        assert.deepEqual([error.name, error.value], ["ZeroDivisionError", "division by zero"]);
        assert.match(error.traceback, /ZeroDivisionError/);
        assert.equal((await box.runCode("y")).text, "1");
});

test("displays come as results, the value last", async () => {
        const { results } = await box.runCode("from IPython.display import HTML, display\ndisplay(HTML('<b>1</b>'))\n{'a': 1}");
        assert.deepEqual(results.map((r) => [r.html, r.isMainResult]), [["<b>1</b>", false], [undefined, true]]);
        assert.equal(results[1].text, "{'a': 1}");
});

test("contexts are made, listed, restarted and removed", async () => {
        const js = await box.createCodeContext({ language: "js", cwd: "/tmp" });
        assert.deepEqual([js.language, js.cwd], ["javascript", "/tmp"]);
        assert.equal((await box.runCode("let z = 2; z + 1", { context: js })).text, "3");
        assert.ok((await box.listCodeContexts()).some((context) => context.id === js.id));
        await box.restartCodeContext(js);
        assert.match((await box.runCode("z", { context: js })).error.value, /z is not defined/);
        await box.removeCodeContext(js);
        await assert.rejects(box.runCode("1", { context: js }), /Context .* not found/);
        await assert.rejects(box.createCodeContext({ language: "cobol" }), /no contexts of the language "cobol", expected one of: .*python/);
        await assert.rejects(box.runCode("1", { language: "r" }), /no contexts of the language "r"/);
        await assert.rejects(box.removeCodeContext("none"), /Context none not found/);
});

test("a language alone has a context of its own", async () => {
        assert.equal((await box.runCode("echo $((1 + 1))", { language: "bash" })).logs.stdout.join(""), "2\n");
        assert.equal((await box.runCode("1 + 1", { language: "Python" })).text, "2");
});

test("a cell that nobody waits for is interrupted", async () => {
        await assert.rejects(box.runCode("while True: pass", { timeoutMs: 500 }), /timed? ?out|timeout/i);
        assert.equal((await box.runCode("1 + 1")).text, "2");
});

test("variables of one cell are gone after it", async () => {
        const envs = { E2B_ONE: "it's \"1\"", HOME: "/tmp" };
        const read = { python: "import os; print(os.environ.get('E2B_ONE'), os.environ['HOME'])", js: "console.log(process.env.E2B_ONE, process.env.HOME)", bash: "echo ${E2B_ONE-undefined} $HOME" };
        for (const [language, code] of Object.entries(read)) {
                assert.equal((await box.runCode(code, { language, envs })).logs.stdout.join(""), "it's \"1\" /tmp\n");
                assert.match((await box.runCode(code, { language })).logs.stdout.join(""), /^(None|undefined) \/home\/user\n$/);
        }
        assert.equal((await box.runCode("1/0", { envs })).error.name, "ZeroDivisionError");
        assert.match((await box.runCode(read.python)).logs.stdout.join(""), /^None/);
        await assert.rejects(box.runCode("1", { envs: { "a b": "1" } }), /400/);
        await assert.rejects(box.runCode("1", { language: "ruby", envs }), /400/);
});

test("the programs of the package's README do what they say", async () => {
        const programs = await programsOf("@e2b/code-interpreter");
        assert.ok(programs.length >= 2);
        for (const { text, printed, expected } of programs) assert.deepEqual(printed, expected, text);
        assert.deepEqual([await Volume.destroy("my-volume"), await Secret.destroy("openai-api-key")], [true, true]);
});
