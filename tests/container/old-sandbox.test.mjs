// @cloudflare/sandbox 0.3.7: its Sandbox class, with the platform beneath it stubbed.
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { baseUrl, events, old, rejects, text } from "./clients.mjs";
import { namespaceOf } from "./stubs.mjs";

const { Sandbox, getSandbox, parseSSEStream } = await old("index");
const namespace = namespaceOf(Sandbox, baseUrl);
namespace.get("old-sandbox");
await namespace.ready;
const sandbox = getSandbox(namespace, "old-sandbox");

test("commands", async () => {
        await sandbox.setEnvVars({ COLOUR: "green" });
        const result = await sandbox.exec("cd /tmp; echo $COLOUR; false");
        assert.deepEqual([result.success, result.exitCode, result.stdout.trim(), result.command], [false, 1, "green", "cd /tmp; echo $COLOUR; false"]);
        assert.equal((await sandbox.exec("pwd")).stdout, "/tmp\n");
        const seen = await events(parseSSEStream, await sandbox.execStream("echo streamed"));
        assert.equal(text(seen), "streamed\n");
        assert.equal(seen.at(-1).exitCode, 0);
});

test("processes", async () => {
        const process = await sandbox.startProcess("echo up; sleep 60");
        assert.ok(process.startTime instanceof Date);
        assert.equal(await process.getStatus(), "running");
        assert.ok((await sandbox.listProcesses()).some((one) => one.id === process.id));
        await events(parseSSEStream, await sandbox.streamProcessLogs(process.id), (event) => event.type === "stdout");
        assert.equal((await process.getLogs()).stdout, "up\n");
        await process.kill();
        const ended = await sandbox.getProcess(process.id);
        assert.equal(ended.status, "killed");
        assert.ok(ended.endTime instanceof Date);
        await sandbox.startProcess("sleep 60");
        assert.equal(await sandbox.killAllProcesses(), 1);
        assert.equal(await sandbox.cleanupCompletedProcesses(), 0);
        await rejects(sandbox.getProcess("nobody"), /Process not found/);
});

test("files", async () => {
        await sandbox.mkdir("/workspace/d");
        await sandbox.writeFile("/workspace/d/f", "text\n");
        assert.equal((await sandbox.readFile("/workspace/d/f")).content, "text\n");
        await sandbox.renameFile("/workspace/d/f", "/workspace/d/g");
        await sandbox.moveFile("/workspace/d/g", "/workspace/g");
        assert.deepEqual((await sandbox.listFiles("/workspace/d")).files, []);
        assert.equal((await sandbox.deleteFile("/workspace/g")).success, true);
        assert.equal((await sandbox.deleteFile("/workspace/g")).success, false);
});

test("sessions", async () => {
        const session = await sandbox.createSession({ id: "second", env: { A: "1" }, cwd: "/tmp", isolation: true });
        assert.equal((await session.exec("echo $A; pwd")).stdout, "1\n/tmp\n");
        assert.equal((await sandbox.exec("echo [$A]")).stdout, "[]\n");
        await session.writeFile("/tmp/of-session", "x");
        assert.equal((await sandbox.readFile("/tmp/of-session")).content, "x", "files are shared");
        const again = await sandbox.createSession({ id: "second" });
        assert.equal((await again.exec("echo $A")).stdout, "1\n");
});

test("ports", async () => {
        const exposed = await sandbox.exposePort(8200, { hostname: "example.com", name: "web" });
        assert.equal(exposed.url, "https://8200-old-sandbox.example.com/");
        assert.deepEqual((await sandbox.getExposedPorts("example.com")).map((one) => [one.port, one.name]), [[8200, "web"]]);
        await sandbox.unexposePort(8200);
        await rejects(sandbox.unexposePort(8200), /Port is not exposed/);
});
