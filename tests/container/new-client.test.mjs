// @cloudflare/sandbox 0.12.10: its SandboxClient, every method of it, over HTTP or (TRANSPORT=websocket) over one WebSocket.
import { strict as assert } from "node:assert";
import { after, test } from "node:test";
import { baseUrl, events, newest, rejects, server, text } from "./clients.mjs";

const { SandboxClient, parseSSEStream, streamFile, collectFile } = await newest();
const overSocket = process.env.TRANSPORT === "websocket";
const settings = overSocket ? { transportMode: "websocket", wsUrl: `${baseUrl.replace(/^http/, "ws")}/ws` } : {};
// The class of a whole Sandbox sends this header; it identifies the age of a client.
const client = new SandboxClient({ baseUrl, ...settings, defaultHeaders: { "X-Sandbox-Id": "tests" } });
const { commands, files, processes, ports, git, utils, watch, backup } = client;
const id = overSocket ? "new-socket" : "new-client";
const home = `/workspace/${id}`;

after(() => client.disconnect());

test("sessions", async () => {
        const made = await utils.createSession({ id, cwd: "/workspace", env: { COLOUR: "blue" } });
        assert.equal(made.success, true);
        assert.equal(made.containerPlacementId, null);
        const error = await rejects(utils.createSession({ id }), /SessionAlreadyExistsError/);
        assert.equal(error.code, "SESSION_ALREADY_EXISTS");
        await utils.createSession({ id: `${id}-2` });
        const deleted = await utils.deleteSession(`${id}-2`);
        assert.deepEqual([deleted.success, deleted.sessionId], [true, `${id}-2`]);
        assert.equal((await rejects(utils.deleteSession(`${id}-2`), /./)).code, "SESSION_NOT_FOUND");
        await files.mkdir(home, id, { recursive: true });
});

test("exec", async () => {
        const result = await commands.execute("echo out; echo err >&2; (exit 3)", id);
        assert.deepEqual([result.success, result.exitCode, result.stdout, result.stderr, result.sessionId], [false, 3, "out\n", "err\n", id]);
        const other = await commands.execute('echo $A $COLOUR $(pwd)', id, { env: { A: "1" }, cwd: "/tmp" });
        assert.equal(other.stdout, "1 blue /tmp\n");
        assert.equal((await commands.execute('echo "[$A]" $(pwd)', id)).stdout, "[] /workspace\n", "of that call alone");
        assert.equal((await commands.execute("echo made", `${id}-by-itself`)).stdout, "made\n");
        const error = await rejects(commands.execute("sleep 30", id, { timeoutMs: 200 }), /Command timeout after 200ms/);
        assert.equal(error.code, "COMMAND_EXECUTION_ERROR");
        assert.equal((await commands.execute("echo next", id)).stdout, "next\n");
        const sessionless = await commands.execute("X=1; sleep 30", "__DISABLE_SESSION__", { timeoutMs: 200 });
        assert.equal(sessionless.exitCode, 124);
        assert.equal((await commands.execute('echo "[$X]"', "__DISABLE_SESSION__")).stdout, "[]\n");
        const ended = await rejects(commands.execute("exit 7", `${id}-ends`), /SessionTerminatedError: Session '.*-ends' shell exited \(exit code: 7\)/);
        assert.deepEqual([ended.code, ended.httpStatus, ended.exitCode, ended.sessionId], ["SESSION_TERMINATED", 410, 7, `${id}-ends`]);
        assert.equal((await commands.execute("echo again", `${id}-ends`)).stdout, "again\n");
});

test("exec as a stream", async () => {
        const stream = await commands.executeStream("LOST=1; echo one; echo two >&2; exit 3", id, { env: { A: "1" } });
        const seen = await events(parseSSEStream, stream);
        assert.equal(seen[0].type, "start");
        assert.equal(text(seen), "one\n");
        assert.equal(text(seen, "stderr"), "two\n");
        assert.deepEqual([seen.at(-1).type, seen.at(-1).exitCode], ["complete", 3]);
        assert.equal((await commands.execute('echo "[$LOST]"', id)).stdout, "[]\n");
        const slow = await events(parseSSEStream, await commands.executeStream("sleep 30", id, { timeoutMs: 200 }));
        assert.deepEqual([slow.at(-1).type, slow.at(-1).data], ["error", "Command timeout after 200ms"]);
});

test("who closes a stream ends its command", async () => {
        const stream = await commands.executeStream(`touch ${home}/alive; while sleep 0.1; do date >> ${home}/alive; done`, id);
        for await (const event of parseSSEStream(stream)) if (event.type === "start") break;
        await stream.cancel().catch(() => {});
        let before, size;
        for (let same = 0; same < 5; before = size) {
                size = (await commands.execute(`wc -c < ${home}/alive 2>/dev/null || echo none`, id)).stdout;
                same = size === before ? same + 1 : 0;
                await new Promise((resolve) => setTimeout(resolve, 200));
        }
});

test("processes", async () => {
        const started = await processes.startProcess("echo begun $A; pwd; sleep 60", id, { processId: `${id}-1`, env: { A: "1" }, cwd: "/tmp" });
        assert.deepEqual([started.success, started.processId, started.command], [true, `${id}-1`, "echo begun $A; pwd; sleep 60"]);
        assert.ok(started.pid > 0);
        const { processes: all } = await processes.listProcesses();
        const mine = all.find((one) => one.id === `${id}-1`);
        assert.deepEqual([mine.status, "endTime" in mine, "exitCode" in mine], ["running", false, false]);
        assert.equal((await processes.getProcess(`${id}-1`)).process.status, "running");
        const seen = await events(parseSSEStream, await processes.streamProcessLogs(`${id}-1`), (event) => event.data?.includes("/tmp"));
        assert.equal(seen[0].type, "process_info");
        assert.equal(text(seen), "begun 1\n/tmp\n");
        const logs = await processes.getProcessLogs(`${id}-1`);
        assert.deepEqual([logs.success, logs.stdout, logs.stderr], [true, "begun 1\n/tmp\n", ""]);
        assert.equal((await processes.killProcess(`${id}-1`)).success, true);
        assert.deepEqual((({ status, exitCode }) => [status, exitCode])((await processes.getProcess(`${id}-1`)).process), ["killed", 143]);
        for (const call of ["getProcess", "killProcess", "getProcessLogs"]) await rejects(processes[call]("nobody"), /ProcessNotFoundError/);
        const { processId } = await processes.startProcess("echo x; exit 4", id);
        const whole = await events(parseSSEStream, await processes.streamProcessLogs(processId));
        assert.deepEqual([whole.at(-1).type, whole.at(-1).exitCode], ["exit", 4]);
        assert.equal((await processes.killProcess(processId)).success, true, "it ended before");
        await processes.startProcess("sleep 60", id);
        assert.ok((await processes.killAllProcesses()).cleanedCount >= 1);
});

test("files", async () => {
        const content = "grüße\n\u0000end without newline";
        assert.equal((await files.writeFile(`${home}/deep/er/f`, content, id)).success, true);
        const read = await files.readFile(`${home}/deep/er/f`, id);
        assert.deepEqual([read.content, read.encoding, read.size], [content, "utf-8", Buffer.byteLength(content)]);
        await files.writeFile(`${home}/bin`, "AP8=", id, { encoding: "base64" });
        const binary = await files.readFile(`${home}/bin`, id);
        assert.deepEqual([binary.content, binary.encoding, binary.isBinary, binary.size], ["AP8=", "base64", true, 2]);
        assert.equal((await files.readFile(`${home}/deep/er/f`, id, { encoding: "base64" })).content, Buffer.from(content).toString("base64"));
        assert.equal((await rejects(files.writeFile(`${home}/x`, "no base64", id, { encoding: "base64" }), /ValidationFailedError/)).code, "VALIDATION_FAILED");
        const error = await rejects(files.readFile(`${home}/none`, id), /FileNotFoundError/);
        assert.deepEqual([error.httpStatus, error.path], [404, `${home}/none`]);
        await rejects(files.readFile(home, id), /FileNotFoundError/);
        await files.mkdir(`${home}/d`, id);
        await rejects(files.mkdir(`${home}/d`, id), /FileSystemError/);
        await files.mkdir(`${home}/d`, id, { recursive: true });
        assert.equal((await rejects(files.deleteFile(`${home}/d`, id), /FileSystemError/)).code, "IS_DIRECTORY");
        const renamed = await files.renameFile(`${home}/bin`, `${home}/bin2`, id);
        assert.deepEqual([renamed.path, renamed.newPath], [`${home}/bin`, `${home}/bin2`]);
        const moved = await files.moveFile(`${home}/bin2`, `${home}/bin3`, id);
        assert.deepEqual([moved.path, moved.newPath], [`${home}/bin2`, `${home}/bin3`]);
        await rejects(files.renameFile(`${home}/none`, `${home}/x`, id), /FileNotFoundError/);
        assert.equal((await files.exists(`${home}/bin3`, id)).exists, true);
        assert.equal((await files.exists(`${home}/none/x`, id)).exists, false);
        const listed = await files.listFiles(home, id, { recursive: true, includeHidden: true });
        assert.equal(listed.count, listed.files.length);
        const file = listed.files.find((one) => one.relativePath === "deep/er/f");
        assert.deepEqual([file.type, file.size, file.mode.length, file.name], ["file", Buffer.byteLength(content), 9, "f"]);
        assert.ok(!Number.isNaN(Date.parse(file.modifiedAt)));
        await rejects(files.listFiles(`${home}/none`, id), /FileNotFoundError/);
        assert.equal((await files.deleteFile(`${home}/bin3`, id)).success, true);
        await rejects(files.deleteFile(`${home}/bin3`, id), /FileNotFoundError/);
});

test("files as streams", async () => {
        const large = "0123456789abcdé\n".repeat(30000);
        await files.writeFile(`${home}/large`, large, id);
        const whole = await collectFile(await files.readFileStream(`${home}/large`, id));
        assert.equal(whole.content, large);
        await commands.execute(`head -c 2000001 /dev/urandom > ${home}/random`, id);
        let size = 0;
        for await (const chunk of streamFile(await files.readFileStream(`${home}/random`, id))) size += chunk.length;
        assert.equal(size, 2000001);
        await files.writeFile(`${home}/empty`, "", id);
        assert.equal((await collectFile(await files.readFileStream(`${home}/empty`, id))).content, "");
        await rejects(files.readFileStream(`${home}/none`, id), overSocket ? /404/ : /FileNotFoundError/);
});

test("git", async () => {
        await commands.execute(`cd ${home} && git init -q -b trunk repo && cd repo && git config user.email a@b.c && git config user.name n && echo hi > f && git add f && git commit -qm one`, id, { cwd: home });
        const cloned = await git.checkout(`file://${home}/repo`, id, { targetDir: `${home}/clone`, depth: 1 });
        assert.deepEqual([cloned.success, cloned.branch, cloned.targetDir], [true, "trunk", `${home}/clone`]);
        assert.match((await rejects(git.checkout(`file://${home}/nothing`, id, { targetDir: `${home}/x` }), /Git/)).code, /^GIT_/);
        await rejects(git.checkout(`file://${home}/repo`, id, { branch: "none", targetDir: `${home}/y` }), /Git/);
});

test("ports", async () => {
        const port = overSocket ? 8302 : 8301;
        const { processId } = await processes.startProcess(server(port), id);
        const seen = await events(parseSSEStream, await ports.watchPort({ port, mode: "http", path: "/", statusMin: 200, statusMax: 399, processId, interval: 100 }));
        assert.deepEqual(seen.map((event) => event.type), ["watching", "ready"]);
        const tcp = await events(parseSSEStream, await ports.watchPort({ port, mode: "tcp" }));
        assert.equal(tcp.at(-1).type, "ready");
        await processes.killProcess(processId);
        const { processId: short } = await processes.startProcess("sleep 0.3; exit 5", id);
        const gone = await events(parseSSEStream, await ports.watchPort({ port: port + 10, mode: "tcp", processId: short }));
        assert.deepEqual([gone.at(-1).type, gone.at(-1).exitCode], ["process_exited", 5]);
});

test("watch", async () => {
        await files.mkdir(`${home}/watched`, id);
        const stream = await watch.watch({ path: `${home}/watched`, recursive: true, sessionId: id });
        await files.writeFile(`${home}/watched/new`, "x", id);
        await commands.execute(`mkdir ${home}/watched/sub; mv ${home}/watched/new ${home}/watched/sub/moved`, id);
        // A file that goes before its new directory is watched is never seen: it comes and goes until it is.
        let isSeen = false;
        const removing = (async () => { while (!isSeen) await commands.execute(`touch ${home}/watched/sub/moved; rm ${home}/watched/sub/moved`, id); })();
        const seen = await events(parseSSEStream, stream, (event) => event.eventType === "delete" && event.path.endsWith("moved"));
        isSeen = true;
        await removing;
        assert.deepEqual([seen[0].type, seen[0].path], ["watching", `${home}/watched`]);
        const told = seen.filter((event) => event.type === "event").map((event) => `${event.eventType} ${event.path.split("/").at(-1)}`);
        assert.ok(told.some((one) => /^(create|move_to) new$/.test(one)), told.join());
        assert.ok(seen.some((event) => event.path.endsWith("/sub") && event.isDirectory === true));
        await rejects(watch.watch({ path: `${home}/none`, sessionId: id }), overSocket ? /404/ : /FileNotFoundError/);
        await rejects(watch.watch({ path: home, include: ["a"], exclude: ["b"] }), /do not go together/);
});

test("changes between two looks", async () => {
        const path = `${home}/watched`;
        const first = await watch.checkChanges({ path, sessionId: id });
        assert.deepEqual([first.success, first.status], [true, "unchanged"]);
        assert.equal((await watch.checkChanges({ path, since: first.version, sessionId: id })).status, "unchanged");
        await files.writeFile(`${path}/later`, "x", id);
        const second = await watch.checkChanges({ path, since: first.version, sessionId: id });
        assert.equal(second.status, "changed", "right after the write");
        assert.notEqual(second.version, first.version);
        const other = await watch.checkChanges({ path, since: "watch-1-1:1", sessionId: id });
        assert.deepEqual([other.status, other.reason], ["resync", "restarted"]);
        await rejects(watch.checkChanges({ path, since: "0123456789abcdef-1-1", sessionId: id }), /since must be a version/);
});

test("backup", async () => {
        await commands.execute(`mkdir -p ${home}/data/sub && cd ${home}/data && echo one > one && echo two > sub/two && echo no > skipped.log && ln -s one link`, id);
        const archive = `/tmp/${id}.sqsh`;
        const made = await backup.createArchive(`${home}/data`, archive, id, { excludes: ["*.log"] });
        assert.deepEqual([made.success, made.archivePath], [true, archive]);
        assert.equal(String(made.sizeBytes), (await commands.execute(`stat -c %s ${archive}`, id)).stdout.trim());
        await commands.execute(`cd ${home}/data && echo changed > one && echo later > .later && rm -r sub`, id);
        const restored = await backup.restoreArchive(`${home}/data`, archive, id);
        assert.deepEqual([restored.success, restored.dir], [true, `${home}/data`]);
        const now = (await commands.execute(`cd ${home}/data && ls -A && cat link sub/two`, id)).stdout;
        assert.equal(now, "link\none\nsub\none\ntwo\n");
        await files.writeFile(`${home}/bad.sqsh`, "no archive", id);
        await rejects(backup.restoreArchive(`${home}/data`, `${home}/bad.sqsh`, id), /BackupRestoreError/);
        assert.equal((await commands.execute(`ls -A ${home}/data`, id)).stdout, "link\none\nsub\n", "what is there stays when the archive is bad");
        await rejects(backup.restoreArchive(`${home}/data`, `${home}/none.sqsh`, id), /BackupNotFoundError/);
});

test("a backup without what git ignores", async () => {
        await commands.execute(`mkdir -p ${home}/project/build ${home}/project/src/build && cd ${home}/project && git init -q . && echo /build > .gitignore && touch build/x src/build/y 'a[b].c'`, id);
        const archive = `/tmp/${id}-2.sqsh`;
        await backup.createArchive(`${home}/project`, archive, id, { gitignore: true });
        await backup.restoreArchive(`${home}/restored`, archive, id);
        assert.equal((await commands.execute(`cd ${home}/restored && ls -d build src/build/y a* 2>/dev/null`, id)).stdout, "a[b].c\nsrc/build/y\n");
});

test("the server", async () => {
        assert.equal(await utils.ping(), "pong");
        assert.match(await utils.getVersion(), /^\d+\.\d+/);
        const names = await utils.getCommands();
        assert.ok(names.includes("ls") && names.includes("bash"));
});

test("what is not served says so", async () => {
        await rejects(backup.uploadParts({ archivePath: "/tmp/x", parts: [] }, id), /read\/stream/);
});
