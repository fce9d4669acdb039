"""A scripted daemon for tests, with frames of its own making: a client's mistake must not hide in shared code."""
import json
import os
import queue
import shutil
import socket
import tempfile
import threading

MAGIC = b"CLOCHE1\n"


def frame(tree, attachments=b""):
    text = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return (4 + len(text) + len(attachments)).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text + attachments


class Conversation:
    """One connection, from the daemon's side."""

    def __init__(self, sock):
        self.socket = sock
        self.socket.settimeout(20)

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(min(size - len(data), 1 << 16))
            if not more:
                raise EOFError
            data += more
        return data

    def receive(self):
        """(message, attachments)"""
        head = self.exactly(8)
        length, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        body = self.exactly(length - 4)
        return json.loads(body[:size]), body[size:]

    def expect(self, method):
        message, _ = self.receive()
        assert message["method"] == method, (method, message)
        return message

    def send(self, tree, attachments=b""):
        self.socket.sendall(frame({"jsonrpc": "2.0", **tree}, attachments))

    def answer(self, request, result):
        self.send({"id": request["id"], "result": result})

    def greet(self, **more):
        assert self.exactly(8) == MAGIC
        hello = self.expect("hello")
        self.answer(hello, {"server": "cloche", "version": "0", "protocol": 1, **more})
        return hello

    def ask(self, ident, method, **params):
        """Send a request to the client; returns its response, and the other messages that came before."""
        self.send({"id": ident, "method": method, "params": params})
        return self.receive()[0]

    def end(self):
        """Wait until the client closes the connection."""
        try:
            while True:
                self.receive()
        except (EOFError, OSError):
            pass


def result(**more):
    return {"status": "success", "success": True, "result": None, "error": None, "stdout": "", "stderr": "", "exitCode": 0,
            "files": {"created": [], "modified": [], "deleted": [], "denied": []},
            "meta": {"duration": 1.5, "signatureSource": None, "usage": {}, "limits": {}, "limitsHit": [], "warnings": []}, **more}


class Peer:
    """Listens on a socket and runs `script(conversation)` for each client. Exceptions of a script
    are raised in the test at the end."""

    def __init__(self, script, greet=True):
        self.folder = tempfile.mkdtemp()
        self.address = os.path.join(self.folder, "socket")
        self.problems = queue.SimpleQueue()
        self._script, self._greet = script, greet
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._threads = []
        self._start(self._accept)

    def _start(self, target, *args):
        thread = threading.Thread(target=target, args=args)
        thread.start()
        self._threads.append(thread)

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, sock)

    def _serve(self, sock):
        with sock:
            try:
                conversation = Conversation(sock)
                if self._greet:
                    conversation.greet()
                self._script(conversation)
            except (EOFError, ConnectionError):
                pass
            except BaseException as problem:
                self.problems.put(problem)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind is None and not self.problems.empty():
            raise self.problems.get()
