"""Permitted connections work: names, TLS, HTTP of many kinds, other protocols, addresses by rule."""
from cloche import equal
from egress import HOST, World

NAMES = {"allowed.test": ["93.184.216.34"], "deep.allowed.test": ["93.184.216.34"], "six.test": ["2606:2800:220:1::1"],
         "several.test": ["93.184.216.77", "93.184.216.34"], "inside.test": ["10.1.1.1"], "away.test": ["93.184.216.35"]}


def test_names_and_web():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test", "*.allowed.test"]})
    assert box.guards["seccomp"] is True and box.guards["landlock"] >= 1, box.guards
    assert box.run("name('allowed.test')").startswith("198.18."), "a name is an address that stands for it"
    assert box.run("get('http://allowed.test/x')") == "allowed.test /x 0"
    assert box.run("get('http://ALLOWED.test./x')") == "ALLOWED.test. /x 0"
    assert box.run("get('http://deep.allowed.test:8080/y')") == "deep.allowed.test:8080 /y 0"
    assert box.run("get('https://allowed.test/')") == "secure"
    assert ["tls", "93.184.216.34", "allowed.test"] in world.heard()
    assert box.run("tls('allowed.test', 443, None)") == "b'secure hello'", "without a server name it is the name it was made to"
    told = box.decisions(host="allowed.test", verdict="allowed")
    assert {row["kind"] for row in told} == {"dns", "tcp", "http", "tls"}, told
    assert all(row["rule"] == "allowed.test" for row in told), told


def test_programs_of_all_kinds():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test"]})
    assert box.run_program("curl", "-sS", "http://allowed.test/curl").stdout == "allowed.test /curl 0\n"
    assert box.run_program("curl", "-sSk", "https://allowed.test/curl").stdout == "secure"
    assert box.run_program("curl", "-sS", "-d", "x" * 100000, "http://allowed.test/post").stdout == "allowed.test /post 100000\n"
    assert box.run_program("curl", "-sS", "-H", "Transfer-Encoding: chunked", "-d", "x" * 100000, "http://allowed.test/post").stdout == \
        "allowed.test /post 100000\n"
    several = box.run_program("curl", "-sS", "http://allowed.test/1", "http://allowed.test/2", "http://allowed.test/3").stdout
    assert several.splitlines() == [f"allowed.test /{i} 0" for i in (1, 2, 3)], several
    assert box.run_program("node", "-e", "fetch('http://allowed.test/node').then(r => r.text()).then(console.log)").stdout.strip() == "allowed.test /node 0"
    world.heard()


def test_requests_one_behind_the_other():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test"]})
    code = r"""ask('allowed.test', 80,
        b'POST /1 HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 5\r\n\r\nGET /GET /2 HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n',
        b'POST /3 HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n',
        b'GET http://allowed.test/4 HTTP/1.1\r\nHost: allowed.test\r\n\r\n', pause=.1, timeout=2)""".replace("\n", " ")
    answers = box.run(code)
    for wanted in ("/1 5", "/2 0", "/3 13", "http://allowed.test/4 0"):
        assert wanted in answers, answers
    assert [row[3].split()[1] for row in world.heard()if row[0] == "http"] == ["/1", "/2", "/3", "http://allowed.test/4"]


def test_websocket():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test"]})
    upgrade = r"b'GET %s HTTP/1.1\r\nHost: allowed.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'"
    answers = box.run(f"ask('allowed.test', 80, {upgrade % '/yes'}, b'any bytes: GET / HTTP/1.1', pause=.3, timeout=2)")
    assert "101" in answers and "echo any bytes: GET / HTTP/1.1" in answers, answers
    world.heard()


def test_other_protocols():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test:7", "allowed.test:19", "allowed.test:25-26"]})
    assert box.run(r"talk('allowed.test', 7, b'\x00\x01\x02 all of it')") == r"b'\x00\x01\x02 all of it'", "the end of one direction is one of that only"
    assert box.run(r"talk('allowed.test', 7, b'no line')") == "b'no line'"
    assert box.run(r"talk('allowed.test', 7, b'a line\n')") == r"b'a line\n'"
    assert box.run(r"talk('allowed.test', 25, b'')") == r"b'220 ready\r\n'", "who speaks first is heard first"
    assert "220 ready" in box.run(r"talk('allowed.test', 25, b'HELO x\r\n')")
    assert box.run("len(talk('allowed.test', 19, b'20000000', first=True))") == "20000000", "a word alone goes when nothing follows"
    assert box.run(r"len(talk('allowed.test', 7, b'\x80' * 20000000))") == "20000000"
    world.heard()


def test_addresses():
    world = World(NAMES)
    box = world.box({"allow": ["93.184.216.34", "93.184.216.35:80", "10.0.0.0/8", "inside.test:80", "away.test:80", "169.254.169.254"]})
    assert box.run("get('http://93.184.216.34/a')") == "93.184.216.34 /a 0"
    assert box.run("get('http://93.184.216.35/a')") == "93.184.216.35 /a 0"
    assert box.run("get('http://10.1.1.1/a')") == "10.1.1.1 /a 0", "a CIDR opens private addresses"
    assert box.run("get('http://inside.test/a')") == "inside.test /a 0", "for names, too"
    assert box.run("get('http://169.254.169.254/a')") == "169.254.169.254 /a 0", "one by one all of them can be had"
    assert box.run("tls('93.184.216.34', 443, None)") == "b'secure hello'"
    world.heard()


def test_many_addresses_of_a_name():
    world = World(NAMES)
    box = world.box({"allow": ["several.test", "six.test"]})
    assert box.run("get('http://several.test/')") == "several.test / 0", "the second is tried when the first does not answer"
    assert box.run("get('http://six.test/')") == "six.test / 0", "IPv6 outside, IPv4 inside"
    assert box.decisions(kind="tcp", host="six.test")[0]["address"] == "2606:2800:220:1::1"


def test_own_addresses_by_rule():
    world = World(NAMES | {"me.test": [HOST], "loop.test": ["127.0.0.1"]})
    from egress import Echo, Tcp
    import threading
    server = Tcp(("0.0.0.0", 7), Echo)
    server.tell = lambda row: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    box = world.box({"allow": ["me.test", HOST, "loop.test", "127.0.0.1:7"]})
    assert box.run("talk('me.test', 7, b'x')") == "b'x'"
    assert box.run("talk('loop.test', 7, b'x')") == "b'x'", "the host's loopback, since a rule says so"


def test_inside_of_the_box():
    world = World(NAMES)
    box = world.box({"allow": []})
    code = """
        import threading
        s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen()
        def serve():
            while True:
                c, _ = s.accept(); c.sendall(b'own'); c.close()
        threading.Thread(target=serve, daemon=True).start()
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 8001))
        v = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); v.sendto(b'udp', ('127.0.0.1', 8001))
        print(talk('127.0.0.1', 8000, first=True), u.recv(10))"""
    assert box.run(code) == "b'own' b'udp'"


def test_headers_of_a_host():
    """They are set in each request to the host, in place of the guest's own."""
    world = World(NAMES)
    value = "v" * 1000 + " end"
    box = world.box({"allow": ["allowed.test", "*.allowed.test", "away.test"], "headers": {"allowed.test": {"X-Secret": value, "X-Secret-2": "2"}, "*.allowed.test": {"X-Secret": "below"}}})
    set_here = [f"X-Secret: {value}", "X-Secret-2: 2"]
    code = r"""ask('allowed.test', 80,
        b'POST /1 HTTP/1.1\r\nHost: ALLOWED.test:80\r\nx-secret: own\r\nX-SECRET: again\r\nContent-Length: 5\r\n\r\nGET /GET /2 HTTP/1.1\r\nHost: allowed.test\r\n\r\nPOST /3 HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Enco',
        b'ding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET http://allowed.test/4 HTTP/1.1\r\nHost: allowed.test\r\n\r\n', pause=.1, timeout=2)""".replace("\n", " ")
    answers = box.run(code)
    for wanted in ("/1 5", "/2 0", "/3 3", "http://allowed.test/4 0"):
        assert wanted in answers, answers
    equal([row[2:] for row in world.heard() if row[0] == "secrets"], [[target, set_here] for target in ("/1", "/2", "/3", "http://allowed.test/4")])
    answers = box.run(r"ask('allowed.test', 80, b'GET /yes HTTP/1.1\r\nHost: allowed.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n', b'bytes', pause=.3, timeout=2)")
    assert "101" in answers and "echo bytes" in answers, answers
    for size in (32600, 100000):  # the head's piece has as much of the body as one buffer takes
        answers = box.run(rf"ask('allowed.test', 80, b'POST /{size} HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: {size}\r\n\r\n' + b'b' * {size}, timeout=2)")
        assert f"/{size} {size}" in answers, answers
    equal([row[2:] for row in world.heard() if row[0] == "secrets"], [["/yes", set_here], ["/32600", set_here], ["/100000", set_here]])
    box.run("[get('http://deep.allowed.test/'), get('http://away.test/')]")
    equal([row[1:] for row in world.heard() if row[0] == "secrets"], [["93.184.216.34", "/", ["X-Secret: below"]]])  # the last one has none
    box.policy({"allow": ["allowed.test"], "headers": {"allowed.test": {"X-Secret": "new"}}})
    box.run("get('http://allowed.test/5')")
    equal([row[2:] for row in world.heard() if row[0] == "secrets"], [["/5", ["X-Secret: new"]]])
    assert box.run("get('http://allowed.test/')") == "allowed.test / 0" and box.run("tls('allowed.test', 443, None)") != "b'secure hello'"
    assert box.decisions(kind="tls", verdict="denied")[0]["why"] == "headers are set for this host, and TLS hides requests: use http"
    world.heard()
