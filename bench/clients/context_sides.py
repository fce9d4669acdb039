"""The sides of bench/context.py. Each has make() and drop(context), and run(context, code): a Ran.
Unexpected responses raise Refused. Import with tests/daemon in the path and CLOCHE_BUILD set."""
import base64
import json
import select
import subprocess
import time

import jupyter
from messages import Stdio, call
from measure import descendants
from sandbox_sides import Buffered, Http, expect

HANG_S = 120
IMPORTS = "import pandas, matplotlib.pyplot"


class Ran:
    """The result of a cell: ms until its first output and until its end, its output or value, and
    the number of pictures."""

    def __init__(self):
        self.begun, self.first_ms, self.text, self.pictures = time.perf_counter(), None, "", 0

    def says(self, text):
        if self.first_ms is None:
            self.first_ms = (time.perf_counter() - self.begun) * 1e3
        self.text += text

    def shows(self, picture):
        expect(picture[:4] == b"\x89PNG", picture[:20])
        self.pictures += 1

    def ends(self):
        self.whole_ms = (time.perf_counter() - self.begun) * 1e3
        return self


class Frames:
    """Cloche's own carrier: that of a client library."""

    name, most, has_imports, shows = "cloche", 100, True, True

    def __init__(self, daemon):
        self.daemon, self.frames = daemon, Buffered(daemon)

    def call(self, method, **params):
        return self.frames.call("context." + method, sandbox="bench", **params)

    def make(self, **more):
        return self.call("create", **more)["context"]

    def drop(self, context):
        self.call("delete", context=context)

    def run(self, context, code):
        frames, ran = self.frames, Ran()
        number = frames.ask("context.run", sandbox="bench", context=context, code=code, stream=True, outputBytes=0)
        while number not in frames.answers:
            frames.turn()
            while frames.told:
                _, params, attachments = frames.told.pop(0)
                self.hear(ran, params["event"], params["about"], attachments)
        expect(frames.wait(number)["status"] == "ok", code)
        return ran.ends()

    @staticmethod
    def hear(ran, event, about, attachments):
        def bytes_of(value):
            return attachments[value["at"]:value["at"] + value["n"]]
        if event == "output":
            ran.says(bytes_of(about["data"]).decode())
        elif event == "display" and "image/png" in about["data"]:
            ran.shows(bytes_of(about["data"]["image/png"]))
        elif event == "display":
            ran.says(about["data"]["text/plain"] + "\n")

    def pids(self):
        return descendants([self.daemon.process.pid])


class OfPrefix(Frames):
    """Contexts from a prefix of the caller, on the connection of another side."""

    name, prefix = "cloche, of a prefix", "bench"

    def __init__(self, side):
        self.daemon, self.frames = side.daemon, side.frames
        self.frames.call("prefix.create", language="python", code=IMPORTS + "\nheld = list(range(10 ** 6))", name=self.prefix)

    def make(self, **more):
        return super().make(prefix=self.prefix, **more)


class Mcp(Frames):
    """run_code over the pipe of cloche mcp."""

    name = "cloche mcp"

    def __init__(self, side):
        super().__init__(side.daemon)
        self.pipe = Stdio("--socket", self.daemon.path, "--sandbox", "bench")

    def run(self, context, code):
        ran = Ran()
        got = self.pipe.ask(call("run_code", code=code, context=context))["result"]["structuredContent"]
        expect(got["status"] == "ok", got)
        ran.says(got["stdout"] + (got["result"] + "\n" if "result" in got else ""))
        return ran.ends()

    def close(self):
        self.pipe.end()


class Kept:
    """One HTTP connection, reopened if the server has closed it for being idle."""

    kept = None

    @property
    def http(self):
        if self.kept and select.select([self.kept.socket], [], [], 0)[0]:
            self.kept.close()
            self.kept = None
        self.kept = self.kept or Http(*self.address)
        return self.kept


class OverHttp(Kept, Frames):
    """Server-sent events on loopback, by the daemon's token."""

    name = "cloche, HTTP"

    def __init__(self, daemon):
        super().__init__(daemon)
        self.address = daemon.port, daemon.token

    def make(self):
        return self.http.ask("POST", "/v1/sandboxes/bench/context/create", {})["context"]

    def drop(self, context):
        self.http.ask("POST", "/v1/sandboxes/bench/context/delete", {"context": context})

    def run(self, context, code):
        ran, rest, http = Ran(), b"", self.http
        body = json.dumps({"context": context, "code": code, "outputBytes": 0}).encode()
        for piece in http.pieces(http.begin("POST", "/v1/sandboxes/bench/context/run", body, accept="text/event-stream")):
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                if event.startswith(b"event: "):
                    name, data = event.split(b"\n", 1)
                    self.hear(ran, name[7:].decode(), json.loads(data[6:]), None)
        return ran.ends()

    @staticmethod
    def hear(ran, event, about, _):
        def bytes_of(value):
            return value.encode() if isinstance(value, str) else base64.b64decode(value["b64"])
        if event == "output":
            ran.says(bytes_of(about["data"]).decode())
        elif event == "display" and "image/png" in about["data"]:
            ran.shows(bytes_of(about["data"]["image/png"]))
        elif event == "display":
            ran.says(about["data"]["text/plain"] + "\n")
        elif event in ("result", "error"):
            expect(about.get("status") == "ok", about)


class Upstream(Kept):
    """A context here is a row in a table until its first cell, which takes a process; that is never
    returned, and there are 15."""

    name, most, has_imports, shows = "upstream", 8, False, True

    def __init__(self, server):
        self.server, self.address = server, (server.port,)

    def make(self):
        return self.http.ask("POST", "/api/contexts", {"language": "python"})["id"]

    def drop(self, context):
        self.http.ask("DELETE", f"/api/contexts/{context}")

    def run(self, context, code):
        ran, rest, http = Ran(), b"", self.http
        body = json.dumps({"context_id": context, "code": code}).encode()
        for piece in http.pieces(http.begin("POST", "/api/execute/code", body, accept="text/event-stream")):
            *lines, rest = (rest + piece).split(b"\n")
            for line in filter(None, lines):
                self.hear(ran, json.loads(line))
        return ran.ends()

    @staticmethod
    def hear(ran, event):
        expect(event["type"] != "error", event)
        if event["type"] == "stdout" and not event["text"].startswith("Out["):  # results are sent twice
            ran.says(event["text"])
        elif event["type"] == "result":
            if event.get("png"):
                ran.shows(base64.b64decode(event["png"]))
            elif event.get("text"):
                ran.says(event["text"] + "\n")

    def pids(self):
        return descendants([self.server.process.pid])


class Jupyter:
    """Over ZeroMQ on loopback, with the protocol of its own client."""

    name, most, has_imports, shows = "jupyter", 5, False, True

    def __init__(self):
        jupyter.install()
        self.kernels = []

    def make(self):
        self.kernels.append(jupyter.Kernel())
        return self.kernels[-1]

    def drop(self, kernel):
        kernel.close()
        self.kernels.remove(kernel)

    def run(self, kernel, code):
        ran = Ran()
        for kind, content in kernel.messages(code):
            if kind == "stream":
                ran.says(content["text"])
            elif kind in ("display_data", "execute_result"):
                if "image/png" in content["data"]:
                    ran.shows(base64.b64decode(content["data"]["image/png"]))
                else:
                    ran.says(content["data"]["text/plain"] + "\n")
            expect(kind != "reply" or content["status"] == "ok", content)
        return ran.ends()

    def pids(self):
        return [kernel.pid for kernel in self.kernels]

    def close(self):
        for kernel in list(self.kernels):
            self.drop(kernel)


class Pipe:
    """python3 -i with a pipe at both ends: no walls, no pictures, no separation of errors from output."""

    name, most, has_imports, shows = "python3 -i", 10, False, False
    END = "\x04\n"

    def __init__(self):
        self.processes = []

    def make(self):
        process = subprocess.Popen(["/usr/bin/python3", "-i", "-u", "-q"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        self.processes.append(process)
        self.run(process, "0")
        return process

    def drop(self, process):
        process.stdin.close()
        process.wait(HANG_S)
        process.stdout.close()
        self.processes.remove(process)

    def run(self, process, code):
        ran = Ran()
        process.stdin.write(code + "\n\nprint('\\x04')\n")
        while (line := process.stdout.readline()) != self.END:
            expect(line, "its end")
            ran.says(line)
        return ran.ends()

    def pids(self):
        return [process.pid for process in self.processes]

    def close(self):
        for process in list(self.processes):
            self.drop(process)
