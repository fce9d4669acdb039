// The cost of one run of JavaScript in other isolates, called from Node. Rows as JSON lines; see README.md.
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import vm from "node:vm";
import { Worker } from "node:worker_threads";
import { Served, emit, emitSkipped, emitTimes, options, pssKb, serve } from "./measure.mjs";

const SELF = fileURLToPath(import.meta.url);
const GUEST = fileURLToPath(new URL("guest.cjs", import.meta.url));
// Inside a function: node:vm looks top-level names up through an interceptor, which would cost it a factor of ten.
const FIB24 = "(() => { const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); return fib(24); })()";
const QUESTIONS = {
  trivial: { code: "40 + 2", value: 42 },
  host_call: { code: "host(41)", value: 42 },
  fib24: { code: FIB24, value: 46368 },
};
const BLOCKS = 10;

const host = async (n) => n + 1;

// A peer's open() returns run(question), which returns the value, and end(), which removes the objects of the run.

const IVM_HOST = "globalThis.host = (n) => hostReference.apply(undefined, [n], { result: { promise: true } });";
const IVM_PREFIX = `${IVM_HOST}
globalThis.lines = [];
globalThis.console = Object.fromEntries(["log", "warn", "error"].map((level) =>
  [level, (...values) => { lines.push(level + ": " + values.map(String).join(" ")); }]));`;

async function ivmRun(ivm, isolate, question, hasPrefix) {
  const context = await isolate.createContext();
  if (question === "host_call") {
    await context.global.set("hostReference", new ivm.Reference(host));
    if (!hasPrefix) await context.eval(IVM_HOST);
  }
  const value = await context.eval(QUESTIONS[question].code, { promise: question === "host_call" });
  return { value, context };
}

const loadIvm = () => createRequire(import.meta.url)("isolated-vm");

function ivmFreshIsolate(prefix) {
  const ivm = loadIvm();
  const snapshot = prefix && ivm.Isolate.createSnapshot([{ code: prefix }]);
  return async (question) => {
    const isolate = new ivm.Isolate({ memoryLimit: 64, snapshot });
    const { value } = await ivmRun(ivm, isolate, question, Boolean(prefix));
    return { value, end: () => isolate.dispose() };
  };
}

function ivmFreshContext() {
  const ivm = loadIvm();
  const isolate = new ivm.Isolate({ memoryLimit: 512 });
  return async (question) => {
    const { value, context } = await ivmRun(ivm, isolate, question, false);
    return { value, end: () => context.release() };
  };
}

function quickjsHost(context) {
  const call = context.newFunction("host", (n) => {
    const promise = context.newPromise();
    host(context.getNumber(n)).then((value) => context.newNumber(value).consume((handle) => promise.resolve(handle)));
    promise.settled.then(() => context.runtime.executePendingJobs());
    return promise.handle;
  });
  call.consume((handle) => context.setProp(context.global, "host", handle));
}

async function quickjsSettled(context, promise) {
  const settled = context.resolvePromise(promise);
  context.runtime.executePendingJobs();
  return context.unwrapResult(await settled);
}

async function quickjsRun(context, question) {
  if (question === "host_call") quickjsHost(context);
  let handle = context.unwrapResult(context.evalCode(QUESTIONS[question].code));
  if (question === "host_call") handle = await handle.consume((promise) => quickjsSettled(context, promise));
  return { value: handle.consume((result) => context.getNumber(result)), end: () => context.dispose() };
}

async function quickjs(inReusedRuntime) {
  const { getQuickJS } = await import("quickjs-emscripten");
  const module = await getQuickJS();
  const runtime = inReusedRuntime ? module.newRuntime() : module; // module.newContext() makes its own runtime
  return (question) => quickjsRun(runtime.newContext(), question);
}

function nodeVm() {
  return async (question) => {
    const context = vm.createContext({ host });
    return { value: await vm.runInContext(QUESTIONS[question].code, context), context };
  };
}

function conversation(guest, post, question) {
  return new Promise((resolve, reject) => {
    guest.once("error", reject);
    guest.once("exit", (code) => reject(new Error(`the guest ended with ${code}`)));
    guest.on("message", async (message) => {
      if ("value" in message) resolve(message.value);
      else post({ value: await host(message.host) });
    });
    post({ code: QUESTIONS[question].code });
  });
}

function workerThread() {
  return async (question) => {
    const worker = new Worker(GUEST);
    const value = await conversation(worker, (message) => worker.postMessage(message), question);
    return { value, end: () => worker.terminate() };
  };
}

function childProcess() {
  return async (question) => {
    const child = fork(GUEST, { execArgv: [] });
    const exited = new Promise((resolve) => child.once("exit", resolve));
    const value = await conversation(child, (message) => child.send(message), question);
    return { value, pid: child.pid, end: () => (child.kill("SIGKILL"), exited) };
  };
}

// isolated-vm requires --no-node-snapshot; the others would only be slower with it.
const IVM_FLAGS = ["--no-node-snapshot"];
const PEERS = {
  "isolated-vm/fresh-isolate": {
    open: () => ivmFreshIsolate(), flags: IVM_FLAGS, note: "in-process V8 isolate, asynchronous API",
  },
  "isolated-vm/snapshot-isolate": {
    open: () => ivmFreshIsolate(IVM_PREFIX), flags: IVM_FLAGS, note: "in-process V8 isolate, prefix from a snapshot",
  },
  "isolated-vm/fresh-context": {
    open: ivmFreshContext, flags: IVM_FLAGS, note: "new context, isolate shared with the other runs",
  },
  "quickjs-emscripten/fresh-runtime": {
    open: () => quickjs(false), note: "in-process, one WebAssembly instance for all",
  },
  "quickjs-emscripten/fresh-context": { open: () => quickjs(true), note: "runtime shared with the other runs" },
  "node:vm/fresh-context": { open: nodeVm, note: "in-process, no security boundary" },
  "worker_threads/per-run": { open: workerThread, slow: true, note: "in-process thread, no security boundary" },
  "child_process.fork/per-run": { open: childProcess, slow: true, note: "own process, nothing locked down" },
};

async function sample(run, question) {
  const started = performance.now();
  const { value, end } = await run(question);
  const answer = performance.now() - started;
  if (value !== QUESTIONS[question].value) throw new Error(`${question} gave ${value}`);
  await end?.();
  return { answer, gone: end ? performance.now() - started : null };
}

// Every block warms up: its process has just been woken.
async function sampleBlock(run, { question, count, warmUp }) {
  for (let i = 0; i < warmUp; i++) await sample(run, question);
  const samples = [];
  for (let i = 0; i < count; i++) samples.push(await sample(run, question));
  return { samples };
}

async function settle() {
  for (let i = 0; i < 3; i++) {
    globalThis.gc();
    await setTimeout(50);
  }
}

async function openIdle(run, count) {
  const opened = [];
  for (let i = 0; i < count; i++) opened.push(await run("trivial"));
  await settle();
  return opened;
}

const pssWith = (opened) => opened.reduce((sum, { pid }) => sum + (pid ? pssKb(pid) : 0), pssKb());

// The memory that later ones add to the first: code compiled in the background and the heap's first
// growth do not count.
async function memory(run, { count, first }) {
  const opened = await openIdle(run, first);
  const before = pssWith(opened);
  opened.push(...(await openIdle(run, count)));
  const after = pssWith(opened);
  await Promise.all(opened.map(({ end }) => end?.()));
  return { kb: (after - before) / count };
}

function servePeer(name) {
  let opened;
  serve(async (request) => {
    const run = await (opened ??= Promise.resolve().then(PEERS[name].open));
    return request.memory ? memory(run, request) : sampleBlock(run, request);
  });
}

class Candidate {
  constructor(name, quick) {
    Object.assign(this, PEERS[name], { name });
    this.blockSize = (this.slow ? (quick ? 10 : 60) : quick ? 200 : 1000) / BLOCKS;
    this.contexts = quick && this.slow ? 10 : 50;
    this.served = this.serve();
    this.results = Object.fromEntries(Object.keys(QUESTIONS).map((question) => [question, { samples: [] }]));
  }

  serve() {
    return new Served(SELF, this.name, ["--expose-gc", ...(this.flags ?? [])]);
  }

  async block(question) {
    const result = this.results[question];
    if (result.error) return;
    const reply = await this.served.ask({ question, count: this.blockSize, warmUp: this.slow ? 1 : 5 });
    if (reply.error) result.error = reply.error;
    else result.samples.push(...reply.samples);
  }

  emitQuestion(question) {
    const { error, samples } = this.results[question];
    if (error) return emitSkipped(this.name, question, error);
    emitTimes(this.name, question, samples.map(({ answer }) => answer), this.note);
    if (question !== "trivial" || samples[0].gone === null) return;
    emitTimes(this.name, "trivial_gone", samples.map(({ gone }) => gone), "until what the run made is removed");
  }

  // In a new process: free heap space of earlier blocks would hide the memory of contexts.
  async emitMemory() {
    const served = this.serve();
    const reply = await served.ask({ memory: true, count: this.contexts, first: this.slow ? 5 : 100 });
    served.close();
    if (reply.error) return emitSkipped(this.name, "memory", reply.error);
    emit({ peer: this.name, question: "memory", n: this.contexts, kb_each: Math.round(reply.kb), note: "PSS growth" });
  }
}

async function measureAll({ quick, only }) {
  const names = Object.keys(PEERS).filter((name) => name.startsWith(only));
  const candidates = names.map((name) => new Candidate(name, quick));
  for (let block = 1; block <= BLOCKS; block++) {
    process.stderr.write(`javascript: block ${block} of ${BLOCKS}\n`);
    for (const candidate of candidates) {
      for (const question of Object.keys(QUESTIONS)) await candidate.block(question);
    }
  }
  for (const candidate of candidates) {
    candidate.served.close();
    for (const question of Object.keys(QUESTIONS)) candidate.emitQuestion(question);
    await candidate.emitMemory();
  }
}

const chosen = options();
if (chosen.serve) servePeer(chosen.serve);
else await measureAll(chosen);
