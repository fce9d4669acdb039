"""Messages of MCP over HTTP and over the standard input and output of cloche mcp."""
import http.client
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
from rpc import BUILD, DAEMON, HANG

CLI = os.path.join(BUILD, "cloche")
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def request(method, number=1, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def modern(method, number=1, **params):
    return request(method, number, **params, _meta=META)


def call(tool, number=1, **arguments):
    return request("tools/call", number, name=tool, arguments=arguments)


class Http:
    """POST /mcp of a daemon with a TCP listener."""

    def __init__(self, daemon):
        self.port, self.token = daemon.port, daemon.token

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)

    def open(self, body, verb="POST", **headers):
        """A connection with this request. A header that is None is left out."""
        connection = self.connect()
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items()})
        connection.request(verb, "/mcp", body if isinstance(body, (bytes, str)) or body is None else json.dumps(body), {name: value for name, value in sent.items() if value is not None})
        return connection

    def send(self, body, verb="POST", **headers):
        """Status, headers in lower case, body."""
        connection = self.open(body, verb, **headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(text) if text else None

    def ask(self, message, **headers):
        """The answer to a request of the earlier era."""
        status, _, answer = self.send(message, **headers)
        assert status == 200, (status, answer)
        return answer

    def ask_modern(self, message, **headers):
        """Status and answer, with the headers that a client of 2026-07-28 sends."""
        params = message["params"]
        own = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"], "Mcp-Name": params.get(NAMES.get(message["method"])), "Mcp-Param-Sandbox": params.get("arguments", {}).get("sandbox")}
        status, _, answer = self.send(message, **{**own, **{name.replace("_", "-"): value for name, value in headers.items()}})
        return status, answer


class OtherHttp(Http):
    """The same over the daemon's unix socket: another caller, the user of this process."""

    def __init__(self, daemon):
        super().__init__(daemon)
        self.daemon = daemon

    def connect(self):
        connection = http.client.HTTPConnection("localhost", timeout=HANG)
        connection.sock = self.daemon.connect()
        return connection

    def open(self, body, verb="POST", **headers):
        return super().open(body, verb, **{**headers, "Authorization": None})


class Stdio:
    """cloche mcp as a child process."""

    def __init__(self, *options, env=None):
        self.process = subprocess.Popen([CLI, "mcp", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "CLOCHE_DAEMON": DAEMON, "CLOCHE_LIBEXEC": BUILD, **(env or {})})

    def write(self, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(text + b"\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), (line, self.process.poll())
        return json.loads(line)

    def ask(self, message):
        self.write(message)
        return self.read()

    def end(self):
        """Its exit code and the answers that remained."""
        self.process.stdin.close()
        rest = [json.loads(line) for line in self.process.stdout]
        return self.process.wait(HANG), rest

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(HANG)
        self.process.stdout.close()
