// The code interpreter, with the clients of both ages against one sandbox: whose contexts are whose does not matter to it.
import { strict as assert } from "node:assert";
import { after, test } from "node:test";
import { baseUrl, events, newest, old, rejects } from "./clients.mjs";
import { namespaceOf } from "./stubs.mjs";

const { InterpreterClient } = await old("interpreter-client");
const { Sandbox: OldSandbox, getSandbox: getOldSandbox } = await old("index");
const { SandboxClient, Sandbox, getSandbox, parseSSEStream } = await newest();

const defaultHeaders = { "X-Sandbox-Id": "tests" };
const overHttp = new SandboxClient({ baseUrl, defaultHeaders });
const overSocket = new SandboxClient({ baseUrl, transportMode: "websocket", wsUrl: `${baseUrl.replace(/^http/, "ws")}/ws`, defaultHeaders });
const clients = { "0.3": new InterpreterClient({ baseUrl }), "0.12": overHttp.interpreter, "0.12 over a WebSocket": overSocket.interpreter };
after(() => overSocket.disconnect());

async function sandboxOf(Class, get, name) {
        const namespace = namespaceOf(Class, baseUrl);
        namespace.get(name);
        await namespace.ready;
        return get(namespace, name);
}

const post = (path, body, headers = {}) =>
        fetch(baseUrl + path, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
const write = async (path, content) => assert.equal((await post("/api/write", { path, content })).status, 200);

/** Code that goes on after its output was read, and a file written then. */
const waitFor = (path) => `import os, time
print("waits")
for _ in range(3000):
    if os.path.exists("${path}"): break
    time.sleep(0.01)
else: raise TimeoutError("nobody has read what was printed")`;

/** Run code and record the arguments of a client's callbacks. */
async function run(client, id, code, { language, onStdout } = {}) {
        const heard = { stdout: "", stderr: "", results: [], errors: [], order: [] };
        const hear = (name, act) => (what) => {
                if (heard.order.at(-1) !== name) heard.order.push(name);
                return act(what);
        };
        await client.runCodeStream(id, code, language, {
                onStdout: hear("stdout", ({ text, timestamp }) => {
                        assert.equal(typeof timestamp, "number");
                        heard.stdout += text;
                        return onStdout?.(heard.stdout);
                }),
                onStderr: hear("stderr", ({ text }) => void (heard.stderr += text)),
                onResult: hear("result", (result) => void heard.results.push(result)),
                onError: hear("error", (error) => void heard.errors.push(error)),
        });
        return heard;
}

for (const [age, client] of Object.entries(clients)) {
        const mine = age.replace(/\W+/g, "-");

        test(`${age}: a context from its beginning to its end`, async () => {
                const context = await client.createCodeContext({ cwd: `/workspace/${mine}`, envVars: { COLOUR: "blue" } });
                assert.match(context.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
                assert.deepEqual([context.language, context.cwd], ["python", `/workspace/${mine}`]);
                assert.ok(!Number.isNaN(context.createdAt.getTime()) && !Number.isNaN(context.lastUsed.getTime()));
                const first = await run(client, context.id, "import os, sys\nx = 20\nprint(os.environ['COLOUR'], os.getcwd()); print('grüße', file=sys.stderr)");
                assert.deepEqual([first.stdout, first.stderr, first.results, first.errors], [`blue /workspace/${mine}\n`, "grüße\n", [], []]);
                const second = await run(client, context.id, "x * 2 + 2");
                assert.deepEqual([second.results[0].text, second.results[0].formats()], ["42", ["text"]]);
                assert.ok((await client.listCodeContexts()).some(({ id, language }) => id === context.id && language === "python"));
                await client.deleteCodeContext(context.id);
                assert.ok(!(await client.listCodeContexts()).some(({ id }) => id === context.id));
                for (const act of [() => client.deleteCodeContext(context.id), () => client.runCodeStream(context.id, "1", undefined, {})])
                        await rejects(act(), new RegExp(`Context ${context.id} not found`));
        });

        test(`${age}: output is told while the cell runs, in order with what it displays`, async () => {
                const { id } = await client.createCodeContext({});
                const code = `from IPython.display import HTML\ndisplay(HTML("<b>ü</b>"))\n${waitFor(`/tmp/${mine}`)}\ndisplay(HTML("end"))\nprint("last")`;
                const heard = await run(client, id, code, { onStdout: (text) => (text === "waits\n" ? write(`/tmp/${mine}`, "go") : undefined) });
                assert.deepEqual([heard.stdout, heard.errors, heard.order], ["waits\nlast\n", [], ["result", "stdout", "result", "stdout"]]);
                assert.equal(heard.results[0].html, "<b>ü</b>");
                await client.deleteCodeContext(id);
        });

        test(`${age}: errors, and an interpreter that ends`, async () => {
                const { id } = await client.createCodeContext({});
                const raised = await run(client, id, "kept = 1\nprint('before')\n1 / 0");
                assert.deepEqual([raised.stdout, raised.errors.length, raised.errors[0].name], ["before\n", 1, "ZeroDivisionError"]);
                assert.equal(raised.errors[0].message ?? raised.errors[0].value, "division by zero");
                assert.match(raised.errors[0].traceback.join("\n"), /Cell In\[1\]/);
                assert.equal((await run(client, id, "1 +")).errors[0].name, "SyntaxError");
                assert.equal((await run(client, id, "kept")).results[0].text, "1", "an error leaves what was there");
                assert.equal((await run(client, id, "import os; os._exit(3)")).errors[0].name, "ContextEnded");
                assert.equal((await run(client, id, "'kept' in globals()")).results[0].text, "False", "it begins anew");
                await client.deleteCodeContext(id);
        });
}

test("a table and a picture come in all their forms", async () => {
        const client = clients["0.12"];
        const { id } = await client.createCodeContext({});
        const table = await run(client, id, "import pandas as pd\npd.DataFrame({'n': [1, 2]})");
        assert.deepEqual(table.results.map((result) => result.formats()), [["text", "html"]]);
        assert.match(table.results[0].html, /<table/);
        const data = await run(client, id, "{'a': [1, None], 'ü': float(2)}");
        assert.deepEqual(data.results[0].json, { a: [1, null], ü: 2 });
        const odd = "display({'text/plain': 't', 'application/vnd.x+json': {'$': 'bytes', 'n': [float('nan'), 2 ** 70, True]}, 'application/pdf': 'AP8='}, raw=True, metadata={'m': 1})";
        const [{ text, data: others }] = (await run(client, id, odd)).results;
        assert.deepEqual([text, others], ["t", { "application/vnd.x+json": { $: "bytes", n: [null, `${2n ** 70n}`, true] } }]);
        assert.deepEqual(data.results[0].formats(), ["json"], "text is for what has no other form");
        const drawn = await run(client, id, "import matplotlib.pyplot as plt\nplt.plot([1, 2, 4]); plt.title('growth'); plt.xlabel('t [s]')\nplt.show()");
        const [{ png, chart }] = drawn.results;
        assert.equal(Buffer.from(png, "base64").subarray(1, 4).toString(), "PNG");
        assert.deepEqual([chart.type, chart.title, chart.data[0].points, chart.layout.xUnit], ["line", "growth", [[0, 1], [1, 2], [2, 4]], "s"]);
        assert.deepEqual(drawn.results[0].formats(), ["png", "chart"]);
        const two = await run(client, id, "f, a = plt.subplots(); a.plot([1, 2]); a.twinx().plot([3, 4]); 'last'");
        const [figure, last] = two.results;
        assert.deepEqual([figure.chart.type, figure.chart.data.map(({ type, data }) => [type, data[0].points])], ["superchart", [["line", [[0, 1], [1, 2]]], ["line", [[0, 3], [1, 4]]]]]);
        assert.deepEqual([two.results.length, last.text, last.formats()], [2, "'last'", ["text"]], "the last expression comes behind figures");
        const wrong = await run(client, id, "print('before')\n1 / 0");
        assert.ok(!JSON.stringify([wrong.errors, wrong.stdout]).includes("\\u001b"), "no colours");
        await client.deleteCodeContext(id);
});

test("JavaScript and TypeScript", async () => {
        for (const client of [clients["0.3"], clients["0.12"]]) {
                const { id, language } = await client.createCodeContext({ language: "javascript" });
                assert.equal(language, "javascript");
                const first = await run(client, id, "const x = await Promise.resolve(41); console.log('log'); console.error('err')", { language: "javascript" });
                assert.deepEqual([first.stdout, first.stderr, first.errors], ["log\n", "err\n", []]);
                assert.deepEqual((await run(client, id, "({ a: x + 1 })")).results[0].json, { a: 42 });
                assert.equal((await run(client, id, "nothing.there")).errors[0].name, "ReferenceError");
                await rejects(client.runCodeStream(id, "print(1)", "python", {}), /is of javascript, and the code of python/);
                await client.deleteCodeContext(id);
        }
        const { id } = await clients["0.12"].createCodeContext({ language: "typescript" });
        assert.equal((await run(clients["0.12"], id, "const n: number = 6; n * 7", { language: "ts" })).results[0].text, "42");
        await clients["0.12"].deleteCodeContext(id);
});

test("who closes a stream interrupts its cell, and the context goes on", async () => {
        const { id } = await clients["0.12"].createCodeContext({});
        const stream = await overHttp.interpreter.streamCode(id, "import time\nkept = 7\nprint('up')\nwhile True: time.sleep(0.01)");
        for await (const event of parseSSEStream(stream)) if (event.type === "stdout") break;
        await stream.cancel().catch(() => {});
        assert.equal((await run(clients["0.12"], id, "kept")).results[0].text, "7");
        await clients["0.12"].deleteCodeContext(id);
});

test("a character is whole, however it was printed", async () => {
        const { id } = await clients["0.12"].createCodeContext({});
        const code = `import os\nos.write(1, b"h\\xc3")\n${waitFor("/tmp/half").replace('print("waits")', "")}\nos.write(1, b"\\xa9\\xff\\xe2\\x82")`;
        const heard = await run(clients["0.12"], id, code, { onStdout: (text) => (text === "h" ? write("/tmp/half", "go") : undefined) });
        assert.deepEqual([heard.stdout, heard.errors], ["hé\ufffd\ufffd", []]);
        await clients["0.12"].deleteCodeContext(id);
});

test("how each age has it on the wire", async () => {
        const { id } = await clients["0.12"].createCodeContext({});
        const code = "print('grüße')\n'\\u20ac' * 100000";
        const lines = async (headers) => {
                const response = await post("/api/execute/code", { context_id: id, code }, headers);
                assert.equal(response.headers.get("content-type"), "text/event-stream");
                const bytes = Buffer.from(await response.arrayBuffer());
                assert.ok(bytes.every((byte) => byte < 128), "no character can be cut");
                return bytes.toString().split("\n").filter((line) => line !== "");
        };
        const bare = (await lines({ Accept: "text/event-stream" })).map((line) => JSON.parse(line));
        assert.deepEqual(bare.map(({ type }) => type), ["stdout", "result", "execution_complete"]);
        assert.deepEqual([bare[0].text, bare[1].text, bare[2].execution_count], ["grüße\n", `'${"€".repeat(100000)}'`, 1]);
        const told = (await lines({ Accept: "*/*" })).map((line) => JSON.parse(line.replace(/^data: /, "")));
        assert.deepEqual(told.map(({ type, text }) => [type, text]), bare.map(({ type, text }) => [type, text]));
        assert.equal(told[2].execution_count, 2, "cells are counted");
        const first = await post("/api/execute/code", { context_id: id, code: waitFor("/tmp/wire") });
        const reader = first.body.getReader();
        assert.match(Buffer.from((await reader.read()).value).toString(), /"waits\\n"/);
        const second = await post("/api/execute/code", { context_id: id, code: "'after'" });
        assert.equal(second.status, 200, "a client that has to wait for its turn knows that it is heard");
        await write("/tmp/wire", "go");
        assert.match(await second.text(), /'after'/);
        const missing = await post("/api/execute/code", { code: "1" }, { Accept: "text/event-stream" });
        assert.deepEqual([missing.status, (await missing.json()).error], [404, "Context undefined not found"]);
        const free = await (await post("/api/execute/code", { code: "21 * 2" })).text();
        assert.match(free, /^data: .*"text":"42"/m, "later ones have a context of their own without one");
        const late = await (await post("/api/execute/code", { context_id: id, code: "import time\nwhile True: time.sleep(0.01)", timeout_ms: 300 })).text();
        assert.equal(JSON.parse(late.match(/^data: (.*)$/m)[1]).ename, "Timeout");
        const made = await (await post("/api/contexts", { language: "cobol", cwd: "/tmp" })).json();
        assert.deepEqual([made.success, made.language, made.contextId], [true, "python", made.id], "0.3 takes what it does not know for Python");
        assert.equal((await post("/api/contexts", { language: "cobol" }, defaultHeaders)).status, 400);
        const health = await (await fetch(`${baseUrl}/api/interpreter/health`)).json();
        assert.deepEqual([health.success, health.ready, health.contexts >= 2], [true, true, true]);
        for (const one of [id, made.id]) await clients["0.12"].deleteCodeContext(one);
});

test("0.3: the Sandbox class", async () => {
        const sandbox = await sandboxOf(OldSandbox, getOldSandbox, "old-interpreter");
        const heard = [];
        const execution = await sandbox.runCode("print('a')\nx = 1\nx + 1", { onStdout: ({ text }) => heard.push(text), onResult: (result) => heard.push(result.text) });
        assert.deepEqual([execution.logs.stdout.join(""), execution.results[0].text, execution.error, heard.join("")], ["a\n", "2", undefined, "a\n2"]);
        assert.equal((await sandbox.runCode("x")).results[0].text, "1", "the same context again");
        const context = await sandbox.createCodeContext({ language: "python" });
        assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
        const text = await new Response(await sandbox.runCodeStream("print('streamed')", { context })).text();
        assert.deepEqual(text.trim().split("\n").map((line) => JSON.parse(line).type), ["stdout", "execution_complete"]);
        assert.ok((await sandbox.listCodeContexts()).some(({ id }) => id === context.id));
        await sandbox.deleteCodeContext(context.id);
        await rejects(sandbox.runCode("1", { context }), /not found/);
});

test("0.12: the Sandbox class", async () => {
        const sandbox = await sandboxOf(Sandbox, getSandbox, "new-interpreter");
        const heard = [];
        const execution = await sandbox.runCode("print('a')\nx = 1\n[x, 2]", { onStdout: ({ text }) => void heard.push(text), onResult: (result) => void heard.push(JSON.stringify(result.json)) });
        assert.deepEqual([execution.logs.stdout.join(""), execution.results[0].json, execution.error, heard.join("")], ["a\n", [1, 2], undefined, "a\n[1,2]"]);
        const context = await sandbox.createCodeContext({ language: "python", envVars: { A: "1", B: undefined } });
        const failed = [];
        assert.equal((await sandbox.runCode("import os\nos.environ['B']", { context, onError: (error) => void failed.push(error.name) })).error.name, "KeyError");
        assert.deepEqual(failed, ["KeyError"]);
        const told = await events(parseSSEStream, await sandbox.runCodeStream("print('streamed')", { context }));
        assert.deepEqual(told.map(({ type }) => type), ["stdout", "execution_complete"]);
        assert.ok((await sandbox.listCodeContexts()).some(({ id }) => id === context.id));
        await sandbox.deleteCodeContext(context.id);
        await rejects(sandbox.deleteCodeContext(context.id), /ContextNotFoundError/);
        await rejects(sandbox.createCodeContext({ language: "cobol" }), /./);
});
