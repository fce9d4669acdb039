// The genuine clients of both lines and both eras, over HTTP and over cloche mcp: the same acts by each.
import { strict as assert } from "node:assert";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const packages = join(process.env.MCP_CLIENTS, "node_modules/@modelcontextprotocol");
const load = (path) => import(pathToFileURL(join(packages, path)));
const one = await load("sdk/dist/esm/client/index.js");
const oneHttp = await load("sdk/dist/esm/client/streamableHttp.js");
const oneStdio = await load("sdk/dist/esm/client/stdio.js");
const two = await load("client/dist/index.mjs");
const twoStdio = await load("client/dist/stdio.mjs");
const { ElicitRequestSchema, ResourceUpdatedNotificationSchema } = await load("sdk/dist/esm/types.js");

const url = new URL(process.env.MCP_URL), headers = { Authorization: `Bearer ${process.env.MCP_TOKEN}` };
const program = { command: process.env.CLOCHE, args: ["mcp", "--socket", process.env.MCP_SOCKET], env: process.env, stderr: "inherit" };
const info = { name: "tests", version: "1" };
const pin = (version) => ({ versionNegotiation: version });
const asked = { capabilities: { elicitation: {} } };
const permit = async () => ({ action: "accept", content: { permit: true } });
const client1 = () => { const made = new one.Client(info, asked); made.setRequestHandler(ElicitRequestSchema, permit); return made; };
const client2 = (options) => { const made = new two.Client(info, { ...asked, ...options }); made.setRequestHandler("elicitation/create", permit); return made; };

const ways = [
        ["sdk 1, HTTP", client1, () => new oneHttp.StreamableHTTPClientTransport(url, { requestInit: { headers } })],
        ["sdk 1, stdio", client1, () => new oneStdio.StdioClientTransport(program)],
        ...[["default", {}], ["auto", pin({ mode: "auto" })], ["pinned", pin({ mode: { pin: "2026-07-28" } })]].flatMap(([name, options]) => [
                [`client 2 ${name}, HTTP`, () => client2(options), () => new two.StreamableHTTPClientTransport(url, { requestInit: { headers } })],
                [`client 2 ${name}, stdio`, () => client2(options), () => new twoStdio.StdioClientTransport(program)],
        ]),
];

for (const [name, client, transport] of ways)
        test(name, async () => {
                const agent = client();
                await agent.connect(transport());
                try {
                        assert.equal(agent.getServerVersion()?.name, "cloche");
                        assert.match(agent.getInstructions(), /sandbox/);
                        const { tools } = await agent.listTools();
                        assert.deepEqual(tools.map((tool) => tool.name).slice(0, 3), ["run_code", "call_function", "run_command"]);
                        // The client checks structuredContent against the outputSchema.
                        const call = (tool, args) => agent.callTool({ name: tool, arguments: { sandbox: "genuine", ...args } });
                        const shown = await call("run_code", { code: "print('p')\n6 * 7" });
                        assert.deepEqual([shown.structuredContent.result, shown.content[0].text], ["42", "p\n"]);
                        assert.equal((await call("run_command", { command: "exit 3" })).structuredContent.exit_code, 3);
                        await call("write_file", { path: "é ü.txt", text: "text\n" });
                        assert.equal((await call("read_file", { path: "é ü.txt" })).structuredContent.text, "text\n");
                        assert.equal((await call("list_directory", {})).structuredContent.truncated, false);
                        const { resources } = await agent.listResources();
                        assert.deepEqual([Array.isArray(resources), (await agent.readResource({ uri: "cloche://genuine/files/workspace/%c3%a9%20%c3%bc.txt" })).contents[0].text], [true, "text\n"]);
                        assert.equal((await agent.listResourceTemplates()).resourceTemplates.length, 4);
                        assert.match((await agent.getPrompt({ name: "debug-program", arguments: { command: "make" } })).messages[0].content.text, /make/);
                        assert.equal((await agent.listPrompts()).prompts.length, 3);
                        assert.deepEqual((await agent.complete({ ref: { type: "ref/prompt", name: "review-changes" }, argument: { name: "sandbox", value: "genui" } })).completion.values, ["genuine"]);
                        const told = [];
                        // The command ends only when its progress has arrived.
                        const onprogress = ({ progress, message }) => { told.push([progress, message]); call("write_file", { path: "/tmp/told", text: "" }); };
                        await agent.callTool({ name: "run_command", arguments: { command: "echo working; until [ -e /tmp/told ]; do sleep 0.01; done; rm /tmp/told", sandbox: "genuine" } }, ...(name.startsWith("sdk") ? [undefined] : []), { onprogress });
                        assert.deepEqual(told, [[1, "working"]]);
                        // The user is asked: by a request on the stream, or by an answer that the client completes.
                        const changed = await call("set_network", { allow: ["permitted.example"] });
                        assert.deepEqual(changed.structuredContent?.network.allow, ["permitted.example"], JSON.stringify(changed));
                        // Changes of a file, by a session or by a stream.
                        const uri = "cloche://genuine/files/workspace/watched", isLater = / (auto|pinned),/.test(name);
                        await call("write_file", { path: "watched", text: "" });
                        const updated = new Promise((tell) => agent.setNotificationHandler(name.startsWith("sdk") ? ResourceUpdatedNotificationSchema : "notifications/resources/updated", ({ params }) => tell(params.uri)));
                        const subscription = isLater ? await agent.listen({ resourceSubscriptions: [uri] }) : await agent.subscribeResource({ uri });
                        await call("write_file", { path: "watched", text: "new" });
                        assert.equal(await updated, uri);
                        await (isLater ? subscription.close() : agent.unsubscribeResource({ uri }));
                        await assert.rejects(call("run_command", { command: 1 }), /must be a text|-32602/);
                        const stop = new AbortController();
                        const long = agent.callTool({ name: "run_command", arguments: { command: "touch begun; exec sleep 600", sandbox: "genuine" } }, ...(name.startsWith("sdk") ? [undefined] : []), { signal: stop.signal });
                        await call("run_command", { command: "until [ -e begun ]; do sleep 0.01; done; rm begun", session: "watch" });
                        stop.abort();
                        await assert.rejects(long);
                        // Its session is free again only when it was killed.
                        assert.equal((await call("run_command", { command: "echo next" })).structuredContent.stdout, "next\n");
                } finally {
                        await agent.close();
                }
        });
