// @cloudflare/sandbox 0.3.7: its HTTP client, every method of it.
import { strict as assert } from "node:assert";
import { test } from "node:test";
import { baseUrl, events, old, rejects, server, text } from "./clients.mjs";

const { InterpreterClient } = await old("interpreter-client");
const { parseSSEStream } = await old("sse-parser");
const { collectFile } = await old("file-stream");
const client = new InterpreterClient({ baseUrl });
const id = "old-client";

test("sessions", async () => {
        const made = await client.createSession({ id, cwd: "/workspace", env: { COLOUR: "blue" }, isolation: false });
        assert.equal(made.success, true);
        assert.equal(made.id, id);
        assert.match(made.message, /^Session 'old-client' created with/);
        await client.exec(id, "STAYS=1");
        assert.equal((await client.createSession({ id })).success, true, "a session that is there is no error");
        assert.equal((await client.exec(id, "echo $STAYS $COLOUR")).stdout.trim(), "1 blue", "and goes on");
        await rejects(client.createSession({}), /Session ID is required/);
});

test("exec", async () => {
        const result = await client.exec(id, "echo out; echo err >&2; exit_code() { return 3; }; exit_code");
        assert.deepEqual([result.success, result.exitCode, result.stdout, result.stderr], [false, 3, "out\n", "err\n"]);
        assert.ok(!Number.isNaN(Date.parse(result.timestamp)));
        await client.exec(id, "cd /tmp && export A=1 && f() { echo function $A; }");
        assert.equal((await client.exec(id, "pwd; f")).stdout, "/tmp\nfunction 1\n", "directory, variables and functions stay");
        assert.equal((await client.exec(id, "echo 'unclosed")).exitCode, 2, "a syntax error is a result");
        assert.equal((await client.exec(id, "cd /workspace; echo next")).stdout, "next\n");
        assert.equal((await client.exec(id, "head -c 600000 /dev/zero | tr '\\0' x")).stdout.length, 600000);
        assert.equal((await client.exec(id, "printf 'a\\377b'")).stdout, "a\ufffdb", "what is no UTF-8 is replaced");
        await rejects(client.exec("nobody", "true"), /Session 'nobody' not found/);
        await rejects(client.exec(id, ""), /Session ID and command are required/);
});

test("exec as a stream", async () => {
        const seen = await events(parseSSEStream, await client.execStream(id, "STREAMED=1; echo one; echo two >&2; printf 'h\\303'; sleep 0.2; printf '\\251'; exit_code"));
        assert.equal(seen[0].type, "start");
        assert.equal(seen[0].command.startsWith("STREAMED"), true);
        assert.equal(text(seen), "one\nhé", "a character is whole, however it came");
        assert.equal(text(seen, "stderr"), "two\n");
        const last = seen.at(-1);
        assert.equal(last.type, "complete");
        assert.equal(last.exitCode, 3);
        assert.deepEqual(last.result, { stdout: "one\nhé", stderr: "two\n", exitCode: 3, success: false });
        assert.equal((await client.exec(id, "echo $STREAMED")).stdout, "1\n", "it ran in the session");
        await rejects(client.execStream("nobody", "true"), /Session 'nobody' not found/);
});

test("processes", async () => {
        const { process } = await client.startProcess("echo begun; echo sad >&2; sleep 60", id, { processId: "sleeper", cwd: "/tmp" });
        assert.deepEqual([process.id, process.status, process.endTime, process.exitCode, process.sessionId], ["sleeper", "running", null, null, id]);
        assert.ok(process.pid > 0 && !Number.isNaN(Date.parse(process.startTime)));
        await rejects(client.startProcess("true", id, { processId: "sleeper" }), /Failed to start process/);
        await rejects(client.startProcess("true", "nobody", {}), /Session 'nobody' not found/);
        const { processes, count } = await client.listProcesses(id);
        assert.equal(count, processes.length);
        assert.ok(processes.some((one) => one.id === "sleeper"));
        assert.equal((await client.getProcess("sleeper")).process.command, "echo begun; echo sad >&2; sleep 60");
        const seen = await events(parseSSEStream, await client.streamProcessLogs("sleeper"), (event) => event.type === "stderr");
        assert.equal(text(seen), "begun\n");
        const logs = await client.getProcessLogs("sleeper");
        assert.deepEqual([logs.stdout, logs.stderr, logs.processId, logs.sessionId], ["begun\n", "sad\n", "sleeper", id]);
        const killed = await client.killProcess("sleeper");
        assert.deepEqual([killed.success, killed.processId, killed.sessionId, killed.message], [true, "sleeper", id, "Process sleeper killed"]);
        assert.equal((await client.getProcess("sleeper")).process.status, "killed");
        for (const call of ["getProcess", "killProcess", "getProcessLogs", "streamProcessLogs"])
                await rejects(client[call]("nobody"), /Process not found/);
        await rejects(client.listProcesses("nobody"), /Session 'nobody' not found/);
});

test("a process to its end", async () => {
        const { process } = await client.startProcess("echo a; sleep 0.3; echo b; exit 4", id);
        const seen = await events(parseSSEStream, await client.streamProcessLogs(process.id));
        assert.equal(text(seen), "a\nb\n");
        const last = seen.at(-1);
        assert.deepEqual([last.type, last.status, last.exitCode, last.processId], ["complete", "failed", 4, process.id]);
        const { process: ended } = await client.getProcess(process.id);
        assert.deepEqual([ended.status, ended.exitCode], ["failed", 4]);
        assert.ok(Date.parse(ended.endTime) >= Date.parse(ended.startTime));
});

test("kill all", async () => {
        await client.startProcess("sleep 60", id);
        await client.startProcess("sleep 60 & sleep 60", id);
        const killed = await client.killAllProcesses(id);
        assert.equal(killed.killedCount, 2);
        assert.equal(killed.message, "Killed 2 processes");
        const { processes } = await client.listProcesses(id);
        assert.ok(processes.every((one) => one.status !== "running"));
        assert.equal((await client.killAllProcesses()).killedCount, 0);
});

test("files", async () => {
        const made = await client.mkdir("/workspace/a/b", true, id);
        assert.deepEqual([made.success, made.exitCode, made.path, made.recursive, made.stdout, made.stderr], [true, 0, "/workspace/a/b", true, "", ""]);
        assert.equal((await client.mkdir("/workspace/none/b", false, id)).success, false, "what is not there is a result");
        const content = "grüße\n$(touch /workspace/evil)\nSANDBOX_EOF\n";
        assert.equal((await client.writeFile("/workspace/a/b/$(x) file.txt", content, "utf-8", id)).success, true);
        const read = await client.readFile("/workspace/a/b/$(x) file.txt", "utf-8", id);
        assert.deepEqual([read.success, read.content, read.encoding, read.isBinary, read.size], [true, content, "utf-8", false, Buffer.byteLength(content)]);
        const none = await client.readFile("/workspace/none", "utf-8", id);
        assert.deepEqual([none.success, none.exitCode, none.content], [false, 1, ""]);
        await client.exec(id, "printf '\\000\\377' > /workspace/a/bin; printf x > /workspace/a/.hidden; chmod 750 /workspace/a/bin");
        const binary = await client.readFile("/workspace/a/bin", undefined, id);
        assert.deepEqual([binary.encoding, binary.isBinary, binary.content], ["base64", true, "AP8="]);
        const { files, success } = await client.listFiles("/workspace/a", id);
        assert.equal(success, true);
        assert.deepEqual(files.map((file) => file.name), ["b", "bin"]);
        assert.deepEqual([files[0].type, files[0].mode[0], files[1].mode], ["directory", "d", "-rwxr-x---"]);
        assert.deepEqual(files[1].permissions, { readable: true, writable: true, executable: true });
        assert.deepEqual([files[1].absolutePath, files[1].relativePath, files[1].size], ["/workspace/a/bin", "bin", 2]);
        const all = await client.listFiles("/workspace/a", id, { recursive: true, includeHidden: true });
        assert.deepEqual(all.files.map((file) => file.relativePath).sort(), [".hidden", "b", "b/$(x) file.txt", "bin"]);
        const nothing = await client.listFiles("/workspace/none", id);
        assert.deepEqual([nothing.success, nothing.exitCode, nothing.files], [false, 1, []]);
        const renamed = await client.renameFile("/workspace/a/bin", "/workspace/a/bin2", id);
        assert.deepEqual([renamed.success, renamed.oldPath, renamed.newPath], [true, "/workspace/a/bin", "/workspace/a/bin2"]);
        const moved = await client.moveFile("/workspace/a/bin2", "/tmp/bin3", id);
        assert.deepEqual([moved.success, moved.sourcePath, moved.destinationPath], [true, "/workspace/a/bin2", "/tmp/bin3"]);
        assert.equal((await client.renameFile("/workspace/none", "/workspace/x", id)).success, false);
        assert.equal((await client.deleteFile("/tmp/bin3", id)).success, true);
        assert.equal((await client.deleteFile("/tmp/bin3", id)).success, false);
        assert.equal((await client.deleteFile("/workspace/a", id)).success, false, "a directory is not removed so");
        assert.equal((await client.exec(id, "ls /workspace/evil 2>&1; ls /workspace/a/b | wc -l")).stdout.split("\n")[1], "1", "names are not run");
        await rejects(client.writeFile(undefined, "x"), /Path is required and must be a string/);
});

test("large files, and files as streams", async () => {
        const large = "0123456789abcdé\n".repeat(40000);
        await client.writeFile("/workspace/large", large, "utf-8", id);
        assert.equal((await client.readFile("/workspace/large", "utf-8", id)).content, large);
        const file = await collectFile(await client.readFileStream("/workspace/large", id));
        assert.equal(file.content, large);
        assert.deepEqual([file.metadata.isBinary, file.metadata.encoding, file.metadata.size], [false, "utf-8", Buffer.byteLength(large)]);
        await client.exec(id, "head -c 3000000 /dev/urandom > /workspace/random; sha256sum < /workspace/random | cut -c1-64 > /workspace/sum");
        const random = await collectFile(await client.readFileStream("/workspace/random", id));
        const digest = Buffer.from(await crypto.subtle.digest("SHA-256", random.content)).toString("hex");
        assert.equal(digest, (await client.readFile("/workspace/sum", "utf-8", id)).content.trim());
        await rejects(client.readFileStream("/workspace/none", id), /Failed to stream file/);
});

test("git", async () => {
        await client.exec(id, "cd /workspace && git init -q -b main repo && cd repo && git config user.email a@b.c && git config user.name n && echo hi > f && git add f && git commit -qm one; cd /workspace");
        const cloned = await client.gitCheckout("file:///workspace/repo", id, "main", "/workspace/clone");
        assert.deepEqual([cloned.success, cloned.exitCode, cloned.branch, cloned.targetDir], [true, 0, "main", "/workspace/clone"]);
        assert.equal((await client.readFile("/workspace/clone/f", "utf-8", id)).content, "hi\n");
        const made = await client.gitCheckout("file:///workspace/repo", id);
        assert.match(made.targetDir, /\/repo_\d+_[0-9a-f]{12}$/);
        const failed = await client.gitCheckout("file:///workspace/repo", id, "nothing", "/workspace/clone2");
        assert.equal(failed.success, false);
        assert.notEqual(failed.stderr, "");
        await rejects(client.gitCheckout("not a url", id), /Invalid repository URL format/);
});

test("ports", async () => {
        await client.startProcess(server(8123), id, { processId: "web" });
        const exposed = await client.exposePort(8123, "mine");
        assert.deepEqual([exposed.success, exposed.port, exposed.name], [true, 8123, "mine"]);
        assert.ok(!Number.isNaN(Date.parse(exposed.exposedAt)));
        const { ports, count } = await client.getExposedPorts();
        assert.equal(count, 1);
        assert.deepEqual([ports[0].port, ports[0].name], [8123, "mine"]);
        let answer;
        for (let i = 0; i < 100 && !answer?.ok; i++) {
                answer = await fetch(`${baseUrl}/proxy/8123/some/where?x=1`);
                if (!answer.ok) await new Promise((resolve) => setTimeout(resolve, 100));
        }
        assert.equal(await answer.text(), "port 8123 /some/where?x=1");
        assert.equal((await client.unexposePort(8123)).success, true);
        await rejects(client.unexposePort(8123), /Port is not exposed/);
        const closed = await fetch(`${baseUrl}/proxy/8123/`);
        assert.deepEqual([closed.status, (await closed.json()).error], [404, "Port 8123 is not exposed"]);
        await client.exposePort(8124);
        assert.equal((await fetch(`${baseUrl}/proxy/8124/`)).status, 502);
        await client.unexposePort(8124);
        await rejects(client.exposePort(70000), /Port must be between 1 and 65535/);
        await client.killProcess("web");
});

test("ping", async () => {
        assert.ok(!Number.isNaN(Date.parse(await client.ping())));
});
