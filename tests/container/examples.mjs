// The READMEs of both packages, typed in as a user would. Repositories and packages of the network are local ones here.
// They run with the genuine clients (walk-through.test.mjs) and with the façade (clients/typescript/test/sandbox-examples.test.mjs).
import { strict as assert } from "node:assert";
import { test } from "node:test";

/**
 * isNew: features of later versions exist. isFacade: a namespace is no Durable Object. hasAnalysis:
 * with the long example of data analysis. backups: returns a sandbox with a place for backups.
 */
export function examples({ sandbox, name, isNew, isFacade = false, hasAnalysis = true, parseSSEStream, streamFile, collectFile, backups }) {
        test("quick start", async () => {
                await sandbox.setEnvVars({ NODE_ENV: "production", API_KEY: "your-api-key", DATABASE_URL: "postgresql://localhost:5432/mydb" });
                assert.equal((await sandbox.exec("echo $NODE_ENV")).stdout.trim(), "production");
                assert.equal((await sandbox.exec("echo 'Hello from the edge!'")).stdout.trim(), "Hello from the edge!");
                const result = await sandbox.exec('python3 -c "print(2 + 2)"');
                assert.deepEqual([result.stdout.trim(), result.success], ["4", true]);
                await sandbox.writeFile("/workspace/hello.txt", "Hello, Sandbox!");
                assert.equal((await sandbox.readFile("/workspace/hello.txt")).content, "Hello, Sandbox!");
        });

        test("commands as streams", async () => {
                const heard = [];
                const options = { stream: true, onOutput: (stream, data) => heard.push(`[${stream}] ${data}`) };
                const built = await sandbox.exec("echo building; echo careful >&2", options);
                assert.equal(built.exitCode, 0);
                if (isNew) assert.deepEqual(heard.sort(), ["[stderr] careful\n", "[stdout] building\n"]);
                const seen = [];
                for await (const event of parseSSEStream(await sandbox.execStream("for i in 1 2 3; do echo test $i; done; exit 2"))) {
                        switch (event.type) {
                                case "stdout":
                                        seen.push(event.data);
                                        break;
                                case "complete":
                                        seen.push(event.exitCode === 0 ? "passed" : "failed");
                                        break;
                        }
                }
                assert.deepEqual([seen.slice(0, -1).join(""), seen.at(-1)], ["test 1\ntest 2\ntest 3\n", "failed"]);
        });

        test("a web server", async () => {
                const code = `
  const http = require('http');
  http.createServer((req, res) => {
    res.setHeader('Content-Type', 'application/json');
    res.end(JSON.stringify({ message: 'Hello from Cloudflare!', path: req.url }));
  }).listen(8080, () => console.log('listening'));
`;
                await sandbox.mkdir("/app", { recursive: true });
                await sandbox.writeFile("/app/app.js", code);
                const server = await sandbox.startProcess("node /app/app.js");
                assert.match(`${server.id} ${server.pid}`, /^\S+ \d+$/);
                for await (const log of parseSSEStream(await sandbox.streamProcessLogs(server.id))) if (log.type === "stdout" && /listening/.test(log.data)) break;
                assert.equal((await sandbox.exec("curl -s http://localhost:8080/x")).stdout.trim(), '{"message":"Hello from Cloudflare!","path":"/x"}');
                const preview = await sandbox.exposePort(8080, { hostname: "your-worker.dev", name: "dev-server" });
                assert.match(preview.url, new RegExp(`^https://8080-${name}[^.]*\\.your-worker\\.dev/?$`));
                if (!isNew || isFacade) assert.ok((await sandbox.getExposedPorts("your-worker.dev")).some(({ port }) => port === 8080)); // later ones keep them in their own storage
                await sandbox.unexposePort(8080);
                assert.ok((await sandbox.listProcesses()).some(({ id }) => id === server.id));
                await sandbox.killProcess(server.id);
                assert.notEqual((await sandbox.getProcess(server.id)).status, "running");
                assert.equal((await sandbox.getProcessLogs(server.id)).stdout, "listening\n");
        });

        test("a repository", async () => {
                await sandbox.exec("mkdir -p /tmp/origin/my-app && cd /tmp/origin/my-app && git init -q -b main && echo '{\"scripts\": {\"test\": \"echo tested\"}}' > package.json && git add . && git -c user.email=a@example.org -c user.name=a commit -qm first; cd /workspace");
                const { success, targetDir } = await sandbox.gitCheckout("file:///tmp/origin/my-app", { branch: "main", targetDir: "my-project" });
                assert.deepEqual([success, targetDir], [true, "my-project"]);
                assert.match((await sandbox.exec("cd my-project && npm test; cd ..")).stdout, /tested/);
                await sandbox.writeFile("/src/App.jsx", "export default () => null");
                assert.equal((await sandbox.readFile("/src/App.jsx")).content.trim(), "export default () => null");
        });

        test("files", async () => {
                const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
                await sandbox.exec(`echo ${png} | base64 -d > /workspace/chart.png`);
                const image = await sandbox.readFile("/workspace/chart.png");
                assert.deepEqual([image.mimeType, image.isBinary, image.encoding, image.content], ["image/png", true, "base64", png]);
                await sandbox.exec("head -c 300000 /dev/urandom > /data/large.bin");
                let bytes = 0;
                for await (const chunk of streamFile(await sandbox.readFileStream("/data/large.bin"))) bytes += chunk.byteLength;
                assert.equal(bytes, 300000);
                const { content, metadata } = await collectFile(await sandbox.readFileStream("/workspace/chart.png"));
                assert.deepEqual([Buffer.from(content).toString("base64"), metadata.mimeType], [png, "image/png"]);
                await sandbox.renameFile("/workspace/chart.png", "/workspace/old.png");
                await sandbox.moveFile("/workspace/old.png", "/tmp/old.png");
                await sandbox.deleteFile("/tmp/old.png");
        });

        test("sessions", async () => {
                const session = await sandbox.createSession({ id: `${name}-s`, env: { STAGE: "test" }, cwd: "/app" });
                assert.equal((await session.exec("echo $STAGE in $PWD")).stdout.trim(), "test in /app");
                await session.writeFile("notes.md", "# relative");
                assert.equal((await session.exec("cat notes.md")).stdout.trim(), "# relative");
                assert.equal((await session.readFile("/app/notes.md")).content.trim(), "# relative");
        });

        test("data analysis", { skip: !hasAnalysis }, async () => {
                const pythonCtx = await sandbox.createCodeContext({ language: "python" });
                const results = [];
                const analysis = await sandbox.runCode(`
import pandas as pd
import matplotlib.pyplot as plt

data = {
    'Month': ['Jan', 'Feb', 'Mar', 'Apr', 'May'],
    'Sales': [10000, 12000, 15000, 14000, 18000],
    'Profit': [2000, 2500, 3200, 2800, 4000]
}
df = pd.DataFrame(data)
print("Sales Summary:")
print(df.describe())

plt.figure(figsize=(10, 6))
plt.subplot(1, 2, 1)
plt.bar(df['Month'], df['Sales'])
plt.title('Monthly Sales')
plt.subplot(1, 2, 2)
plt.plot(df['Month'], df['Profit'], marker='o', color='green')
plt.title('Monthly Profit')
plt.tight_layout()
plt.show()

df.to_dict('records')
`, { context: pythonCtx, onResult: (result) => void results.push(result.png ? "picture" : result.json) });
                assert.equal(analysis.error, undefined);
                assert.match(analysis.logs.stdout.join(""), /^Sales Summary:\n/);
                assert.equal(results[0], "picture");
                assert.equal(analysis.results[0].chart.type, "superchart");
                assert.deepEqual(results[1][0], { Month: "Jan", Sales: 10000, Profit: 2000 });
                await sandbox.runCode("df.to_json('/tmp/sales_data.json', orient='records')", { context: pythonCtx });
                const jsCtx = await sandbox.createCodeContext({ language: "javascript" });
                const growth = await sandbox.runCode(`
const fs = require('fs');
const data = JSON.parse(fs.readFileSync('/tmp/sales_data.json', 'utf8'));
const growth = data.map((curr, idx) => {
  if (idx === 0) return { ...curr, growth: 0 };
  const prev = data[idx - 1];
  return { ...curr, growth: ((curr.Sales - prev.Sales) / prev.Sales * 100).toFixed(2) + '%' };
});
console.log('Growth Analysis:', growth.length);
growth;
`, { context: jsCtx });
                assert.equal(growth.results[0].json[1].growth, "20.00%");
                assert.ok((await sandbox.listCodeContexts()).length >= 2);
                await sandbox.deleteCodeContext(jsCtx.id);
        });

        test("files right at the top", async () => {
                // As the README of 0.3 has its web server.
                await sandbox.writeFile("/server.js", "require('http').createServer((_, res) => res.end('Hello from Node.js!')).listen(8081, () => console.log('Server started'));");
                const server = await sandbox.startProcess("node /server.js");
                for await (const log of parseSSEStream(await sandbox.streamProcessLogs(server.id))) if (log.type === "stdout" && /Server started/.test(log.data)) break;
                assert.equal((await sandbox.exec("curl -s http://localhost:8081/")).stdout.trim(), "Hello from Node.js!");
                await server.kill();
                await sandbox.mkdir("/my-app/src", { recursive: true });
                await sandbox.writeFile("/my-app/src/index.js", "console.log('made at the top')");
                assert.match((await sandbox.exec("node /my-app/src/index.js; ls /")).stdout, /made at the top[^]*my-app[^]*server\.js/);
                assert.ok((await sandbox.listFiles("/")).files.some((file) => file.name === "my-app"));
                await sandbox.writeFile("/root/.npmrc", "fund=false");
                await sandbox.writeFile("/var/log/app.log", "started");
                assert.equal((await sandbox.exec("cat /root/.npmrc /var/log/app.log")).stdout.replaceAll("\n", ""), "fund=falsestarted");
        });

        test("many processes", async () => {
                const started = [await sandbox.startProcess("sleep 1000"), await sandbox.startProcess("sleep 1000")];
                assert.ok((await sandbox.listProcesses()).filter(({ status }) => status === "running").length >= 2);
                await sandbox.killProcess(started[0].id);
                assert.ok((await sandbox.killAllProcesses()) >= 1);
                assert.notEqual(await started[1].getStatus(), "running");
                await sandbox.cleanupCompletedProcesses();
        });

        test("a command that ends its shell", async () => {
                const thrown = await sandbox.exec("echo last; exit 3").then(() => assert.fail("it is an error"), (error) => error);
                if (isNew) assert.deepEqual([thrown.name, thrown.code, thrown.exitCode], ["SessionTerminatedError", "SESSION_TERMINATED", 3]);
                assert.equal((await sandbox.exec("echo anew")).stdout.trim(), "anew");
        });

        test("what is not there", async () => {
                if (!isNew) return void assert.equal((await sandbox.readFile("/none")).success, false);
                for (const act of [() => sandbox.readFile("/none"), () => sandbox.deleteFile("/none")]) await assert.rejects(act, { name: "FileNotFoundError", code: "FILE_NOT_FOUND" });
                assert.equal((await sandbox.exists("/none")).exists, false);
                assert.equal(await sandbox.getProcess("none"), null);
                await assert.rejects(sandbox.gitCheckout("file:///tmp/none.git"), ({ code }) => /^GIT_(REPOSITORY_NOT_FOUND|OPERATION_FAILED)$/.test(code));
        });

        test("a server that is waited for", { skip: !isNew }, async () => {
                const server = await sandbox.startProcess("echo 'ready on 8082'; exec python3 -m http.server 8082", { cwd: "/app" });
                assert.equal((await server.waitForLog(/ready on (\d+)/, 30000)).match[1], "8082");
                await server.waitForPort(8082, { path: "/", status: 200, timeout: 30000 });
                await server.kill();
                const short = await sandbox.startProcess("exit 2");
                assert.equal((await short.waitForExit(30000)).exitCode, 2);
        });

        test("environment and directory of one command", { skip: !isNew }, async () => {
                assert.equal((await sandbox.exec("echo $ONCE in $PWD", { env: { ONCE: "1" }, cwd: "/app" })).stdout.trim(), "1 in /app");
                assert.equal((await sandbox.exec("echo [$ONCE]")).stdout.trim(), "[]");
        });

        test("changes", { skip: !isNew }, async () => {
                await sandbox.mkdir("/app/watched", { recursive: true });
                const before = await sandbox.checkChanges("/app/watched");
                const stream = await sandbox.watch("/app/watched", { exclude: ["*.tmp"] });
                await sandbox.writeFile("/app/watched/a.tmp", "");
                await sandbox.writeFile("/app/watched/a.txt", "1");
                for await (const event of parseSSEStream(stream)) {
                        if (event.type !== "event") continue;
                        assert.deepEqual([event.eventType, event.path, event.isDirectory], ["create", "/app/watched/a.txt", false]);
                        break;
                }
                const now = await sandbox.checkChanges("/app/watched", { since: before.version });
                assert.deepEqual([now.status, (await sandbox.checkChanges("/app/watched", { since: now.version })).status], ["changed", "unchanged"]);
        });

        test("a backup", { skip: !backups }, async () => {
                const box = await backups();
                await box.writeFile("/app/project/main.js", "first");
                const backup = await box.createBackup({ dir: "/app/project", name: "before-refactor", localBucket: true });
                await box.writeFile("/app/project/main.js", "broken");
                await box.writeFile("/app/project/more.js", "more");
                const restored = await box.restoreBackup(backup);
                assert.deepEqual([restored.success, restored.dir, (await box.readFile("/app/project/main.js")).content], [true, "/app/project", "first"]);
        });

        test("sessions end", { skip: !isNew }, async () => {
                const session = await sandbox.createSession({ id: `${name}-end` });
                assert.equal((await session.exec("echo $((6 * 7))")).stdout.trim(), "42");
                assert.equal((await sandbox.deleteSession(`${name}-end`)).success, true);
        });
}
