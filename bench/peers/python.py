#!/usr/bin/python3
"""The cost of one run as a plain process, under bubblewrap, and forked from a warm CPython. Rows as JSON lines.

Candidates take turns, round by round, so that a slow moment of the machine falls on all alike. See README.md.
"""
import json
import os
import shutil
import subprocess
import time

from measure import descendants, emit, emit_skipped, emit_times, options, progress, rollup_kb

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
# The caller's variables would slow some candidates only: NODE_EXTRA_CA_CERTS alone costs node 20 ms.
ENVIRONMENT = {"PATH": PATH, "HOME": "/tmp"}
# An interpreter without its settings and libraries would start faster than plain: PHP loads no extensions.
OUTSIDE_USR = ["/etc/alternatives", "/etc/ld.so.cache", "/etc/php", "/var/lib/gems"]
BUBBLEWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr",
              "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
              *(word for path in OUTSIDE_USR for word in ("--ro-bind-try", path, path)),
              "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
# The host call is a line out and a line in.
LANGUAGES = {
    "python": dict(start=["python3", "-c"], trivial="print(40 + 2)", host_call="print(41, flush=True); print(input())",
                   fib24="def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(24))"),
    "node": dict(start=["node", "-e"], trivial="console.log(40 + 2)",
                 host_call="process.stdin.once('data', (line) => { console.log(String(line).trim()); process.exit() });"
                           "console.log(41)",
                 fib24="const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); console.log(fib(24))"),
    "ruby": dict(start=["ruby", "-e"], trivial="puts 40 + 2", host_call="$stdout.sync = true; puts 41; puts gets",
                 fib24="def fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)\nputs fib(24)"),
    "php": dict(start=["php", "-r"], trivial="echo 40 + 2, PHP_EOL;", host_call="echo 41, PHP_EOL; echo fgets(STDIN);",
                fib24="function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); } echo fib(24), PHP_EOL;"),
}
ANSWERS = {"trivial": b"42", "host_call": b"42", "fib24": b"46368"}


def milliseconds_since(started):
    return (time.perf_counter() - started) * 1000


class Failed(Exception):
    """This candidate does not support this measurement."""


class Samples:
    """The results of one measurement so far; the first failure ends it."""

    def __init__(self, peer, question, note, gone=False):
        self.peer, self.question, self.note, self.report_gone = peer, question, note, gone
        self.answers, self.gone, self.failure = [], [], None

    def add(self, answer, gone):
        self.answers.append(answer)
        self.gone.append(gone)

    def emit(self):
        if self.failure:
            emit_skipped(self.peer, self.question, self.failure)
            return
        emit_times(self.peer, self.question, self.answers, self.note)
        if self.report_gone:
            emit_times(self.peer, f"{self.question}_gone", self.gone, "until the process is gone too")


def samples_of(peer, questions, note):
    return {question: Samples(peer, question, note, gone=question == "trivial") for question in questions}


class Started:
    """An interpreter started for every run, plainly or inside bubblewrap."""

    def __init__(self, kind, language, quick):
        self.peer = f"{kind}/{language}"
        row = LANGUAGES[language]
        self.command, self.code = (BUBBLEWRAP if kind == "bubblewrap" else []) + row["start"], row
        self.missing = self.what_is_missing()
        self.rounds, self.idle = (10, 5) if quick else (60, 50)
        note = "namespaces, read-only /usr; no seccomp, no cgroup" if kind == "bubblewrap" else "no isolation"
        self.samples = samples_of(self.peer, ANSWERS, note)

    def what_is_missing(self):
        programs = {self.command[0], self.code["start"][0]}
        absent = [program for program in programs if not shutil.which(program, path=PATH)]
        return f"not installed: {', '.join(absent)}" if absent else None

    def open(self, question):
        return subprocess.Popen(self.command + [self.code[question]], env=ENVIRONMENT, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def once(self, question):
        started = time.perf_counter()
        with self.open(question) as process:
            line = process.stdout.readline()
            if question == "host_call" and line.strip() == b"41":
                process.stdin.write(b"42\n")
                line = process.stdout.readline()
            answer = milliseconds_since(started)
            process.wait()
            gone = milliseconds_since(started)
            if line.strip() != ANSWERS[question]:
                raise Failed(process.stderr.read().decode(errors="replace").strip() or f"printed {line!r}")
        return answer, gone

    def round(self, number):
        if number >= self.rounds:
            return
        for question, samples in self.samples.items():
            samples.failure = samples.failure or self.missing
            try:
                if not samples.failure:
                    samples.add(*self.once(question))
            except Failed as failure:
                samples.failure = failure

    def warm_up(self):
        if not self.missing:
            self.round(0)
            for samples in self.samples.values():
                samples.answers.clear()
                samples.gone.clear()

    def emit_memory(self):
        processes = [self.open("host_call") for _ in range(self.idle)]
        for process in processes:
            process.stdout.readline()
        total = sum(rollup_kb("Pss", pid) for pid in descendants([process.pid for process in processes]))
        for process in processes:
            process.communicate(b"42\n")
        each = round(total / self.idle)
        emit(peer=self.peer, question="memory", n=self.idle, kb_each=each, note="PSS, waiting for input")

    def emit(self):
        for samples in self.samples.values():
            samples.emit()
        if self.samples["host_call"].failure:
            emit_skipped(self.peer, "memory", self.samples["host_call"].failure)
        else:
            self.emit_memory()

    def close(self):
        pass


# Counts of a full measurement: floors 2000, runs below a millisecond or two 1000, fib(24) in CPython several.
COUNTS = {"trivial": 1000, "host_call": 1000, "fib24": 200, "fork_exit_wait": 2000, "socket_round_trip": 2000}
FLOORS = ["fork_exit_wait", "socket_round_trip"]
BLOCKS = 10
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "PYTHONMALLOC": "malloc"}


class Warm:
    """A warm CPython with a heap of 20 MB that forks for every run (warm.py)."""

    def __init__(self, how, pages, quick):
        self.quick, self.how, self.peer = quick, how, f"{how}/cpython-{pages}"
        environment = {**ENVIRONMENT, **(HUGE_PAGES if pages == "huge" else {})}
        self.process = subprocess.Popen(["python3", os.path.join(HERE, "warm.py"), how], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        about = json.loads(self.process.stdout.readline())
        note = f"heap {about['heap_kb'] // 1024} MB, {about['huge_kb'] // 1024} of it huge pages"
        questions = [question for question in COUNTS if how == "fork" or question not in FLOORS]
        self.samples = samples_of(self.peer, questions, note)

    def ask(self, **request):
        try:
            print(json.dumps(request), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return {"error": "warm.py has ended"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "warm.py has ended"}

    def warm_up(self):
        """warm.py warms up every block."""

    def round(self, number):
        if number >= BLOCKS:
            return
        for question, samples in self.samples.items():
            if samples.failure:
                continue
            reply = self.ask(question=question, count=COUNTS[question] // BLOCKS // (10 if self.quick else 1))
            samples.failure = reply.get("error")
            for answer, gone in reply.get("samples", ()):
                samples.add(answer, gone)

    def emit_memory(self):
        count = 10 if self.quick else 50
        reply = self.ask(question="memory", count=count)
        if "error" in reply:
            emit_skipped(self.peer, "memory", reply["error"])
        else:
            emit(peer=self.peer, question="memory", n=count, kb_each=round(reply["kb"]), note="PSS growth")

    def emit(self):
        for samples in self.samples.values():
            samples.emit()
        if self.how == "fork":
            self.emit_memory()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def candidates(quick, only):
    started = [(kind, language) for language in LANGUAGES for kind in ("plain", "bubblewrap")]
    warm = [(how, pages) for how in ("fork", "multiprocessing") for pages in ("4k", "huge")]
    return [Started(*name, quick) for name in started if "/".join(name).startswith(only)] + [
        Warm(*name, quick) for name in warm if "/cpython-".join(name).startswith(only)]


def main():
    chosen = options(__doc__).parse_args()
    rows = candidates(chosen.quick, chosen.only)
    for candidate in rows:
        candidate.warm_up()
    rounds = max([BLOCKS, *(row.rounds for row in rows if isinstance(row, Started))])
    for number in range(rounds):
        if number % 10 == 0:
            progress(f"python: round {number + 1} of {rounds}")
        for candidate in rows:
            candidate.round(number)
    for candidate in rows:
        candidate.emit()
        candidate.close()


if __name__ == "__main__":
    main()
