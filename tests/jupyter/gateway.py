"""cloched --jupyter: the genuine @jupyterlab/services from npm and Debian's notebook server on it, and requests that are refused."""
import base64
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import npm_cache
from cloche import SOURCE, equal, wait_for
from front_end import environment
from patience import PATIENCE
from rpc import HANG, Daemon

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT = 200  # with the installation


def request(daemon, verb, path, body=None, token=None, **headers):
    """The status and the JSON of an answer."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    made = urllib.request.Request(f"http://127.0.0.1:{daemon.port}/jupyter{path}", data, {"Authorization": f"token {daemon.token}" if token is None else token, **headers}, method=verb)
    try:
        with urllib.request.urlopen(made, timeout=HANG) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read() or b"null")


def check_services(daemon):
    command = ["node", "--no-warnings", "--test-force-exit", "--test-reporter=spec", f"--test-timeout={int(60000 * PATIENCE)}", "--test", os.path.join(HERE, "services.test.mjs")]
    env = {**os.environ, "JUPYTER_CLIENTS": npm_cache.install(HERE), "JUPYTER_URL": f"http://127.0.0.1:{daemon.port}/jupyter/", "JUPYTER_TOKEN": daemon.token}
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120 * PATIENCE)
    assert done.returncode == 0, done.stdout


def check_requests(daemon):
    equal(request(daemon, "GET", "/api")[0], 200)
    for token in ("token x", "Bearer x", "x", f"Basic {daemon.token}"):
        status, body = request(daemon, "GET", "/api/kernels", token=token)
        assert status == 401 and "token" in body["message"], body
    equal(request(daemon, "GET", "/api/kernels", token=f"Bearer {daemon.token}")[0], 200)
    equal(request(daemon, "GET", f"/api/kernels?token={daemon.token}", token="")[0], 401)  # only for WebSockets, which have no headers
    equal([request(daemon, "GET", "/api", Host="evil.example")[0], request(daemon, "GET", "/api", Origin="http://evil.example")[0]], [403, 403])
    equal(request(daemon, "GET", "/api/kernelspecs/ruby")[1]["spec"]["display_name"], "Ruby (Cloche)")
    for verb, path, body, status in (("GET", "/api/kernelspecs/cobol", None, 404), ("GET", "/kernelspecs/python/logo-64x64.png", None, 404), ("GET", "/api/contents", None, 404), ("PUT", "/api/kernels", {}, 405),
                                     ("POST", "/api/kernels", b"{", 400), ("POST", "/api/kernels", [], 400), ("POST", "/api/kernels", {"name": "cobol"}, 404), ("GET", "/api/kernels/x", None, 404),
                                     ("DELETE", "/api/kernels/x", None, 404), ("POST", "/api/kernels/x/restart", {}, 404), ("GET", "/api/sessions/x", None, 404), ("POST", "/api/sessions", {"path": 1}, 400),
                                     ("POST", "/api/sessions", {"path": "x", "kernel": {"id": "x"}}, 404), ("POST", "/api/sessions", {"path": "x" * 5000}, 400)):
        equal((request(daemon, verb, path, body)[0], path), (status, path))
    status, model = request(daemon, "POST", "/api/kernels", {"name": "python", "env": {"KERNEL_USERNAME": "x", "KERNEL_WORKING_DIR": "/workspace/deep"}})
    equal((status, sorted(model), model["connections"]), (201, ["connections", "execution_state", "id", "last_activity", "name"], 0))
    equal(request(daemon, "GET", f"/api/kernels/{model['id']}/channels")[0], 400)  # no WebSocket
    with daemon.frames() as frames:  # another caller of the daemon, by the unix socket, has kernels of its own
        with daemon.connect() as sock:
            sock.sendall(f"GET /jupyter/api/kernels HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            text = b"".join(iter(lambda: sock.recv(65536), b""))
            equal(json.loads(text.partition(b"\r\n\r\n")[2]), [])
    equal(request(daemon, "DELETE", f"/api/kernels/{model['id']}")[0], 204)
    _, session = request(daemon, "POST", "/api/sessions", {"path": "x", "kernel": {"name": "bash"}})
    for body, status in (({"path": 1, "kernel": {"name": "bash"}}, 400), ({"path": "y", "kernel": {"id": "x"}}, 404)):
        equal(request(daemon, "PATCH", f"/api/sessions/{session['id']}", body)[0], status)
    equal(request(daemon, "GET", "/api/sessions")[1], [{**session, "kernel": (kernels := request(daemon, "GET", "/api/kernels")[1])[0]}])  # nothing has changed
    equal(len(kernels), 1)
    equal(request(daemon, "DELETE", f"/api/sessions/{session['id']}")[0], 204)
    made = [request(daemon, "POST", "/api/kernels", {"name": "bash"}) for _ in range(65)]
    equal([status for status, _ in made], [201] * 64 + [403])
    for _, model in made[:64]:
        request(daemon, "DELETE", f"/api/kernels/{model['id']}")
    equal(request(daemon, "GET", "/api/kernels")[1], [])


def check_sessions(daemon):
    """A change that is refused changes nothing, and makes no kernel."""
    _, session = request(daemon, "POST", "/api/sessions", {"path": "a", "kernel": {"name": "bash"}})
    place = "/api/sessions/" + session["id"]
    equal(request(daemon, "PATCH", place, {"path": "b", "name": 1, "kernel": {"name": "bash"}})[0], 400)
    equal(request(daemon, "PATCH", place, {"path": "b", "kernel": {"name": "cobol"}})[0], 404)
    equal((request(daemon, "GET", place)[1]["path"], [k["id"] for k in request(daemon, "GET", "/api/kernels")[1]]), ("a", [session["kernel"]["id"]]))
    changed = request(daemon, "PATCH", place, {"path": "b", "kernel": {}})[1]
    equal((changed["path"], changed["kernel"]["id"]), ("b", session["kernel"]["id"]))
    equal(request(daemon, "DELETE", place)[0], 204)
    equal(request(daemon, "GET", "/api/kernels")[1], [])


class Socket:
    """A kernel's WebSocket with the token in its query."""

    def __init__(self, daemon, kernel, query="token={token}"):
        self.sock = daemon.connect_tcp()
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(f"GET /jupyter/api/kernels/{kernel}/channels?session_id=s&{query.format(token=daemon.token)} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.sock.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def send(self, text):
        data = text.encode() if isinstance(text, str) else json.dumps(text).encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big") if len(data) < 65536 else b"\xff" + len(data).to_bytes(8, "big")
        self.sock.sendall(b"\x81" + size + b"\0\0\0\0" + data)

    def receive(self):
        """A message; the code of a close."""
        first, length = self.file.read(2)
        length = int.from_bytes(self.file.read(2 if length == 126 else 8), "big") if length > 125 else length
        data = self.file.read(length)
        return int.from_bytes(data[:2], "big") if first == 0x88 else json.loads(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.sock.close()


def message(kind, channel="shell", **content):
    return {"header": {"msg_id": "1", "msg_type": kind, "session": "s", "username": "", "version": "5.3"}, "parent_header": {}, "metadata": {}, "content": content, "channel": channel, "buffers": []}


def check_sockets(daemon):
    _, model = request(daemon, "POST", "/api/kernels", {"name": "python"})
    for query in ("token=x", "x=1"):
        with Socket(daemon, model["id"], query) as refused:
            equal(refused.status, 401)
    for bad in ("{", "[]", {"channel": "shell"}, message("kernel_info_request", "iopub"), message("kernel_info_request", "x"), {**message("x"), "header": {"msg_id": 1}},
                {**message("kernel_info_request"), "header": {**message("kernel_info_request")["header"], "x": "x" * 65536}}):  # a header comes back in all messages
        with Socket(daemon, model["id"]) as web:
            equal(web.status, 101)
            web.send(bad)
            equal(web.receive(), 1008)
    with Socket(daemon, model["id"]) as web:  # the kernel goes on
        web.send(message("execute_request", code="print('\\x1b]0;t\\x07' + '{\"channel\": \"shell\"}')", silent=False))
        kinds = []
        while "execute_reply" not in kinds:
            got = web.receive()
            kinds.append(got["msg_type"])
            if got["msg_type"] == "stream":
                equal(got["content"]["text"], "\u241b]0;t\u2407{\"channel\": \"shell\"}\n")
        request(daemon, "DELETE", f"/api/kernels/{model['id']}")
        while isinstance(got, dict):
            got = web.receive()
        equal(got, 1000)
    equal(Socket(daemon, model["id"]).status, 404)


def check_a_search_that_costs_too_much(daemon):
    """All callers wait for the daemon meanwhile, so it ends early. Others find what they are to find."""
    _, model = request(daemon, "POST", "/api/kernels", {"name": "bash"})
    with Socket(daemon, model["id"]) as web:
        for code in (": " + "a" * (1 << 20), "echo found"):
            web.send(message("execute_request", code=code, silent=False))
            while web.receive().get("msg_type") != "execute_reply":
                pass
        for pattern, found in (("*" + "a" * 30000 + "b", []), ("*f?und", ["echo found"])):
            web.send(message("history_request", hist_access_type="search", pattern=pattern, output=False, raw=True))
            while (got := web.receive())["msg_type"] != "history_reply":
                pass
            equal([code for _, _, code in got["content"]["history"]], found)
    request(daemon, "DELETE", f"/api/kernels/{model['id']}")


def check_requests_that_wait(daemon):
    """All of a kernel's clients together cannot have more than 64 MiB wait."""
    _, model = request(daemon, "POST", "/api/kernels", {"name": "bash"})
    large = json.dumps(message("is_complete_request", code=": " + "x" * (24 << 20)))
    with Socket(daemon, model["id"]) as web:
        web.send(message("execute_request", code="echo begun; sleep 600", silent=False))
        while (got := web.receive())["msg_type"] != "stream":
            pass
        for _ in range(4):
            web.send(large)
        while isinstance(got, dict):
            got = web.receive()
        equal(got, 1008)
    request(daemon, "DELETE", f"/api/kernels/{model['id']}")


def check_a_slow_reader(daemon):
    """Its cell waits, nothing is lost, and other kernels go on."""
    _, slow = request(daemon, "POST", "/api/kernels", {"name": "python"})
    _, quick = request(daemon, "POST", "/api/kernels", {"name": "bash"})
    with Socket(daemon, slow["id"]) as web, Socket(daemon, quick["id"]) as other:
        web.send(message("execute_request", code="for i in range(100): print(('%03d' % i) * 30000)", silent=False))
        other.send(message("execute_request", code="echo quick", silent=False))
        while (got := other.receive())["msg_type"] != "stream":
            pass
        equal(got["content"]["text"], "quick\n")
        text = ""
        while (got := web.receive())["msg_type"] != "execute_reply":
            text += got["content"]["text"] if got["msg_type"] == "stream" else ""
        equal((len(text), text[-4:]), (100 * 90001, "099\n"))
    for model in (slow, quick):
        request(daemon, "DELETE", f"/api/kernels/{model['id']}")


def check_a_daemon_that_is_killed(daemon):
    _, model = request(daemon, "POST", "/api/kernels", {"name": "python"})
    with Socket(daemon, model["id"]) as web:
        web.send(message("kernel_info_request"))
        while web.receive()["msg_type"] != "kernel_info_reply":
            pass
        os.kill(daemon.engine_pid(), 9)
        with contextlib.suppress(ConnectionError):
            web.file.read()  # up to the end
    wait_for(daemon.is_ready, "the next engine")
    equal(request(daemon, "GET", f"/api/kernels/{model['id']}")[0], 404)


def check_notebook_server(daemon, directory):
    """Debian's notebook server, started as docs/jupyter.md says, passes kernels of the gateway on to its own clients."""
    with open(os.path.join(SOURCE, "docs/jupyter.md")) as page:
        served, command = re.findall(r"^    ((?:cloched|jupyter notebook).+)$", page.read(), re.M)
    assert "--jupyter" in served and "--token-file token" in served, served
    env = environment(directory)
    log = os.path.join(directory, "log")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(log, "wb") as out:
        more = f" --allow-root --no-browser --ip 127.0.0.1 --port {port} --NotebookApp.token=secret --notebook-dir={directory}"
        server = subprocess.Popen(["sh", "-c", "exec " + command.replace(":7070", f":{daemon.port}") + more], cwd=daemon.directory, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        def serves():
            with open(log) as text:
                said = text.read()
            assert server.poll() is None, said
            return f":{port}/?token=" in said
        wait_for(serves, "the notebook server")
        script = ("import asyncio, json, sys, urllib.request\nfrom tornado.websocket import websocket_connect\n"
                  "base = sys.argv[1]\n"
                  "def ask(verb, path, body=None):\n"
                  "    return json.load(urllib.request.urlopen(urllib.request.Request(f'http://{base}{path}', None if body is None else json.dumps(body).encode(), {'Authorization': 'token secret', 'Content-Type': 'application/json'}, method=verb)))\n"
                  "async def main():\n"
                  "    assert 'ruby' in ask('GET', '/api/kernelspecs')['kernelspecs']\n"
                  "    kernel = ask('POST', '/api/kernels', {'name': 'python'})\n"
                  "    socket = await websocket_connect(f'ws://{base}/api/kernels/{kernel[\"id\"]}/channels?session_id=s&token=secret')\n"
                  "    await socket.write_message(sys.argv[2])\n"
                  "    while True:\n"
                  "        got = json.loads(await socket.read_message())\n"
                  "        if got['msg_type'] == 'execute_result':\n"
                  "            return print(got['content']['data']['text/plain'])\n"
                  "asyncio.run(main())\n")
        done = subprocess.run(["/usr/bin/python3", "-c", script, f"127.0.0.1:{port}", json.dumps(message("execute_request", code="6 * 7", silent=False, store_history=True, user_expressions={}, allow_stdin=False))],
                              capture_output=True, text=True, timeout=HANG)
        assert done.stdout == "42\n", (done.stdout, done.stderr[-500:], open(log).read()[-1500:])
    finally:
        server.terminate()
        server.wait(HANG)


def test_the_gateway():
    with tempfile.TemporaryDirectory() as directory, Daemon("--jupyter", tcp=True) as daemon:
        check_requests(daemon)
        check_sessions(daemon)
        check_sockets(daemon)
        check_services(daemon)
        check_a_search_that_costs_too_much(daemon)
        check_requests_that_wait(daemon)
        check_a_slow_reader(daemon)
        check_a_daemon_that_is_killed(daemon)
        check_notebook_server(daemon, directory)
        _, model = request(daemon, "POST", "/api/kernels", {"name": "python"})
        with Socket(daemon, model["id"]) as web:  # it ends while a cell runs
            web.send(message("execute_request", code="print('begun')\nimport time\ntime.sleep(600)", silent=False))
            while web.receive()["msg_type"] != "stream":
                pass
            assert daemon.stop() == 0, daemon.log_text()


def test_a_daemon_without_the_option_has_no_such_path():
    with Daemon(tcp=True) as daemon:
        equal(request(daemon, "GET", "/api", token=f"Bearer {daemon.token}")[0], 404)
