// Times of the genuine E2B clients against one server. For bench/e2b.py: prints a JSON row of milliseconds for each act.
import { createRequire } from "node:module";
import { join } from "node:path";
import { spawn } from "node:child_process";

const { Sandbox } = createRequire(join(process.env.E2B_CLIENTS, "x.js"))("@e2b/code-interpreter");
const rounds = Number(process.argv[2]);
const WARM_UP = 5;
const PAUSE_MS = 20; // between two acts: the daemon refills its pool then
const times = {};

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
const timed = async (name, act) => {
        const begun = process.hrtime.bigint();
        const result = await act();
        (times[name] ??= []).push(Number(process.hrtime.bigint() - begun) / 1e6);
        return result;
};
const floor = () => new Promise((resolve, reject) => spawn("/bin/true", { stdio: "ignore" }).on("exit", resolve).on("error", reject));

const box = await Sandbox.create({ timeoutMs: 600_000 });
await box.files.write("kib", "x".repeat(1024));
for (let round = 0; round < rounds + WARM_UP; round++) {
        if (round === WARM_UP) for (const name of Object.keys(times)) delete times[name];
        await timed("fork and exec of /bin/true by Node", floor);
        await pause();
        const one = await timed("create", () => Sandbox.create());
        await pause();
        await timed("kill", () => one.kill());
        await pause();
        const other = await timed("create and first command", async () => {
                const made = await Sandbox.create();
                await made.commands.run("true");
                return made;
        });
        await other.kill();
        await pause();
        await timed("commands.run", () => box.commands.run("true"));
        await timed("runCode 1+1", () => box.runCode("1+1"));
        await timed("files.write of 1 KiB", () => box.files.write("kib", "y".repeat(1024)));
        await timed("files.read of 1 KiB", () => box.files.read("kib"));
}
await box.kill();
console.log(JSON.stringify(times));
process.exit(0); // the clients leave timers of a minute behind
