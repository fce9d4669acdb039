"""Shared by tests of contexts: a sandbox whose contexts are driven over frames, and many checks in
one daemon, because the set-up of contexts runs once a daemon."""
import base64
import json
import os
import struct
import sys
import textwrap
import time
import traceback

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
from rpc import Daemon, Failed, Frames, Gone


def bytes_of(value, attachments=b""):
    """Text or bytes of a response or an event, as bytes."""
    if isinstance(value, str):
        return value.encode()
    return base64.b64decode(value["b64"]) if "b64" in value else attachments[value["at"]:value["at"] + value["n"]]


def forms(display, attachments=b""):
    """MIME to bytes, or to JSON."""
    return {mime: bytes_of(form, attachments) if isinstance(form, str) or isinstance(form, dict) and form.get("$") == "bytes" else form
            for mime, form in display["data"].items()}


class QuickFrames(Frames):
    """Responses of many MiB are not copied with each piece."""

    def receive(self):
        size, text_size = struct.unpack("<II", self.exactly(8))
        whole = self.exactly(size - 4)
        return json.loads(whole[:text_size]), bytes(whole[text_size:])

    def exactly(self, size):
        data, have = bytearray(size), 0
        while have < size:
            try:
                count = self.socket.recv_into(memoryview(data)[have:])
            except ConnectionError:
                count = 0
            if not count:
                raise Gone()
            have += count
        return data


class Notebook:
    """One sandbox. Methods that take a context default to "c", which is created on first use."""

    def __init__(self, daemon, frames, sandbox):
        self.daemon, self.frames, self.sandbox = daemon, frames, sandbox
        self.path = f"/v1/sandboxes/{sandbox}"
        self.known = set()

    def call(self, method, **params):
        return self.frames.call(method, sandbox=self.sandbox, **params)

    def refused(self, method, **params):
        return self.frames.refused(method, sandbox=self.sandbox, **params)

    def create(self, context="c", **made):
        self.known.add(context)
        return self.call("context.create", context=context, **made)

    def delete(self, context="c"):
        self.known.discard(context)
        self.call("context.delete", context=context)

    def get(self, context="c"):
        return self.call("context.get", context=context)

    def pids(self):
        """Environment of the sandbox's own shell."""
        return self.shell("ps -eo pid=").split()

    def shell(self, command):
        return self.call("exec", command=command)["stdout"]

    def ask(self, code, context="c", **more):
        if context and context not in self.known:
            self.create(context)
        code = textwrap.dedent(code).strip("\n")
        return self.frames.ask("context.run", sandbox=self.sandbox, code=code, **({"context": context} if context else {}), **more)

    def run(self, code, context="c", **more):
        """The response; its streams and displays as bytes."""
        return self.wait(self.ask(code, context, **more))

    def wait(self, number):
        answer = self.frames.wait(number)
        for stream in ("stdout", "stderr"):
            answer[stream] = bytes_of(answer[stream], self.frames.attachments)
        answer["displays"] = [{**display, "data": forms(display, self.frames.attachments)} for display in answer["displays"]]
        return answer

    def outcome(self, number):
        """The response, or the name of the error."""
        try:
            return self.wait(number)
        except Failed as error:
            return error.name

    def prints(self, code, context="c", **more):
        """The output of a cell that succeeds."""
        answer = self.run(code, context, **more)
        assert answer["status"] == "ok" and not answer["ended"], answer
        return answer["stdout"].decode()

    def value(self, code, context="c", **more):
        """The text of its result."""
        answer = self.run(code, context, **more)
        assert answer["status"] == "ok", answer
        assert [display["isResult"] for display in answer["displays"]] == [True], answer
        return answer["displays"][0]["data"]["text/plain"].decode()

    def error(self, code, context="c", **more):
        """The name of the error of a failed cell."""
        answer = self.run(code, context, **more)
        assert answer["status"] == "error", answer
        return answer["error"]["name"]

    # -- while a cell runs

    def begin(self, code, context="c", **more):
        return self.ask(code, context, stream=True, **more)

    def events(self, number):
        """Pairs of event name and content; output as (stream, bytes), displays with bytes."""
        return [(params["event"], self.plain(params["event"], params["about"], attachments))
                for method, params, attachments in self.frames.told if method == "event" and params["id"] == number]

    @staticmethod
    def plain(event, about, attachments):
        if event == "output":
            return about["stream"], bytes_of(about["data"], attachments)
        return {**about, "data": forms(about, attachments)} if event == "display" else about

    def until(self, number, event, at_least=1):
        """The content of the last of so many events of that name."""
        while len(found := [about for name, about in self.events(number) if name == event]) < at_least:
            assert number not in self.frames.answers, f"it ended before {at_least} {event}: {self.frames.answers[number]}"
            self.frames.turn()
        return found[at_least - 1]

    def until_printed(self, number, text):
        while text not in self.printed(number):
            assert number not in self.frames.answers, f"it ended before it printed {text}: {self.frames.answers[number]}"
            self.frames.turn()

    def printed(self, number, stream="stdout"):
        return b"".join(about[1] for name, about in self.events(number) if name == "output" and about[0] == stream)

    def cancel(self, number):
        """The name of the error of the cell."""
        assert self.frames.call("cancel", id=number) == {"found": True}
        while number not in self.frames.answers:
            self.frames.turn()
        return self.frames.answers.pop(number)[0]["error"]["data"]["name"]

    def is_well(self, context="c"):
        assert self.value("6 * 7", context) == "42"
        assert self.shell("echo alive") == "alive\n"


def together(*checks, options=(), has_packages=False, **daemon_options):
    """Each check gets a sandbox and a connection of its own; all are in one daemon. All run, even if
    some fail. has_packages: as in Daemon; each context costs more then, not only the daemon's start."""
    failed = []
    with Daemon("--state-dir", "", *options, has_packages=has_packages, **daemon_options) as daemon:
        for n, check in enumerate(checks):
            begun = time.monotonic()
            with QuickFrames(daemon.connect()) as frames:
                notebook = Notebook(daemon, frames, f"s{n}")
                try:
                    check(notebook)
                except Exception:
                    failed.append(check.__name__)
                    traceback.print_exc(file=sys.stdout)
                assert daemon.process.poll() is None, f"the daemon died of {check.__name__}"
                frames.call("sandbox.delete", sandbox=notebook.sandbox)
            print(f"{check.__name__}: {time.monotonic() - begun:.2f} s", flush=True)
        assert not failed, ", ".join(failed)
