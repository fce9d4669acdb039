// Templates by the genuine e2b: their builds, and sandboxes of them. Each test has its failing twin.
import { strict as assert } from "node:assert";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

const { Sandbox, Template, waitForFile } = createRequire(join(process.env.E2B_CLIENTS, "x.js"))("e2b");
let context;

before(() => {
        context = mkdtempSync(join(tmpdir(), "e2b-template-"));
        mkdirSync(join(context, "app/deep"), { recursive: true });
        writeFileSync(join(context, "app/main.sh"), "echo main\n");
        writeFileSync(join(context, "app/deep/data"), "x".repeat(3 << 20));
        writeFileSync(join(context, "one.txt"), "1");
});
after(() => rmSync(context, { recursive: true }));

const template = () => Template({ fileContextPath: context });
const build = async (steps, name) => {
        const log = [];
        await Template.build(steps, name, { onBuildLogs: (entry) => log.push(entry.message), logsRefreshFrequency: 50 });
        return log.join("\n");
};

test("a template has the files, variables and directory of its steps, and its server runs", async () => {
        const log = await build(template().fromBaseImage().setEnvs({ GREETING: "it's" }).setWorkdir("/home/user/work").copy("app", "app").copy("one.txt", "/home/user/two.txt", { mode: 0o600 })
                .runCmd("echo \"$GREETING $PWD\"; cat app/main.sh > made").setStartCmd("echo up > /tmp/up; exec sleep 600", waitForFile("/tmp/up")), "built");
        assert.match(log, /it's \/home\/user\/work/);
        assert.deepEqual([await Template.exists("built"), await Template.exists("unbuilt")], [true, false]);
        const box = await Sandbox.create("built", { timeoutMs: 60_000, envs: { MORE: "2" } });
        assert.equal((await box.commands.run("echo $GREETING $MORE $PWD; cat made /tmp/up; stat -c %a:%s ~/two.txt app/deep/data; pgrep -x sleep | wc -l")).stdout, `it's 2 /home/user/work\necho main\nup\n600:1\n644:${3 << 20}\n1\n`);
        const { snapshotId } = await box.createSnapshot();
        const later = await Sandbox.create(snapshotId, { timeoutMs: 60_000 }); // it begins as those of the template
        assert.equal((await later.commands.run("echo $GREETING $PWD; pgrep -x sleep | wc -l")).stdout, "it's /home/user/work\n1\n");
        for (const own of [box, later]) await own.kill();
        await Sandbox.deleteSnapshot(snapshotId);
        const more = await build(template().fromTemplate("built").runCmd("echo $GREETING; cat made"), "built-more");
        assert.match(more, /it's\necho main/);
        assert.deepEqual(await Sandbox.list().nextItems(), []); // those of builds are gone, and never shown
});

test("tags name builds of a template, and outlive later builds", async () => {
        const made = (text) => template().fromBaseImage().runCmd(`echo ${text} > made`), read = async (name) => {
                const own = await Sandbox.create(name, { timeoutMs: 60_000 }), text = await own.files.read("made");
                await own.kill();
                return text;
        };
        const tags = async () => (await Template.getTags("tagged")).map((one) => one.tag).sort();
        await build(made("one"), "tagged:v1.0");
        assert.deepEqual([await Template.exists("tagged:v1.0"), await Template.exists("tagged"), await tags()], [true, false, ["v1.0"]]);
        await assert.rejects(Sandbox.create("tagged"), /template 'tagged' not found/); // no default yet
        const info = await Template.build(made("two"), "tagged", { tags: ["default", "latest"] });
        assert.deepEqual(info.tags, ["default", "latest"]);
        assert.deepEqual([await read("tagged:v1.0"), await read("tagged"), await read("tagged:latest"), await tags()], ["one\n", "two\n", "two\n", ["default", "latest", "v1.0"]]);
        const assigned = await Template.assignTags("tagged:v1.0", ["default", "stable"]);
        assert.deepEqual(assigned.tags, ["default", "stable"]);
        assert.deepEqual([await read("tagged:default"), await read("tagged:stable"), await read("tagged:latest")], ["one\n", "one\n", "two\n"]);
        assert.equal((await build(template().fromTemplate("tagged:latest").runCmd("cat made"), "of-tagged")).includes("two"), true);
        await Template.removeTags("tagged", ["stable", "latest"]);
        assert.deepEqual(await tags(), ["default", "v1.0"]);
        await assert.rejects(Template.removeTags("tagged", ["stable"]), /does not have all of these tags/);
        await assert.rejects(Template.assignTags("tagged:none", ["x"]), /template 'tagged:none' not found/);
        await assert.rejects(Template.getTags("no-such"), /not found/);
        assert.equal(await Sandbox.deleteSnapshot("tagged"), true); // with all its tags
        assert.equal(await Template.exists("tagged:v1.0"), false);
});

test("a step that fails ends the build, with its reason", async () => {
        await assert.rejects(build(template().fromBaseImage().runCmd("echo before").runCmd("echo no >&2; exit 7"), "broken"), /exit code 7/);
        assert.equal(await Template.exists("broken"), false);
        await assert.rejects(build(template().fromImage("no-such-image"), "none"), /this machine's store: there is no image 'no-such-image/);
        await assert.rejects(build(template().fromTemplate("no-such"), "none"), /no-such/);
        await assert.rejects(build(template().fromBaseImage().runCmd("true", { user: "root" }), "none"), /runs as root/);
        await assert.rejects(build(template().fromBaseImage(), "a_b"), /'name' must be/);
        await assert.rejects(build(template().fromBaseImage(), "base"), /'name' must be/);
});
