"""Data of a guest on a permitted connection: another server's name in TLS, another host in any
request of HTTP, and all the ways to hide one."""
import re

from egress import World

TIMEOUT = 150
NAMES = {"allowed.test": ["93.184.216.34"], "second.test": ["93.184.216.34"], "evil.test": ["93.184.216.34"], "proxy.test": ["93.184.216.34"]}
POLICY = {"allow": ["allowed.test", "second.test:443", "second.test:80", "proxy.test"], "deny": ["evil.test"]}
GOOD = "GET /good HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"


def requests(world):
    return [row[3].split()[1] for row in world.heard() if row[0] == "http"]


def ask(box, *pieces, host="allowed.test", port=80, pause=0.15, bound=2):
    words = ", ".join(f"b'{piece}'" for piece in pieces)
    return box.run(f"ask({host!r}, {port}, {words}, pause={pause}, timeout={bound})")


def test_server_names():
    world = World(NAMES)
    box = world.box(POLICY)
    assert box.run("tls('allowed.test', 443, 'allowed.test')") == "b'secure hello'"
    assert box.run("tls('allowed.test', 443, 'second.test')") == "b'secure hello'", "another that is allowed there"
    world.heard()
    for name in ("evil.test", "other.test", "dns.google", "allowed.test.evil.test"):
        assert "secure" not in box.run(f"tls('allowed.test', 443, {name!r})"), name
        assert box.decisions(kind="tls", host=name, verdict="denied"), name
    assert "secure" not in box.run("tls('allowed.test', 8080, 'second.test')"), "it is not allowed on that port"
    assert world.heard() == [] or all(row[0] == "dns" or row == ["tls", "broken"] for row in world.heard())


def test_malformed_tls():
    world = World(NAMES)
    box = world.box(POLICY)
    for first in (r"\x16\x03\x01\x00\x05hello", r"\x16\x03\x01\x00\x04\x02\x00\x00\x00", r"\x16\x02\x00\x00\x05\x01\x00\x00\x01\x00", r"\x16\x03\x01\x00\x00",
                  r"\x16GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", r"\x16\x03\x01\x00\x04\x01\x00\xff\xff"):
        answer = ask(box, first, port=7)
        assert answer in ("b''", "b'ConnectionResetError'"), (first, answer)
    assert not [row for row in world.heard() if row[0] == "echo" and len(row) > 2]


def test_hosts_of_requests():
    world = World(NAMES)
    box = world.box(POLICY)
    assert "/good" in ask(box, GOOD)
    assert "/v0" in ask(box, "GET /v0 HTTP/1.0\\r\\n\\r\\n"), "HTTP/1.0 without Host is for the name it was made to"
    assert requests(world) == ["/good", "/v0"]
    for head in ("Host: evil.test", "Host: other.test", "Host: 10.1.1.1", "Host: allowed.test:8080", "Host: allowed.test@evil.test", "Host: evil.test#allowed.test",
                 "Host: [::1]", "Host:", "X: y", "Host: allowed.test\\r\\nHost: evil.test", "Host: allowed.test\\r\\n Host: evil.test", "Host : evil.test",
                 "Host: 2130706433", "Host: allowed.test, evil.test", "Host: allowed.test\\nHost: evil.test", "Host: allowed.test\\rX: y",
                 "Host: allowed.test\\x00.evil.test"):
        answer = ask(box, f"GET /bad HTTP/1.1\\r\\n{head}\\r\\n\\r\\n", bound=1)
        assert "200" not in answer, (head, answer)
    assert requests(world) == []
    assert box.decisions(kind="http", host="evil.test", verdict="denied")[0]["rule"] == "evil.test"


def test_later_requests():
    world = World(NAMES)
    box = world.box(POLICY)
    bad = "GET /bad HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"
    assert ask(box, GOOD, bad).count("200 OK") == 1
    assert ask(box, GOOD + bad).count("200 OK") <= 1
    assert ask(box, GOOD + bad[:20], bad[20:]).count("200 OK") <= 1
    assert ask(box, "POST /post HTTP/1.1\\r\\nHost: allowed.test\\r\\nContent-Length: 3\\r\\n\\r\\nabc" + bad).count("200 OK") <= 1
    assert ask(box, "POST /post HTTP/1.1\\r\\nHost: allowed.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n" + bad).count("200 OK") <= 1
    assert "/bad" not in requests(world)


def test_two_readings():
    """Bytes that two servers might parse as different requests."""
    world = World(NAMES)
    box = world.box(POLICY)
    hidden = "GET /hidden HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"
    post = "POST /p HTTP/1.1\\r\\nHost: allowed.test\\r\\n"
    for request in (post + f"Content-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n{hidden}",
                    post + f"Transfer-Encoding: chunked\\r\\nContent-Length: {len(hidden)}\\r\\n\\r\\n0\\r\\n\\r\\n{hidden}",
                    post + f"Content-Length: 0\\r\\nContent-Length: 90\\r\\n\\r\\n{hidden}", post + f"Content-Length: 0, 90\\r\\n\\r\\n{hidden}",
                    post + f"Content-Length: +0\\r\\n\\r\\n{hidden}", post + f"Content-Length: 0x10\\r\\n\\r\\n{hidden}",
                    post + f"Transfer-Encoding: xchunked\\r\\n\\r\\n{hidden}", post + f"Transfer-Encoding: chunked, identity\\r\\n\\r\\n{hidden}",
                    post + f"Transfer-Encoding:\\x0bchunked\\r\\n\\r\\n{hidden}", post + f"Transfer-Encoding: identity\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n{hidden}",
                    post + f"Transfer-Encoding : chunked\\r\\n\\r\\n{hidden}", post + f"Transfer-Encoding: chunked\\r\\n\\r\\n2;x=\\n{hidden}",
                    post + f"Transfer-Encoding: chunked\\r\\n\\r\\n2;x=y\\r\\nab\\r\\n0\\r\\n\\r\\n{hidden}", post + f"Transfer-Encoding: chunked\\r\\n\\r\\n0x2\\r\\nab\\r\\n0\\r\\n\\r\\n{hidden}",
                    post + f"Transfer-Encoding: chunked\\r\\n\\r\\n-1\\r\\n{hidden}", post + f"Transfer-Encoding: chunked\\r\\n\\r\\nfffffffffffffffff2\\r\\n{hidden}",
                    post + f"Transfer-Encoding: chunked\\r\\n\\r\\n2\\nab\\n0\\n\\n{hidden}", post + f"X: y\\n\\n{hidden}", "\\r\\n" + hidden, "\\n" + hidden, " " + hidden,
                    "get /hidden HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n", "GET\\t/hidden\\tHTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n", "GET  /hidden HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n",
                    "GET /hid\\xc3\\xa9den HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n", "GET /hidden http/1.1\\r\\nHost: evil.test\\r\\n\\r\\n",
                    "XYZZY /hidden HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n", "GET /hidden HTTP/1.2\\r\\nHost: evil.test\\r\\n\\r\\n"):
        ask(box, request, pause=0, bound=1)
    seen = requests(world)
    assert not [path for path in seen if "hid" in path], seen
    assert "/good" in ask(box, GOOD), "and the egress program is well"


def test_absolute_targets():
    world = World(NAMES)
    box = world.box(POLICY)
    assert "200" in ask(box, "GET http://second.test/there HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
    world.heard()
    for target in ("http://evil.test/bad", "http://allowed.test@evil.test/bad", "http://allowed.test:8080/bad", "https://allowed.test/bad", "http://10.1.1.1/bad",
                   "http://[::1]/bad", "HTTP://EVIL.TEST/bad", "ftp://allowed.test/bad", "evil.test/bad", "http:///bad", "//evil.test"):
        answer = ask(box, f"GET {target} HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n", bound=1)
        assert "200" not in answer or target == "//evil.test", (target, answer)
    assert requests(world) in ([], ["//evil.test"])


def test_upgrades():
    world = World(NAMES)
    box = world.box(POLICY)
    for fields in ("Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__", "Connection: Upgrade\\r\\nUpgrade: websocket, h2c",
                   "Upgrade: TLS/1.0", "Upgrade: websocket\\r\\nUpgrade: h2c", "HTTP2-Settings: AA"):
        answer = ask(box, f"GET /yes HTTP/1.1\\r\\nHost: allowed.test\\r\\n{fields}\\r\\n\\r\\n", bound=1)
        assert "101" not in answer and "200" not in answer, (fields, answer)
    assert "200" not in ask(box, "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n", bound=1)
    assert requests(world) == []
    upgrade = "GET /no HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n"
    answers = ask(box, upgrade, "GET /bad HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n")
    assert answers.count("200 OK") == 1, "the server did not switch, so what follows is read"
    assert ask(box, upgrade + "GET /bad HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n").count("200 OK") <= 1
    assert "/bad" not in requests(world)


def test_connect():
    world = World(NAMES)
    box = world.box(POLICY)
    assert "echo hello" in ask(box, "CONNECT second.test:443 HTTP/1.1\\r\\nHost: second.test:443\\r\\n\\r\\n", "hello\\n", host="proxy.test", port=8080)
    world.heard()
    for target in ("evil.test:443", "second.test:22", "10.1.1.1:80", "169.254.169.254:80", "second.test", "[::1]:80"):
        answer = ask(box, f"CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n", "hello", host="proxy.test", port=8080, bound=1)
        assert "Connected" not in answer, (target, answer)
    assert "hello" not in str(world.heard())
    inside = ask(box, "CONNECT second.test:443 HTTP/1.1\\r\\nHost: second.test:443\\r\\n\\r\\n", "GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n", host="proxy.test", port=8080)
    assert "Connected" in inside and "echo" not in inside, "in the tunnel it is read as well"


def test_slow_words():
    """A request arrives in pieces with long pauses."""
    world = World(NAMES)
    box = world.box(POLICY)
    for pieces in (("GE", "T /bad HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"), ("GET", " /bad HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n"),
                   ("GET /ba", "d HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n")):
        assert "200" not in ask(box, *pieces, pause=4.5), pieces
    assert requests(world) == []
    assert re.search("250 hello", box.run("ask('allowed.test', 25, b'hello', pause=0.2, timeout=2)"))


def test_another_policy():
    """A new policy also acts on open connections."""
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test", "second.test", "93.184.216.35"]})
    hold = """
        s = connect(HOST, 25); s.recv(100); print('open', flush=True)
        s.settimeout(20)
        try: print('end' if s.recv(100) == b'' else 'data')
        except OSError as e: print(said(e))"""
    open_ones = [box.start(hold.replace("HOST", repr(host))) for host in ("allowed.test", "second.test", "93.184.216.35")]
    for one in open_ones:
        assert one.stdout.readline() == "open\n"
    box.policy({"allow": ["second.test", "*.other.test"]})
    assert open_ones[0].communicate(timeout=20)[0] == "ConnectionResetError\n"
    assert open_ones[2].communicate(timeout=20)[0] == "ConnectionResetError\n"
    assert open_ones[1].poll() is None, "what is still allowed goes on"
    assert box.run("name('allowed.test')") == "gaierror" and box.run("name('x.other.test')").startswith("198.18.")
    assert [row["why"] for row in box.decisions(kind="tcp", host="allowed.test", verdict="denied")] == ["it is open, and another policy does not allow it"]
    for wrong, why in (({"allow": ["a b"]}, "network.allow[0]"), ({"allow": [], "x": 1}, "'x'"), ([], "an object")):
        try:
            box.policy(wrong)
            raise AssertionError(wrong)
        except ValueError as e:
            assert why in str(e), (wrong, e)
    assert box.run("name('x.other.test')").startswith("198.18."), "a policy that is refused changes nothing"
    open_ones[1].kill()
