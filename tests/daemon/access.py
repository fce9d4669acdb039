"""Authorization: users of the socket, tokens on TCP, hosts and origins, and access to the objects of others."""
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http, WebSocket, make_certificate
from rpc import Daemon, Failed, Frames, Gone, private

STRANGER = 54321


def as_user(uid, gid, daemon, groups=()):
    """The result of a hello by that user: "greeted", or "cut"."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        word = b"failed"
        try:
            os.setgroups(list(groups))
            os.setgid(gid)
            os.setuid(uid)
            try:
                with daemon.frames() as frames:
                    word = b"greeted" if frames.hello else b"?"
            except (Gone, ConnectionError):
                word = b"cut"
            except PermissionError:
                word = b"no way"
        finally:
            os.write(write_end, word)
            os._exit(0)
    os.close(write_end)
    os.waitpid(pid, 0)
    with os.fdopen(read_end) as file:
        return file.read()


def test_users_of_the_socket():
    with Daemon() as daemon:
        os.chmod(daemon.directory, 0o755)
        assert as_user(0, 0, daemon) == "greeted"
        assert as_user(STRANGER, STRANGER, daemon) == "no way", "the socket's mode keeps others out"
        os.chmod(daemon.path, 0o666)
        assert as_user(STRANGER, STRANGER, daemon) == "cut", "and so does who they are"
    with Daemon("--allow-uid", str(STRANGER), "--allow-gid", "777") as daemon:
        os.chmod(daemon.directory, 0o755)
        assert as_user(STRANGER, STRANGER, daemon) == "greeted"
        assert as_user(STRANGER + 1, STRANGER, daemon) == "no way", "the socket's list keeps others out"
        assert as_user(STRANGER + 1, 777, daemon) == "greeted"
        assert as_user(STRANGER + 1, STRANGER, daemon, groups=[777]) == "greeted"
        assert not [line for line in daemon.lines() if line["event"] == "peer-refused"]
        os.chmod(daemon.path, 0o666)
        assert as_user(STRANGER + 1, STRANGER, daemon) == "cut", "and so does who they are"
        refused = [line for line in daemon.lines() if line["event"] == "peer-refused"]
        assert str(STRANGER + 1) in refused[0]["why"]


def test_tokens():
    with Daemon(tcp=True) as daemon:
        assert os.stat(daemon.token_file).st_mode & 0o777 == 0o600 and len(daemon.token) == 64
        with Frames(daemon.connect_tcp(), token=daemon.token) as frames:
            assert frames.call("stats")["connections"] == 1
        for token in (None, "", daemon.token[:-1], daemon.token + "x", "x" * 64):
            frames = Frames(daemon.connect_tcp(), hello=False)
            error = frames.refused("hello", protocol=1, **({} if token is None else {"token": token}))
            assert error.name == "unauthorized"
            try:
                frames.call("stats")
                raise AssertionError("it goes on without a token")
            except (Gone, ConnectionError):
                pass
            frames.close()
        frames = Frames(daemon.connect_tcp(), hello=False)
        assert frames.refused("stats").name == "unauthorized"
        frames.close()
        with Http(daemon.connect_tcp()) as http:
            assert http.get("/health")[0] == 200
            for path in ("/metrics", "/openapi.json", "/v1/stats", "/v1/languages", "/v1/prefixes"):
                assert http.get(path)[0] == 401 and http.headers["www-authenticate"] == "Bearer", path
            for token in (daemon.token[:-1], daemon.token + "x", ""):
                assert http.get("/v1/stats", Authorization="Bearer " + token)[0] == 401
            assert http.get("/v1/stats", Authorization="Basic " + daemon.token)[0] == 401
            assert http.get("/v1/stats", Authorization="Bearer " + daemon.token)[0] == 200
        with Http(daemon.connect_tcp()) as http:
            assert http.post("/v1/call", language="python", code="1")[0] == 401
        with WebSocket(daemon.connect_tcp(), token=daemon.token) as socket_:
            assert socket_.call("stats")["connections"] >= 1
        with WebSocket(daemon.connect_tcp(), hello_token=daemon.token) as socket_:  # as a browser must
            assert socket_.call("stats")["connections"] >= 1
        with WebSocket(daemon.connect_tcp(), hello=False) as socket_:
            assert socket_.refused("hello", protocol=1).name == "unauthorized"


def test_a_token_others_may_read_is_refused():
    with Daemon() as daemon:
        path = os.path.join(daemon.directory, "loose")
        for mode, text, word in ((0o644, "x" * 40, "0600"), (0o600, "short", "16"), (0o600, "with space in it, and long", "ASCII")):
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, mode)
            finished = subprocess.run([os.environ["CLOCHE_BUILD"] + "/cloched", "--listen", "127.0.0.1:0", "--token-file", path], capture_output=True,
                                      text=True, timeout=30)
            assert finished.returncode == 2 and word in finished.stderr, finished.stderr


def test_hosts_and_origins():
    with Daemon("--allow-host", "cloche.example", "--allow-origin", "https://good.example", tcp=True) as daemon:
        for host, status in (("localhost", 200), (f"localhost:{daemon.port}", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("CLOCHE.example:1", 200),
                             ("evil.example", 403), ("localhost.evil.example", 403), ("127.0.0.1.evil.example", 403), ("evil.example:80", 403),
                             ("xlocalhost", 403)):
            with Http(daemon.connect_tcp(), daemon.token, host=host) as http:
                assert http.get("/health")[0] == status, host
                assert http.get("/v1/stats")[0] == status, host
        with Http(daemon.connect_tcp(), daemon.token) as http:
            assert http.get("/v1/stats", Origin="https://evil.example")[0] == 403
            assert http.get("/v1/stats", Origin="null")[0] == 403
            assert http.get("/v1/stats", Origin="https://good.example")[0] == 200
            assert http.headers["access-control-allow-origin"] == "https://good.example"
            assert http.request("OPTIONS", "/v1/call", headers={"Origin": "https://good.example", "Access-Control-Request-Method": "POST"})[0] == 204
            assert "POST" in http.headers["access-control-allow-methods"]
            assert http.request("OPTIONS", "/v1/call", headers={"Origin": "https://evil.example"})[0] == 403
        for origin in ("http://localhost", "https://evil.example"):
            with Http(daemon.connect_tcp(), daemon.token) as http:
                headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "A" * 22 + "==", "Sec-WebSocket-Version": "13"}
                assert http.request("GET", "/v1/rpc", headers={**headers, "Origin": origin})[0] == 403
    with Daemon() as daemon:
        for kind, status in (("text/plain", 400), ("application/x-www-form-urlencoded", 400), (None, 400), ("application/jsonx", 400),
                             ("application/json", 200), ("application/json; charset=utf-8", 200)):
            with Http(daemon.connect(), host="any.example") as http:
                answer, body = http.request("POST", "/v1/call", {"language": "python", "code": "return 1"}, headers={"Content-Type": kind})
                assert answer == status, (kind, answer, body)


def test_two_callers_do_not_see_each_other():
    with Daemon(tcp=True) as daemon:
        with daemon.frames() as one, daemon.frames() as other, Frames(daemon.connect_tcp(), token=daemon.token) as third:
            prefix = one.call("prefix.create", language="python", code="secret = 1")["prefix"]
            named = one.call("prefix.create", language="python", code="secret = 2", name="named")["prefix"]
            number = one.ask("call", language="python", code="import time\ntime.sleep(600)")
            unknown = other.refused("call", prefix="p999", code="1")
            for client in (other, third):
                for method, params in (("call", {"prefix": prefix, "code": "return secret"}), ("prefix.dispose", {"prefix": prefix})):
                    error = client.refused(method, **params)
                    assert (error.name, error.message.replace(prefix, "p999")) == (unknown.name, unknown.message)
                assert client.call("cancel", id=number) == {"found": False}
            assert [row["prefix"] for row in other.call("prefix.list")["prefixes"]] == [named], "a name is the user's"
            assert third.call("prefix.list") == {"prefixes": []}, "who has the token is another user"
            assert third.refused("call", prefix="named", code="1").name == "not_found"
            assert third.call("prefix.create", language="python", code="", name="named")["prefix"] != named
            assert one.call("cancel", id=number) == {"found": True} and one.wait(number)["status"] == "terminated"
            assert one.call("call", prefix=prefix, code="return secret")["result"] == 1
        with daemon.frames() as frames:
            assert [row["prefix"] for row in frames.call("prefix.list")["prefixes"]] == [named], "a name outlives the connection"


# Arguments of openssl s_client. An old openssl may have none of the weak ones left: each is tried at security level 0.
WEAK = (["-tls1"], ["-tls1_1"], ["-tls1_2", "-cipher", "AES128-SHA256"], ["-tls1_2", "-cipher", "AES128-GCM-SHA256"], ["-tls1_2", "-cipher", "AES256-SHA"],
        ["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA"], ["-tls1_2", "-cipher", "ECDHE-RSA-AES256-SHA384"], ["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"],
        ["-tls1_2", "-cipher", "aNULL"])
STRONG = (["-tls1_3"], ["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"], ["-tls1_2"], ["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"],
          ["-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"], [])


def shake_hands(daemon, arguments):
    """openssl's description of the session; "" when there is none."""
    cipher = [argument + ":@SECLEVEL=0" if before == "-cipher" else argument for before, argument in zip([""] + arguments, arguments)]
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{daemon.port}", "-brief", *cipher]
    if "-cipher" not in arguments:
        command += ["-cipher", "ALL:@SECLEVEL=0"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=30)
    assert b"Error with command" not in done.stderr and b"Usage" not in done.stderr, done.stderr
    return done.stderr.decode() if b"CONNECTION ESTABLISHED" in done.stderr else ""


def test_tls_has_no_weak_sessions():
    with tempfile.TemporaryDirectory() as directory:
        key, certificate = make_certificate(directory, "rsa:2048")
        with Daemon("--tls-key", key, "--tls-certificate", certificate, tcp=True) as daemon:
            for arguments in WEAK:
                assert not shake_hands(daemon, arguments), arguments
            for arguments in STRONG:
                said = shake_hands(daemon, arguments)
                assert said and ("TLSv1.3" in said or "ECDHE" in said), (arguments, said)


def test_tls():
    directory = os.environ.get("TMPDIR", "/tmp") + "/cloched-tls-%d" % os.getpid()
    os.mkdir(directory)
    try:
        key, certificate = make_certificate(directory)
        with Daemon("--tls-key", key, "--tls-certificate", certificate, tcp=True) as daemon:
            context = ssl.create_default_context(cafile=certificate)

            def connect():
                return context.wrap_socket(daemon.connect_tcp(), server_hostname="localhost")

            with Http(connect(), daemon.token) as http:
                assert http.get("/v1/stats")[0] == 200
                assert http.post("/v1/call", language="python", code="return 'x' * 300000")[1]["result"] == "x" * 300000
            with WebSocket(connect(), token=daemon.token) as socket_:
                assert socket_.call("call", language="python", code="return 'y' * 100000")["result"] == "y" * 100000
            for word in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"CLOCHE1\n"):  # in the clear: the token would be seen
                with daemon.connect_tcp() as plain:
                    plain.sendall(word)
                    try:
                        assert plain.recv(10) == b""
                    except ConnectionResetError:
                        pass
            with daemon.frames() as frames:
                assert frames.call("stats")["connections"] >= 1
    finally:
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)
