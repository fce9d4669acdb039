// Sandboxes, commands and files by the genuine e2b. Each test has its failing twin.
import { strict as assert } from "node:assert";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { programsOf } from "./readme.mjs";

const { Sandbox, Secret, Volume } = createRequire(join(process.env.E2B_CLIENTS, "x.js"))("e2b");
let box;

before(async () => { box = await Sandbox.create({ timeoutMs: 300_000, metadata: { purpose: "a b&c=d", kind: "x" }, envs: { FOO: "bar" } }); });
after(async () => { await box.kill(); });

const fails = async (promise, name, pattern = /./) => {
        try {
                await promise;
        } catch (error) {
                assert.equal(error.name, name, `${error.name}: ${error.message}`);
                assert.match(error.message, pattern);
                return error;
        }
        assert.fail(`was not refused, expected ${name}`);
};

test("a key that is wrong is refused", async () => {
        await fails(Sandbox.create({ apiKey: "e2b_0123456789abcdef0123456789abcdef01234567" }), "AuthenticationError", /API key/);
        await fails(Sandbox.create("no-such-template"), "SandboxError", /template 'no-such-template' not found/);
        await fails(Sandbox.create({ mcp: {} }), "SandboxError", /template 'mcp-gateway' not found/);
        await fails(Sandbox.getInfo("inone"), "SandboxNotFoundError");
        assert.equal(await Sandbox.kill("inone"), false);
});

test("a command has its output, its directory and its environment", async () => {
        const done = await box.commands.run("echo $FOO $HOME; pwd; echo e >&2", { envs: { BAZ: "1" } });
        assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, "bar /home/user\n/home/user\n", "e\n"]);
        assert.equal((await box.commands.run("echo $BAZ; pwd", { envs: { BAZ: "it's" }, cwd: "/tmp" })).stdout, "it's\n/tmp\n");
        assert.equal((await fails(box.commands.run("exit 3"), "CommandExitError")).exitCode, 3);
        await fails(box.commands.run("true", { cwd: "/nope" }), "InvalidArgumentError", /cwd '\/nope' does not exist/);
        await fails(box.commands.run("true", { user: "nobody" }), "AuthenticationError", /invalid username: 'nobody'/);
        await fails(box.commands.run("sleep 60", { timeoutMs: 300 }), "TimeoutError", /deadline_exceeded/);
});

test("a process takes input, is listed and killed", async () => {
        let seen = "";
        const cat = await box.commands.run("cat", { background: true, stdin: true, onStdout: (text) => { seen += text; } });
        const listed = (await box.commands.list()).filter((p) => p.pid === cat.pid); // one that was killed at its timeout may end later
        assert.deepEqual(listed.map((p) => [p.cmd, p.args]), [["/bin/bash", ["-l", "-c", "cat"]]]);
        await box.commands.sendStdin(cat.pid, "typed\n");
        await box.commands.closeStdin(cat.pid);
        assert.equal((await cat.wait()).stdout, "typed\n");
        assert.equal(seen, "typed\n");
        const long = await box.commands.run("sleep 60", { background: true });
        const again = await box.commands.connect(long.pid);
        assert.equal(await box.commands.kill(long.pid), true);
        assert.match((await fails(again.wait(), "CommandExitError")).error, /signal: killed/);
        assert.equal(await box.commands.kill(99999), false);
});

test("a terminal echoes and changes its size", async () => {
        let seen = "";
        const found = Promise.withResolvers?.() ?? (() => { let resolve; const promise = new Promise((r) => { resolve = r; }); return { promise, resolve }; })();
        const pty = await box.pty.create({ cols: 80, rows: 24, onData: (data) => { seen += Buffer.from(data).toString(); if (seen.includes("30 100")) found.resolve(); } });
        await box.pty.resize(pty.pid, { cols: 100, rows: 30 });
        await box.pty.sendInput(pty.pid, Buffer.from("stty size\n"));
        await found.promise;
        assert.equal(await box.pty.kill(pty.pid), true);
        await fails(pty.wait(), "CommandExitError");
});

test("files are written, read, listed, moved and removed", async () => {
        const written = await box.files.write("deep/er/a.txt", "hällo");
        assert.deepEqual([written.path, written.name, written.type], ["/home/user/deep/er/a.txt", "a.txt", "file"]);
        assert.equal(await box.files.read("deep/er/a.txt"), "hällo");
        assert.deepEqual(Buffer.from(await box.files.read("deep/er/a.txt", { format: "bytes" })), Buffer.from("hällo"));
        assert.deepEqual((await box.files.write([{ path: "m/1", data: "one" }, { path: "/tmp/2", data: "" }])).map((f) => f.path), ["/home/user/m/1", "/tmp/2"]);
        assert.deepEqual([await box.files.read("m/1"), await box.files.read("/tmp/2")], ["one", ""]);
        assert.deepEqual((await box.files.list("deep", { depth: 2 })).map((e) => [e.path, e.type]).sort(), [["/home/user/deep/er", "dir"], ["/home/user/deep/er/a.txt", "file"]]);
        const info = await box.files.getInfo("deep/er/a.txt");
        assert.deepEqual([info.size, info.permissions, info.owner, info.mode], [6, "-rw-r--r--", "user", 0o644]);
        assert.equal((await box.files.rename("deep/er/a.txt", "other/b.txt")).path, "/home/user/other/b.txt");
        assert.deepEqual([await box.files.exists("deep/er/a.txt"), await box.files.exists("other/b.txt")], [false, true]);
        assert.deepEqual([await box.files.makeDir("made"), await box.files.makeDir("made")], [true, false]);
        await box.files.remove("other");
        await box.files.remove("other");
        await fails(box.files.read("other/b.txt"), "FileNotFoundError", /path '\/home\/user\/other\/b.txt' does not exist/);
        await fails(box.files.read("made"), "InvalidArgumentError", /is a directory/);
        await fails(box.files.write("made", "x"), "InvalidArgumentError", /is a directory/);
        await fails(box.files.list("nope"), "FileNotFoundError");
        await fails(box.files.makeDir("m/1"), "InvalidArgumentError");
        await fails(box.files.rename("nope", "x"), "FileNotFoundError");
});

test("large files come back as they went", async () => {
        const bytes = Buffer.alloc(9 << 20, "0123456789");
        await box.files.write("large", new Blob([bytes]));
        const back = Buffer.from(await box.files.read("large", { format: "bytes" }));
        assert.equal(createHash("sha256").update(back).digest("hex"), createHash("sha256").update(bytes).digest("hex"));
        await box.files.write("large2", new Blob([bytes]), { useOctetStream: true });
        assert.equal((await box.files.getInfo("large2")).size, bytes.length);
        await box.files.write("packed", new Blob([bytes]), { gzip: true });
        assert.equal((await box.commands.run("cmp packed large && echo same")).stdout, "same\n");
});

test("metadata belong to the file of an upload", async () => {
        const of = async (path, from = box) => (await from.files.getInfo(path)).metadata;
        const written = await box.files.write("meta/a", "1", { metadata: { Author: "a", kind: "x y" } });
        assert.deepEqual([written.metadata, await of("meta/a")], [{ author: "a", kind: "x y" }, { author: "a", kind: "x y" }]);
        await Promise.all(["b", "c", "d"].map((name) => box.files.write(`meta/${name}`, "1", { metadata: { name } })));
        assert.deepEqual((await box.files.list("meta")).map((one) => one.metadata?.name ?? one.metadata?.author).sort(), ["a", "b", "c", "d"]);
        await box.files.write("meta/b", "2"); // without: it has none
        await box.files.rename("meta", "meta2");
        await box.files.write("meta/c", "1");
        assert.deepEqual([await of("meta2/a"), await of("meta2/b"), await of("meta2/c"), await of("meta/c")], [{ author: "a", kind: "x y" }, undefined, { name: "c" }, undefined]);
        await box.files.remove("meta2/c");
        await box.files.makeDir("meta2/c");
        assert.equal(await of("meta2/c"), undefined);
        const [fork] = await box.fork({ timeoutMs: 60_000 });
        const { snapshotId } = await box.createSnapshot();
        const begun = await Sandbox.create(snapshotId, { timeoutMs: 60_000 });
        assert.deepEqual([await of("meta2/d", fork), await of("meta2/d", begun)], [{ name: "d" }, { name: "d" }]);
        assert.equal((await box.getInfo()).metadata["e2b.files"], undefined);
        for (const own of [fork, begun]) await own.kill();
        await Sandbox.deleteSnapshot(snapshotId);
        await fails(box.files.write("meta/e", "x", { metadata: { "a b": "1" } }), "InvalidArgumentError");
        const many = async () => { for (let i = 0; i < 40; i++) await box.files.write(`meta/m${i}`, "x", { metadata: { long: "x".repeat(4000) } }); };
        await fails(many(), "NotEnoughSpaceError", /128 KiB/);
        await box.files.remove("meta");
});

test("a watch tells of changes until it is stopped", async () => {
        const seen = [];
        let done;
        const all = new Promise((resolve) => { done = resolve; });
        await box.files.makeDir("watched");
        const watch = await box.files.watchDir("watched", (event) => { seen.push([event.type, event.name]); if (event.type === "remove") done(); });
        await box.files.write("watched/x", "1");
        await box.files.rename("watched/x", "watched/y");
        await box.files.remove("watched/y");
        await all;
        await watch.stop();
        for (const event of [["create", "x"], ["rename", "x"], ["create", "y"], ["remove", "y"]])
                assert.ok(seen.some((one) => one.join() === event.join()), `${event} in ${JSON.stringify(seen)}`);
        const entries = [];
        const next = new Promise((resolve) => { done = resolve; });
        const looking = await box.files.watchDir("watched", async (event) => {
                entries.push(event);
                if (event.type === "create") await box.files.remove("watched/z");
                if (event.type === "remove") done();
        }, { includeEntry: true });
        await box.files.write("watched/z", "12345");
        await next;
        await looking.stop();
        assert.deepEqual(entries.filter((one) => one.type === "create").map((one) => [one.name, one.entry?.path, one.entry?.type]), [["z", "/home/user/watched/z", "file"]]);
        assert.deepEqual(entries.filter((one) => one.type === "remove").map((one) => [one.name, one.entry]), [["z", undefined]]);
        await fails(box.files.watchDir("nope", () => {}), "FileNotFoundError");
        await fails(box.files.watchDir("m/1", () => {}), "InvalidArgumentError");
});

test("a signed URL reads and writes without a token, and no other file", async () => {
        const url = await box.downloadUrl("signed.txt"), up = await box.uploadUrl("signed.txt");
        const form = new FormData();
        form.append("file", new Blob(["by url"]), "signed.txt");
        assert.equal((await fetch(up, { method: "POST", body: form })).status, 200);
        assert.equal(await (await fetch(url)).text(), "by url");
        assert.equal((await fetch(url.replace("signed.txt", "m/1"))).status, 401);
        assert.equal((await fetch(url, { method: "POST", body: form })).status, 401); // another operation
        assert.equal((await fetch(await box.downloadUrl("signed.txt", { useSignatureExpiration: -10 }))).status, 401);
        assert.equal((await fetch(`${process.env.E2B_SANDBOX_URL}/files?path=signed.txt`, { headers: { "E2b-Sandbox-Id": box.sandboxId } })).status, 401);
});

test("sandboxes are listed by metadata and page by page", async () => {
        const other = await Sandbox.create({ timeoutMs: 60_000, metadata: { kind: "x" } });
        const list = async (options) => {
                const paginator = Sandbox.list(options), pages = [];
                while (paginator.hasNext) pages.push((await paginator.nextItems()).map((one) => one.sandboxId));
                return pages;
        };
        assert.deepEqual(await list({ query: { metadata: { purpose: "a b&c=d" } } }), [[box.sandboxId]]);
        assert.deepEqual(await list({ query: { metadata: { kind: "x" } }, limit: 1 }), [[other.sandboxId], [box.sandboxId]]);
        assert.deepEqual(await list({ query: { metadata: { kind: "y" } } }), [[]]);
        const info = await box.getInfo();
        assert.deepEqual([info.sandboxId, info.templateId, info.metadata, info.state], [box.sandboxId, "base", { purpose: "a b&c=d", kind: "x" }, "running"]);
        assert.ok(info.endAt > new Date());
        await other.setTimeout(120_000);
        assert.ok(Math.abs((await other.getInfo()).endAt - Date.now() - 120_000) < 30_000);
        assert.deepEqual([await other.kill(), await other.kill(), await other.isRunning()], [true, false, false]);
        await fails(other.commands.run("true"), "SandboxNotFoundError");
        await fails(other.files.read("x"), "TimeoutError").catch((error) => { if (!/NotFound|Timeout/.test(error.message)) throw error; });
        await fails(other.setTimeout(1000), "SandboxNotFoundError");
});

test("a sandbox ends at its timeout", async () => {
        const short = await Sandbox.create({ timeoutMs: 1000 });
        while (await short.isRunning()) await new Promise((resolve) => setTimeout(resolve, 100));
        await fails(Sandbox.getInfo(short.sandboxId), "SandboxNotFoundError");
});

test("a pause keeps processes, and connect lets them go on", async () => {
        const own = await Sandbox.create({ timeoutMs: 60_000 });
        await own.commands.run("sleep 600 & echo $! > pid; disown");
        assert.deepEqual([await own.pause(), await own.pause()], [true, false]);
        assert.equal(await own.isRunning(), false);
        assert.equal((await own.getInfo()).state, "paused");
        await fails(own.commands.run("true"), "SandboxNotFoundError");
        const same = await Sandbox.connect(own.sandboxId, { timeoutMs: 60_000 });
        assert.equal((await same.commands.run("kill -0 $(cat pid) && echo alive")).stdout, "alive\n");
        await same.kill();
        await fails(Sandbox.connect(own.sandboxId), "SandboxNotFoundError");
});

test("a killed sandbox cuts its streams, and its clients learn of it", async () => {
        const own = await Sandbox.create({ timeoutMs: 60_000 });
        const command = await own.commands.run("sleep 600", { background: true });
        await own.kill();
        await assert.rejects(command.wait(), (error) => error.name !== "CommandExitError");
});

test("an open sandbox asks for no token, a port answers by its host name", async () => {
        const open = await Sandbox.create({ timeoutMs: 60_000, secure: false });
        assert.equal(open.trafficAccessToken, undefined);
        assert.equal((await open.commands.run("echo open")).stdout, "open\n");
        await open.files.write("index.html", "served");
        const server = await open.commands.run("python3 -m http.server 8000 --bind 127.0.0.1", { background: true });
        const at = (port, id = open.sandboxId) => fetch(`${process.env.E2B_SANDBOX_URL}/index.html`, { headers: { "E2b-Sandbox-Id": id, "E2b-Sandbox-Port": String(port) } });
        let answer;
        while ((answer = await at(8000)).status !== 200) await answer.text();
        assert.equal(await answer.text(), "served");
        assert.match(open.getHost(8000), new RegExp(`^8000-${open.sandboxId}\\.localhost:`));
        assert.deepEqual([(await at(8001)).status, (await at(8000, "inone")).status], [502, 502]);
        await server.kill();
        await open.kill();
});

test("networks are closed by the clients' words", async () => {
        const closed = await Sandbox.create({ timeoutMs: 60_000, allowInternetAccess: false });
        assert.equal((await closed.getInfo()).allowInternetAccess, false);
        assert.notEqual((await closed.commands.run("getent hosts example.org || echo none")).stdout, "");
        await closed.kill();
        await fails(Sandbox.create({ network: { maskRequestHost: "a b" } }), "SandboxError", /network.maskRequestHost/);
});

test("secrets are kept, and told to nobody", async () => {
        const made = await Secret.create("key", "first-value", { metadata: { of: "test" } });
        assert.deepEqual([made.name, made.version, made.metadata], ["key", 1, { of: "test" }]);
        await fails(Secret.create("key", "x"), "SecretError", /already/);
        const changed = await Secret.update("key", "second-value");
        assert.deepEqual([changed.secretId, changed.version, changed.metadata], [made.secretId, 2, { of: "test" }]);
        await Secret.create("other", "x");
        const pages = Secret.list({ limit: 1 }), names = [];
        while (pages.hasNext) names.push(...(await pages.nextItems()).map((one) => one.name));
        assert.deepEqual(names, ["key", "other"]);
        const own = await Sandbox.create({ timeoutMs: 60_000, network: { allowOut: ({ rules }) => [...rules.keys()], denyOut: ({ allTraffic }) => [allTraffic], rules: { "api.example.test": [{ transform: { headers: { Authorization: `Bearer ${Secret.fill("key")}` } } }] } } });
        const told = JSON.stringify([await own.getInfo(), await Secret.getInfo("key"), await Secret.getInfo(made.secretId)]);
        assert.ok(told.includes("e2b.secrets.key") && !told.includes("second-value"), told);
        await fails(own.updateNetwork({ rules: { "api.example.test": [{ transform: { headers: { A: Secret.fill("none") } } }] } }), "SandboxError", /there is no secret 'none'/);
        await own.updateNetwork({});
        await own.kill();
        assert.deepEqual([await Secret.destroy("key"), await Secret.destroy("key"), await Secret.exists("key"), await Secret.destroy("other")], [true, false, false, true]);
        await fails(Secret.getInfo("key"), "SecretNotFoundError");
        await fails(Secret.update("key", "x"), "SecretNotFoundError");
        await fails(Secret.create("bad", "two\nlines"), "SecretError", /'value'/);
});

test("ports ask for a token and see another host, if their creator wants it", async () => {
        const own = await Sandbox.create({ timeoutMs: 60_000, network: { allowPublicTraffic: false, maskRequestHost: "localhost:${PORT}" } });
        await own.files.write("serve.py", "import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n def do_GET(self):\n  self.send_response(200); self.end_headers(); self.wfile.write(f\"{self.headers['Host']} {self.headers['e2b-traffic-access-token']} {self.headers['x-api-key']} {self.headers['x-access-token']}\".encode())\nhttp.server.HTTPServer(('127.0.0.1', 8000), H).serve_forever()\n");
        const server = await own.commands.run("exec python3 serve.py", { background: true });
        const at = (token, access = own.envdAccessToken) => fetch(`${process.env.E2B_SANDBOX_URL}/`, { headers: { "E2b-Sandbox-Id": own.sandboxId, "E2b-Sandbox-Port": "8000", "X-API-KEY": process.env.E2B_API_KEY, "X-Access-Token": access, ...(token ? { "e2b-traffic-access-token": token } : {}) } });
        let answer;
        while ((answer = await at(own.trafficAccessToken)).status !== 200) await answer.text();
        assert.equal(await answer.text(), "localhost:8000 None None None"); // they are not the guest's
        assert.equal(await (await at(own.trafficAccessToken, "of-a-program")).text(), "localhost:8000 None None of-a-program");
        assert.deepEqual([(await at()).status, (await at("0".repeat(40))).status, (await at(own.envdAccessToken)).status], [403, 403, 403]);
        assert.equal((await Sandbox.connect(own.sandboxId)).trafficAccessToken, own.trafficAccessToken);
        await server.kill();
        await own.kill();
});

test("volumes outlive sandboxes", async () => {
        const volume = await Volume.create("kept-volume");
        assert.deepEqual((await Volume.list()).map((one) => one.name), ["kept-volume"]);
        const mounts = { volumeMounts: { "/data": volume }, timeoutMs: 60_000 };
        const one = await Sandbox.create(mounts);
        await one.commands.run("echo kept > /data/file");
        assert.deepEqual((await one.getInfo()).volumeMounts, [{ name: "kept-volume", path: "/data" }]);
        await assert.rejects(Volume.destroy("kept-volume"), /volume/); // a sandbox has it
        await one.kill();
        const two = await Sandbox.create(mounts);
        assert.equal((await two.commands.run("cat /data/file")).stdout, "kept\n");
        await two.kill();
        assert.equal(await volume.readFile("/file"), "kept\n");
        assert.equal((await volume.writeFile("/dir/one", "1", { mode: 0o600 })).mode, 0o600);
        await assert.rejects(volume.writeFile("/dir/one", "2"), /force/);
        assert.equal((await volume.writeFile("/dir/one", new Blob(["2".repeat(3 << 20)]), { force: true })).size, 3 << 20);
        assert.deepEqual([await volume.makeDir("/dir/a/b", { force: true }), await volume.getInfo("/dir/one")].map((one) => [one.path, one.name, one.type]), [["/dir/a/b", "b", "directory"], ["/dir/one", "one", "file"]]);
        assert.deepEqual((await volume.list("/")).map((one) => one.path).sort(), ["/dir", "/file"]);
        assert.deepEqual((await volume.list("/dir", { depth: 2 })).map((one) => one.path).sort(), ["/dir/a", "/dir/a/b", "/dir/one"]);
        assert.equal((await volume.updateMetadata("/dir/one", { mode: 0o640 })).mode, 0o640);
        await assert.rejects(volume.updateMetadata("/dir/one", { uid: 0 }), /mode/);
        await volume.remove("/dir");
        assert.deepEqual([await volume.exists("/dir"), await volume.exists("/file")], [false, true]);
        await Promise.all([volume.readFile("/x"), volume.list("/x"), volume.remove("/x"), volume.makeDir("/x/y"), volume.updateMetadata("/x", { mode: 0o600 })].map((failing) => assert.rejects(failing, /not found/)));
        await assert.rejects(new Volume(volume.volumeId, volume.name, "0".repeat(40)).list("/"), /token of the volume/);
        const three = await Sandbox.create(mounts); // meanwhile the sandbox of the contents has it
        assert.equal((await three.commands.run("ls -a /data | grep -c file")).stdout, "1\n");
        await three.kill();
        assert.deepEqual((await Sandbox.list().nextItems()).map((one) => one.sandboxId), [box.sandboxId]);
        assert.deepEqual([await Volume.destroy("kept-volume"), await Volume.destroy("kept-volume")], [true, false]);
        await fails(Sandbox.create({ volumeMounts: { "/data": "no-volume" } }), "SandboxError", /no-volume/);
});

test("forks and snapshots have files of their own", async () => {
        await box.files.write("copied", "1");
        const [one, two] = await box.fork({ count: 2, timeoutMs: 60_000 });
        await one.files.write("copied", "2");
        assert.deepEqual([await box.files.read("copied"), await two.files.read("copied")], ["1", "1"]);
        assert.notEqual(one.sandboxId, two.sandboxId);
        assert.deepEqual(await one.createSnapshot({ name: "kept" }), { snapshotId: "kept", names: ["kept"] });
        assert.equal((await one.createSnapshot({ name: "kept" })).snapshotId, "kept"); // in its place
        const begun = await Sandbox.create("kept", { timeoutMs: 60_000, metadata: { from: "kept" } });
        assert.equal(await begun.files.read("copied"), "2");
        assert.deepEqual(await Sandbox.listSnapshots({ sandboxId: one.sandboxId }).nextItems(), [{ snapshotId: "kept", names: ["kept"] }]);
        assert.deepEqual([await Sandbox.deleteSnapshot("kept"), await Sandbox.deleteSnapshot("kept")], [true, false]);
        await fails(Sandbox.create("kept"), "SandboxError", /template 'kept' not found/);
        await fails(box.fork({ count: 101 }), "SandboxError", /count/);
        for (const own of [one, two, begun]) await own.kill();
        const [point] = await box.getMetrics();
        assert.ok(point.memUsed > 0 && point.memTotal > point.memUsed, JSON.stringify(point));
});

test("the programs of the package's README do what they say", async () => {
        const programs = await programsOf("e2b");
        assert.ok(programs.length >= 2);
        for (const { text, printed, expected } of programs) assert.deepEqual(printed, expected, text);
        assert.deepEqual([await Volume.destroy("my-volume"), await Secret.destroy("openai-api-key")], [true, true]);
});
