// @jupyterlab/services from npm, unmodified, against cloched --jupyter: JUPYTER_CLIENTS is the directory of its
// packages, JUPYTER_URL and JUPYTER_TOKEN are the gateway's.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(process.env.JUPYTER_CLIENTS + "/");
const { KernelManager, KernelSpecManager, ServerConnection, SessionManager } = require("@jupyterlab/services");
const serverSettings = ServerConnection.makeSettings({ baseUrl: process.env.JUPYTER_URL, wsUrl: process.env.JUPYTER_URL.replace("http", "ws"),
  token: process.env.JUPYTER_TOKEN, appendToken: true, init: { cache: "no-store" } });

async function run(kernel, code, options = {}) {
  const messages = [], future = kernel.requestExecute({ code, ...options });
  future.onIOPub = (message) => void messages.push([message.header.msg_type, message.content]);
  future.onStdin = (message) => kernel.sendInputReply({ status: "ok", value: "Ada" }, message.header);
  const reply = await future.done;
  return { reply: reply.content, metadata: reply.metadata, messages: messages.filter(([kind]) => kind !== "status" && kind !== "execute_input") };
}

const printed = ({ messages }) => messages.filter(([kind]) => kind === "stream").map(([, content]) => content.text).join("");

test("kernelspecs", async () => {
  const manager = new KernelSpecManager({ serverSettings });
  await manager.ready;
  assert.equal(manager.specs.default, "python");
  assert.deepEqual(Object.keys(manager.specs.kernelspecs).sort(), ["bash", "javascript", "php", "python", "ruby", "typescript"]);
  manager.dispose();
});

test("a kernel", async () => {
  const manager = new KernelManager({ serverSettings });
  const kernel = await manager.startNew({ name: "python" });
  assert.equal((await kernel.info).implementation, "cloche");
  assert.equal(printed(await run(kernel, "x = 6\nprint(x * 7)")), "42\n");
  const shown = await run(kernel, "from IPython.display import HTML, display\ndisplay(HTML('<b>b</b>'))\nx");
  assert.deepEqual(shown.messages.map(([kind]) => kind), ["display_data", "execute_result"]);
  assert.equal(shown.messages[0][1].data["text/html"], "<b>b</b>");
  assert.equal(shown.messages[1][1].data["text/plain"], "6");
  assert.equal(shown.metadata.cloche.sandbox, "jupyter");
  assert.equal((await run(kernel, "1/0")).reply.ename, "ZeroDivisionError");
  assert.equal((await run(kernel, "input('name? ')", { allow_stdin: true })).messages.at(-1)[1].data["text/plain"], "'Ada'");
  assert.deepEqual((await kernel.requestComplete({ code: "zi", cursor_pos: 2 })).content.matches, ["zip"]);
  assert.equal((await kernel.requestInspect({ code: "zip", cursor_pos: 2, detail_level: 0 })).content.found, true);
  assert.equal((await kernel.requestIsComplete({ code: "def f():" })).content.status, "incomplete");
  await manager.refreshRunning();
  assert.deepEqual([...manager.running()].map(({ id, name }) => [id, name]), [[kernel.id, "python"]]);

  // A second client of the same kernel sees the same output.
  const other = manager.connectTo({ model: { id: kernel.id, name: "python" } }), seen = [];
  await other.info;
  const heard = new Promise((resolve) => other.anyMessage.connect((_, { msg }) => {
    if (msg.header.msg_type === "stream") resolve(seen.push(msg.content.text));
  }));
  await run(kernel, "print('to both')");
  await heard;
  assert.deepEqual(seen, ["to both\n"]);
  other.dispose();

  // An interrupt while a cell runs.
  const future = kernel.requestExecute({ code: "print('begun')\nimport time\ntime.sleep(600)" });
  await new Promise((resolve) => { future.onIOPub = (message) => message.header.msg_type === "stream" && resolve(); });
  await kernel.interrupt();
  assert.equal((await future.done).content.ename, "KeyboardInterrupt");
  assert.equal((await run(kernel, "x")).messages[0][1].data["text/plain"], "6");

  await kernel.restart();
  assert.equal((await run(kernel, "x")).reply.ename, "NameError");

  // The interpreter's death: another one takes its place.
  const restarted = new Promise((resolve) => kernel.statusChanged.connect((_, status) => status === "autorestarting" && resolve()));
  assert.equal((await kernel.requestExecute({ code: "y = 1\n__import__('os')._exit(3)" }).done.catch(() => ({ content: { ename: "ContextEnded" } }))).content.ename, "ContextEnded");
  await restarted;
  assert.equal((await run(kernel, "y")).reply.ename, "NameError");
  await kernel.shutdown();
  await manager.refreshRunning();
  assert.equal([...manager.running()].length, 0);
  manager.dispose();
});

test("sessions", async () => {
  const kernelManager = new KernelManager({ serverSettings }), manager = new SessionManager({ serverSettings, kernelManager });
  await manager.ready;
  const session = await manager.startNew({ path: "a.ipynb", name: "a", type: "notebook", kernel: { name: "bash" } });
  assert.equal(printed(await run(session.kernel, "echo $((6 * 7))")), "42\n");
  await session.setPath("b.ipynb");
  assert.equal((await manager.findByPath("b.ipynb")).id, session.id);
  await session.changeKernel({ name: "ruby" });
  assert.equal(printed(await run(session.kernel, "puts 6 * 7")), "42\n");
  await session.shutdown();
  await manager.refreshRunning();
  assert.equal(await manager.findByPath("b.ipynb"), undefined);
  manager.dispose();
  kernelManager.dispose();
});
