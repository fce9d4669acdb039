// Shared by the Node programs here: options, percentiles, rows, and peers in child processes measured in turn.
import { fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

export function options() {
  const { values } = parseArgs({
    options: { quick: { type: "boolean" }, only: { type: "string", default: "" }, serve: { type: "string" } },
  });
  return values;
}

export function emit(row) {
  process.stdout.write(JSON.stringify(row) + "\n");
}

function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return Number(sorted[Math.min(sorted.length - 1, Math.round(share * (sorted.length - 1)))].toFixed(4));
}

export function emitTimes(peer, question, samples, note) {
  const times = { p50_ms: percentile(samples, 0.5), p99_ms: percentile(samples, 0.99) };
  emit({ peer, question, n: samples.length, ...times, note });
}

export function emitSkipped(peer, question, reason) {
  emit({ peer, question, skipped: String(reason).split("\n")[0].slice(0, 200) });
}

export function pssKb(pid = "self") {
  return Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))[1]);
}

// A peer in a process of its own, so that one peer's heap, threads and crashes are not another's.
export class Served {
  constructor(program, name, execArgv = []) {
    this.child = fork(program, ["--serve", name], { execArgv, stdio: ["ignore", 2, 2, "ipc"] });
    this.child.on("message", (reply) => this.settle(reply));
    this.child.on("exit", (code, signal) => this.settle({ error: `its process ended with ${signal ?? code}` }));
  }

  settle(reply) {
    this.gone ??= this.child.exitCode ?? this.child.signalCode;
    this.resolve?.(reply);
  }

  ask(request) {
    if (this.gone != null) return { error: `its process ended with ${this.gone}` };
    return new Promise((resolve) => {
      this.resolve = resolve;
      this.child.send(request);
    });
  }

  close() {
    this.child.kill("SIGKILL");
  }
}

export function serve(answer) {
  process.on("message", async (request) => {
    const reply = await answer(request).catch((error) => ({ error: String(error?.message ?? error) }));
    process.send(reply);
  });
}
