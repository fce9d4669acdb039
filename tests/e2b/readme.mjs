// Runs the programs of a package's README as they stand there, but for the address of the service.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.E2B_CLIENTS, "x.js"));
const AsyncFunction = (async () => {}).constructor;

// Each program as {text, printed, expected}: its lines of output, and those that its comments promise.
export async function programsOf(name) {
        const readme = readFileSync(join(process.env.E2B_CLIENTS, "node_modules", name, "README.md"), "utf8"), done = [];
        for (const [, text] of readme.matchAll(/```ts\n(.*?)```/gs)) {
                const printed = [], boxes = [];
                const code = text
                        .replace(/import (\{.*?\}) from '(.*?)'/g, "const $1 = load('$2')")
                        .replace(/\{ apiKey: .*?\}/g, "{ apiKey: process.env.E2B_API_KEY }")
                        .replace(/await (client\.)?Sandbox\.create\(\)/g, (call) => `keep(${call})`);
                const keep = (box) => { boxes.push(box); return box; };
                await new AsyncFunction("load", "console", "keep", code)(require, { log: (line) => printed.push(String(line).trim()) }, keep);
                for (const box of boxes) await box.kill();
                done.push({ text, printed, expected: [...text.matchAll(/console\.log\(.*?\/\/ (?:outputs )?(.*)$/gm)].map(([, line]) => line) });
        }
        return done;
}
