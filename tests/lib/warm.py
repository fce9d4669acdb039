"""Runs forked from a prefix, through the library: tests/lib/warm-runs.c drives it, a line of JSON a request."""
import json
import os
import subprocess
import textwrap

from cloche import BUILD, Finished, Result

PROGRAM = os.path.join(BUILD, "tests", "warm-runs")


class Failed(Exception):
    """The engine's error: .code is its name."""

    def __init__(self, told):
        super().__init__("%(what)s: %(message)s" % told)
        self.code, self.message = told["code"], told["message"]


class Warm:
    """with Warm("python", "x = 5") as warm: warm.run("x + 1").value == 6"""

    def __init__(self, language="python", setup="", spares=0, runs_max=0, ahead="", env=None):
        command = [PROGRAM, language, textwrap.dedent(setup), str(spares), str(runs_max), str(ahead)]
        print("+", command, flush=True)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={
            **os.environ, "CLOCHE_LIBEXEC": BUILD, **(env or {})})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        tail = self.process.stdout.read()
        code = self.process.wait(40)
        assert code in (0, 3), (code, tail)

    def ask(self, **request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the set-up failed, which the next line reports

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        told = json.loads(line)
        if "failed" in told:
            raise Failed(told["failed"])
        return Result(told, Finished(None, b"", b""))

    def run(self, code, **options):
        self.ask(code=textwrap.dedent(code), **options)
        return self.answer()

    def value(self, code, **options):
        result = self.run(code, **options)
        assert result.status == "success", result
        return result.value

    def runs(self, code, times, **options):
        """Starts this many at once; the driver holds 64."""
        assert times <= 64, times
        self.ask(code=textwrap.dedent(code), times=times, **options)
        return [self.answer() for _ in range(times)]
