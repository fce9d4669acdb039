"""A daemon that answers from a function, for tests of programs that show or find one."""
import os
import socket
import sys
import threading

from cloche import SOURCE

sys.path.insert(0, os.path.join(SOURCE, "clients/python"))
from tests.peer import MAGIC, Conversation  # noqa: E402


class ScriptedDaemon:
    """It listens at a path. answer: method and parameters -> result; status: of its answer to everybody, in HTTP; user: the one who listens."""

    def __init__(self, path, answer, version="0", status=200, user=0):
        self.path, self.answer, self.version, self.status = path, answer, version, status
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o666)
        os.seteuid(user)
        try:
            self.listener.listen(16)
        finally:
            os.seteuid(0)
        self.threads, self.connections = [], []
        self.run(self.accept)

    def run(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments)
        thread.start()
        self.threads.append(thread)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self.run(self.serve, connection)

    def drop(self):
        """End all connections."""
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # its thread has closed it

    def serve(self, connection):
        with connection:
            try:
                self.converse(connection)
            except (EOFError, OSError):
                pass

    def converse(self, connection):
        if self.status != 200 or connection.recv(8, socket.MSG_PEEK) != MAGIC:
            connection.sendall(b"HTTP/1.1 %d Word\r\nContent-Length: 8\r\nConnection: close\r\n\r\nmay not\n" % self.status)
            return
        talk = Conversation(connection)
        talk.greet(version=self.version, missing=[])
        while True:
            request, _ = talk.receive()
            talk.answer(request, self.answer(request["method"], request["params"]))

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
