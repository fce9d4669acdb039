// @cloudflare/sandbox 0.12.10: its Sandbox class, with the platform beneath it stubbed.
import { strict as assert } from "node:assert";
import { after, test } from "node:test";
import { baseUrl, events, newest, rejects, server, text } from "./clients.mjs";
import { bucket as bucketOf, namespaceOf } from "./stubs.mjs";

const { Sandbox, getSandbox, parseSSEStream, collectFile } = await newest();
const overSocket = process.env.TRANSPORT === "websocket";
const name = overSocket ? "new-over-socket" : "new-sandbox";
const namespace = namespaceOf(Sandbox, baseUrl, overSocket ? { SANDBOX_TRANSPORT: "websocket" } : {});
namespace.get(name);
await namespace.ready;
const sandbox = getSandbox(namespace, name);
const home = `/workspace/${name}`;

after(() => namespace.get(name).client.disconnect());

test("commands", async () => {
        await sandbox.setEnvVars({ COLOUR: "green" });
        const result = await sandbox.exec(`mkdir -p ${home}; cd /tmp; echo $COLOUR; false`);
        assert.deepEqual([result.success, result.exitCode, result.stdout.trim()], [false, 1, "green"]);
        assert.equal((await sandbox.exec("pwd")).stdout.trim(), "/tmp");
        await sandbox.setEnvVars({ COLOUR: "it's \"red\"", OTHER: undefined });
        assert.equal((await sandbox.exec("echo $COLOUR")).stdout.trim(), "it's \"red\"");
        await sandbox.setEnvVars({ COLOUR: undefined });
        assert.equal((await sandbox.exec('echo "[$COLOUR]"')).stdout.trim(), "[]");
        assert.equal((await sandbox.exec("echo $A; pwd", { env: { A: "1" }, cwd: "/" })).stdout, "1\n/\n");
        await rejects(sandbox.exec("sleep 30", { timeout: 200 }), /Command timeout after 200ms/);
        const heard = [];
        const streamed = await sandbox.exec("echo a; echo b >&2; exit 2", { stream: true, onOutput: (stream, data) => heard.push(stream + data) });
        assert.deepEqual([streamed.exitCode, streamed.stdout, streamed.stderr, heard.sort()], [2, "a\n", "b\n", ["stderrb\n", "stdouta\n"]]);
        assert.equal(text(await events(parseSSEStream, await sandbox.execStream("echo streamed"))), "streamed\n");
});

test("without a session", async () => {
        const bare = getSandbox(namespace, name, { enableDefaultSession: false });
        assert.equal((await bare.exec("X=1; echo $X")).stdout, "1\n");
        assert.equal((await bare.exec('echo "[$X]"')).stdout, "[]\n");
        await bare.writeFile(`${home}/bare`, "x");
        assert.equal((await bare.readFile(`${home}/bare`)).content, "x");
});

test("processes", async () => {
        const process = await sandbox.startProcess("sleep 0.2; echo ready now; sleep 60");
        assert.deepEqual((await process.waitForLog(/ready (\w+)/, 20000)).match[1], "now");
        assert.equal((await process.waitForLog("ready")).line, "ready now");
        await rejects(process.waitForLog("never", 300), /ProcessReadyTimeoutError/);
        await rejects(process.waitForExit(300), /ProcessReadyTimeoutError/);
        assert.equal(await process.getStatus(), "running");
        await process.kill();
        assert.equal((await process.waitForExit()).exitCode, 143);
        const short = await sandbox.startProcess("exit 3");
        assert.equal((await short.waitForExit()).exitCode, 3);
        await rejects(short.waitForLog("never"), /ProcessExitedBeforeReadyError/);
        assert.equal(await sandbox.getProcess("nobody"), null);
        let exited;
        const told = new Promise((resolve) => (exited = resolve));
        const heard = [];
        await sandbox.startProcess("echo x; exit 5", { onOutput: (stream, data) => heard.push(data), onExit: exited });
        assert.equal(await told, 5);
        assert.deepEqual(heard, ["x\n"]);
        await sandbox.startProcess("sleep 60");
        assert.ok((await sandbox.killAllProcesses()) >= 1);
});

test("waiting for a port", async () => {
        const port = overSocket ? 8402 : 8401;
        const web = await sandbox.startProcess(server(port));
        await web.waitForPort(port, { timeout: 30000 });
        await web.waitForPort(port, { mode: "tcp" });
        await web.kill();
        const short = await sandbox.startProcess("sleep 0.2; exit 6");
        await rejects(short.waitForPort(port + 10), /ProcessExitedBeforeReadyError/);
});

test("files", async () => {
        await sandbox.writeFile(`${home}/a/b/f`, "no newline is added");
        assert.equal((await sandbox.readFile(`${home}/a/b/f`)).content, "no newline is added");
        assert.equal((await collectFile(await sandbox.readFileStream(`${home}/a/b/f`))).content, "no newline is added");
        await sandbox.moveFile(`${home}/a/b/f`, `${home}/g`);
        assert.equal((await sandbox.exists(`${home}/g`)).exists, true);
        assert.equal((await sandbox.listFiles(home)).files.some((file) => file.name === "g"), true);
        await sandbox.deleteFile(`${home}/g`);
        await rejects(sandbox.deleteFile(`${home}/g`), /FileNotFoundError/);
        await rejects(sandbox.readFile(`${home}/g`), /FileNotFoundError/);
});

test("sessions", async () => {
        const session = await sandbox.createSession({ id: `${name}-2`, env: { A: "1" }, cwd: "/tmp" });
        assert.equal((await session.exec("echo $A; pwd")).stdout, "1\n/tmp\n");
        await session.setEnvVars({ B: "2" });
        assert.equal((await session.exec("echo $B")).stdout, "2\n");
        await rejects(sandbox.createSession({ id: `${name}-2` }), /SessionAlreadyExistsError/);
        assert.equal((await (await sandbox.getSession(`${name}-2`)).exec("echo $A")).stdout, "1\n");
        assert.equal((await sandbox.deleteSession(`${name}-2`)).success, true);
        await rejects(sandbox.deleteSession(`sandbox-${name}`), /Cannot delete default session/);
        assert.equal(await sandbox.getContainerPlacementId(), null);
});

test("previews are the Sandbox class's own", async () => {
        const exposed = await sandbox.exposePort(8403, { hostname: "example.com", token: "abc" });
        assert.equal(exposed.url, `https://8403-${name}-abc.example.com/`);
        await sandbox.unexposePort(8403);
});

test("watch", async () => {
        await sandbox.mkdir(`${home}/watched`);
        const stream = await sandbox.watch(`${home}/watched`, { include: ["*.txt"] });
        await sandbox.writeFile(`${home}/watched/no.log`, "x");
        await sandbox.writeFile(`${home}/watched/yes.txt`, "x");
        const seen = await events(parseSSEStream, stream, (event) => event.path?.endsWith("yes.txt"));
        assert.ok(!seen.some((event) => event.path?.endsWith("no.log")));
        assert.equal((await sandbox.checkChanges(`${home}/watched`)).status, "unchanged");
});

test("terminal", async () => {
        const request = new Request("http://localhost/", { headers: { Upgrade: "websocket" } });
        const { webSocket: socket } = await sandbox.terminal(request, { cols: 90, rows: 30 });
        let shown = "", ready, exit;
        const done = new Promise((resolve) => (exit = resolve));
        const begun = new Promise((resolve) => (ready = resolve));
        socket.addEventListener("message", ({ data }) => {
                if (typeof data !== "string") shown += Buffer.from(data).toString();
                else if (JSON.parse(data).type === "ready") ready();
                else if (JSON.parse(data).type === "exit") exit(JSON.parse(data));
        });
        socket.accept();
        await begun;
        const until = async (pattern) => {
                while (!pattern.test(shown)) await new Promise((resolve) => setTimeout(resolve, 50));
        };
        socket.send(Buffer.from("stty size; echo he''re\n"));
        await until(/30 90[^]*here/);
        socket.send(JSON.stringify({ type: "resize", cols: 100, rows: 40 }));
        socket.send(Buffer.from("stty size\n"));
        await until(/40 100/);
        socket.send(Buffer.from("exit 3\n"));
        assert.equal((await done).code, 3);
        socket.close();
});

test("backups", async () => {
        const keys = bucketOf();
        const spaces = namespaceOf(Sandbox, baseUrl, { ...keys, ...overSocket ? { SANDBOX_TRANSPORT: "websocket" } : {} });
        spaces.get(`${name}-backup`);
        await spaces.ready;
        const box = getSandbox(spaces, `${name}-backup`);
        const dir = `${home}/backup`;
        await box.exec(`mkdir -p ${dir}/sub && echo one > ${dir}/one && echo two > ${dir}/sub/two && echo no > ${dir}/x.log`);
        const backup = await box.createBackup({ dir, name: "first", excludes: ["*.log"], localBucket: true });
        assert.match(backup.id, /^[0-9a-f-]{36}$/);
        const archive = await keys.BACKUP_BUCKET.get(`backups/${backup.id}/data.sqsh`);
        assert.ok(archive.size > 0);
        assert.equal((await box.exec("ls /var/backups")).stdout, "", "nothing is left behind");
        await box.exec(`rm -r ${dir}/sub; echo changed > ${dir}/one; echo later > ${dir}/later`);
        // Where it is downloaded to, with curl and by presigned URLs of a network that is not here.
        await box.writeFile(`/var/backups/${backup.id}.sqsh`, Buffer.from(await archive.arrayBuffer()).toString("base64"), { encoding: "base64" });
        const restored = await box.restoreBackup({ id: backup.id, dir });
        assert.deepEqual([restored.success, restored.dir], [true, dir]);
        assert.equal((await box.exec(`cd ${dir} && cat one sub/two && ls`)).stdout, "one\ntwo\none\nsub\n");
        // The kind that the clients unpack themselves; its maker identifies it by the API's response.
        await box.exec(`rm -r ${dir}/sub; echo changed > ${dir}/one`);
        const kind = (await box.exec("command -v mksquashfs unsquashfs")).exitCode === 0 ? "hsqs" : "";
        assert.equal(Buffer.from(await archive.arrayBuffer()).subarray(0, 4).toString().startsWith("hsqs"), kind === "hsqs");
        if (kind === "hsqs") {
                const local = await box.restoreBackup(backup);
                assert.deepEqual([local.success, local.dir, (await box.exec(`cd ${dir} && cat one sub/two && ls /var/backups`)).stdout], [true, dir, "one\ntwo\n"]);
                const lz4 = await box.createBackup({ dir, compression: { format: "gzip" }, localBucket: true });
                await box.exec(`rm -r ${dir}`);
                assert.equal((await box.restoreBackup(lz4)).success, true);
                assert.equal((await box.exec(`cat ${dir}/sub/two`)).stdout, "two\n");
        } else await rejects(box.restoreBackup(backup), /unsquashfs/);
        await box.writeFile(`/var/backups/${backup.id}.sqsh`, "hsqs and no more");
        await rejects(box.restoreBackup({ id: backup.id, dir }), /./);
        assert.equal((await box.exec(`cat ${dir}/one; ls -A ${dir} | grep cloche`)).stdout, "one\n", "a damaged archive changes nothing");
        spaces.get(`${name}-backup`).client.disconnect();
});

test("what this API has not is refused by name", async () => {
        await rejects(sandbox.tunnels.get(8404), /rpc/i);
        await rejects(sandbox.mountBucket("bucket", `${home}/mounted`, { endpoint: "https://example.org", credentials: { accessKeyId: "k", secretAccessKey: "s" } }), /s3fs|fuse/i);
        const status = await fetch(`${baseUrl}/rpc`);
        assert.equal(status.status, 501);
        assert.match((await status.json()).message, /use "http" or "websocket"/);
        const spaces = namespaceOf(Sandbox, baseUrl, { SANDBOX_TRANSPORT: "rpc" });
        spaces.get(`${name}-rpc`);
        await spaces.ready;
        await rejects(getSandbox(spaces, `${name}-rpc`).exec("true"), /use "http" or "websocket"/);
});
