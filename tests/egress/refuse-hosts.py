"""Refused connections: names, addresses in every spelling, targets of names, ports, protocols. Each
refusal is logged, and nothing arrives."""
from egress import CLOSED, HOST, World

TIMEOUT = 150
NAMES = {"allowed.test": ["93.184.216.34"], "other.test": ["93.184.216.35"], "meta.test": ["169.254.169.254"], "inside.test": ["10.1.1.1"],
         "me.test": [HOST], "loop.test": ["127.0.0.1"], "mixed.test": ["10.1.1.1", "93.184.216.34"], "six.test": ["fd00:ec2::254"],
         "mapped.test": ["::ffff:10.1.1.1"], "zero.test": ["0.0.0.0"], "cgn.test": ["100.64.0.9"], "nat64.test": ["64:ff9b::a01:101"],
         "pool.test": ["198.18.0.1"], "local6.test": ["::1"], "doc.test": ["198.51.100.3"], "many.test": ["224.0.0.1"],
         "rebind.test": [["93.184.216.34"], ["169.254.169.254"]], "below.allowed.test": ["93.184.216.35"]}
ENDED = ("b''", "ConnectionResetError", "BrokenPipeError", "OSError")


def arrived(world):
    """Requests that reached a server, name servers aside."""
    return [row for row in world.heard() if row[0] != "dns"]


def test_nothing_allowed():
    world = World(NAMES)
    for policy in ({"allow": []}, {}, {"allow": ["*"], "deny": ["*"]}, {"allow": ["*"], "dns": False}):
        box = world.box(policy)
        assert box.run("name('allowed.test')") == "gaierror", policy
        assert box.run("talk('93.184.216.34', 80)") in ENDED, policy
        assert box.run("talk('198.18.0.1', 80)") in ENDED, policy
        box.close()
    assert world.heard() == [], "not even the name servers were asked"


def test_names_outside():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test", "*.below.test"], "deny": ["deep.below.test"]})
    for other in ("other.test", "below.allowed.test", "allowed.test.evil.test", "xallowed.test", "below.test", "deep.below.test", "localhost.localdomain",
                  "secret-in-a-name.dns-tunnel.test", "127.1", "0x7f.1", "2130706433", "017700000001", "metadata.google.internal"):
        said = box.run(f"name({other!r})")
        assert said == "gaierror" or "." in said and not said.startswith("198.18."), (other, said)
    assert box.run("name('a.below.test')").startswith("198.18.")
    assert world.heard() == [], "no question goes further"
    assert box.decisions(kind="dns", host="other.test", verdict="denied")[0]["why"] == "no rule allows this name"
    assert box.decisions(kind="dns", host="deep.below.test")[0]["rule"] == "deep.below.test"


def test_questions_of_other_kinds():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test"]})
    code = r"""
        import struct
        def question(name, kind, at=('127.0.0.1', 53), raw=None):
            q = raw or struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + b''.join(bytes([len(p)]) + p for p in name.encode().split(b'.')) + b'\0' + struct.pack('>HH', kind, 1)
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.sendto(q, at)
            try: a = s.recv(600)
            except OSError as e: return said(e)
            return a[3] & 15, struct.unpack('>H', a[6:8])[0]
        def by_tcp(name):
            q = struct.pack('>HHHHHH', 7, 0x100, 1, 0, 0, 0) + b''.join(bytes([len(p)]) + p for p in name.encode().split(b'.')) + b'\0' + struct.pack('>HH', 1, 1)
            s = socket.create_connection(('8.8.8.8', 53), 3); s.sendall(struct.pack('>H', len(q)) + q[:5]); time.sleep(.1); s.sendall(q[5:])
            a = s.recv(600)
            return a[5] & 15, struct.unpack('>H', a[8:10])[0]
        print([question('allowed.test', k) for k in (1, 28, 65, 16, 255)])
        print(question('other.test', 16), question('allowed.test', 1, ('8.8.8.8', 53)), question('other.test', 1, ('10.1.1.1', 53)))
        print(by_tcp('allowed.test'), by_tcp('other.test'))
        print(question('', 0, raw=b'x'), question('', 0, raw=b'\0\1\0\0\0\1\0\0\0\0\0\0' + b'\xc0\x0c\0\1\0\1'), question('', 0, raw=bytes(12)))"""
    lines = box.run(code).splitlines()
    assert lines[0] == "[(0, 1), (0, 0), (0, 0), (0, 0), (0, 0)]", lines
    assert lines[1] == "(3, 0) (0, 1) (3, 0)", lines
    assert lines[2] == "(0, 1) (3, 0)", lines
    assert lines[3] == "TimeoutError (1, 0) (1, 0)", lines
    assert world.heard() == []


def test_addresses_without_a_rule():
    world = World(NAMES)
    box = world.box({"allow": ["*"]})
    for other in CLOSED + ["93.184.216.34", HOST, "51.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "198.18.0.1", "198.19.255.255"]:
        for port in (80, 8080):
            assert box.run(f"talk({other!r}, {port}, b'GET / HTTP/1.0\\r\\n\\r\\n', timeout=3)") in ENDED + ("ConnectionRefusedError", "PermissionError"), other
    assert arrived(world) == []
    assert box.decisions(address="169.254.169.254", port=80, verdict="denied", kind="tcp")


def test_spellings_of_addresses():
    world = World(NAMES)
    box = world.box({"allow": ["*", "0.0.0.0/0"]})
    assert box.run("get('http://93.184.216.34/')") == "93.184.216.34 / 0", "the widest rule opens what is public"
    assert len(arrived(world)) == 1
    for url in ("http://169.254.169.254/", "http://2852039166/", "http://0xa9fea9fe/", "http://0251.0376.0251.0376/", "http://169.254.43518/", "http://[::ffff:169.254.169.254]/",
                "http://[::ffff:a9fe:a9fe]/", "http://[fd00:ec2::254]/", "http://10.1.1.1/", "http://0x0a010101/", "http://[::1]/", "http://127.0.0.1/", "http://0/"):
        assert box.run(f"get({url!r})") in ("URLError", "RemoteDisconnected", "ConnectionResetError", "InvalidURL"), url
        assert box.run_program("curl", "-sS", "-g", "-m", "5", url).returncode != 0, url
    assert arrived(world) == []


def test_what_names_lead_to():
    world = World(NAMES)
    box = world.box({"allow": ["*"]})
    for name in ("meta.test", "inside.test", "me.test", "loop.test", "six.test", "mapped.test", "zero.test", "cgn.test", "nat64.test", "pool.test", "local6.test",
                 "doc.test", "many.test", "nobody.test"):
        assert box.run(f"get('http://{name}/')") in ("RemoteDisconnected", "ConnectionResetError", "URLError"), name
        assert box.decisions(host=name, verdict="denied", kind="tcp"), (name, box.decisions(host=name))
    assert arrived(world) == []
    assert box.decisions(host="meta.test", kind="tcp")[0] | {"count": 1} == {
        "host": "meta.test", "address": "169.254.169.254", "port": 80, "verdict": "denied", "kind": "tcp", "why": "the name leads into a closed range", "count": 1}
    assert box.decisions(host="me.test", kind="tcp")[0]["why"] == "the name leads to this machine's own address"
    assert box.run("get('http://mixed.test/')") == "mixed.test / 0", "the address that is public is taken"
    assert arrived(world)[0][1] == "93.184.216.34"


def test_rebinding():
    world = World(NAMES)
    box = world.box({"allow": ["*"]})
    assert box.run("get('http://rebind.test/')") == "rebind.test / 0"
    again = box.run("get('http://rebind.test/')")
    assert again in ("RemoteDisconnected", "ConnectionResetError", "BrokenPipeError", "URLError"), ("the name leads elsewhere now", again, box.decisions(host="rebind.test"))
    assert [row[1] for row in arrived(world)] == ["93.184.216.34"]


def test_deny_and_ports():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test:80", "*.test:443", "93.184.216.0/24"], "deny": ["other.test", "*:25", "93.184.216.35"]})
    assert box.run("get('http://allowed.test/')") == "allowed.test / 0"
    assert box.run("get('http://allowed.test:8080/')") in ("RemoteDisconnected", "ConnectionResetError", "BrokenPipeError", "URLError")
    assert box.run("talk('allowed.test', 25, b'x')") in ENDED and box.run("talk('93.184.216.34', 25, b'x')") in ENDED
    assert box.run("name('other.test')") == "gaierror", "deny wins"
    assert box.run("talk('93.184.216.35', 7, b'x')") in ENDED and box.run("talk('93.184.216.34', 7, b'x')") == "b'x'"
    assert box.run("get('https://below.allowed.test/')") in ("RemoteDisconnected", "ConnectionResetError", "URLError"), "a name leads to a denied address"
    assert all(row[1] == "93.184.216.34" for row in arrived(world))


def test_other_transports():
    world = World(NAMES)
    box = world.box({"allow": ["*", "0.0.0.0/0"]})
    code = """
        def send(address, family=socket.AF_INET):
            try:
                s = socket.socket(family, socket.SOCK_DGRAM); s.sendto(b'x', address); return 'sent'
            except OSError as e: return said(e)
        print(send(('8.8.8.8', 123)), send(('93.184.216.34', 443)), send(('224.0.0.251', 5353)), send(('2606:2800:220:1::1', 53), socket.AF_INET6))
        for kind in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET, socket.SOCK_DGRAM, 1), (socket.AF_PACKET, socket.SOCK_RAW, 768), (socket.AF_INET, socket.SOCK_STREAM, 132)):
            try: socket.socket(*kind); print('made', kind)
            except OSError as e: print(said(e))
        try: connect('2606:2800:220:1::1', 80); print('connected')
        except OSError as e: print(said(e))"""
    lines = box.run(code).splitlines()
    assert lines[0] == "PermissionError PermissionError PermissionError OSError", lines
    assert "made" not in " ".join(lines[1:]) and lines[-1] == "OSError", lines


def test_what_the_host_has():
    """Its loopback, its abstract sockets, ports of other boxes: hostile cases 72 and 79."""
    import socket
    world = World(NAMES)
    tcp, abstract = socket.socket(), socket.socket(socket.AF_UNIX)
    tcp.bind(("127.0.0.1", 4321)), tcp.listen()
    abstract.bind("\0cloche-test-abstract"), abstract.listen()
    box, beside = world.box({"allow": ["*"]}), world.box({"allow": ["*"]})
    neighbour = beside.start("s = socket.socket(); s.bind(('0.0.0.0', 4444)); s.listen(); print('up', flush=True); s.accept(); print('taken')")
    assert neighbour.stdout.readline() == "up\n"
    assert box.run("talk('127.0.0.1', 4321)") == "ConnectionRefusedError" and box.run("talk('10.255.0.2', 4444)") == "ConnectionRefusedError"
    assert box.run("talk('10.255.0.3', 4444)") in ENDED
    code = "s = socket.socket(socket.AF_UNIX)\ntry: s.connect('\\0cloche-test-abstract'); print('connected')\nexcept OSError as e: print(said(e))"
    assert box.run(code) == "ConnectionRefusedError"
    for port in (1, 53):
        taken = f"s = socket.socket()\ntry: s.bind(('0.0.0.0', {port})); print('bound')\nexcept OSError as e: print(said(e))"
        assert box.run(taken) in ("PermissionError", "OSError"), "ports of the egress program are nobody else's"
    assert box.run("talk('127.0.0.1', 1, b'x')") in ENDED
    neighbour.kill()
    assert arrived(world) == []


def test_headers_go_to_their_host_alone():
    """A guest that wants to see them, or to have them sent to a server of its own. Its twin is in permit-hosts.py."""
    world = World(NAMES)
    box = world.box({"allow": ["*", "10.0.0.0/8", "93.184.216.34"], "headers": {"allowed.test": {"X-Secret": "value"}}})
    here, get = "allowed.test", "GET /{} HTTP/1.1\\r\\nHost: {}\\r\\n\\r\\n"
    tries = {
        ("other.test", 80): [get.format("host", here), get.format("", "other.test") + get.format("second", here), f"GET http://{here}/target HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n"],
        ("93.184.216.34", 80): [get.format("address", here)],
        ("10.1.1.1", 80): [get.format("private", here)],
        (here, 80): [f"TRACE / HTTP/1.1\\r\\nHost: {here}\\r\\n\\r\\n", get.format("other", "other.test"), f"GET http://other.test/ HTTP/1.1\\r\\nHost: {here}\\r\\n\\r\\n", f"GET http://{here}/ HTTP/1.1\\r\\nHost: other.test\\r\\n\\r\\n",
                     "GET / HTTP/1.0\\r\\n\\r\\n", "CONNECT other.test:80 HTTP/1.1\\r\\nHost: other.test:80\\r\\n\\r\\n", f"GET / HTTP/1.1\\r\\nHost: {here}\\r\\nX: {{}}\\r\\n\\r\\n".format("x" * 32710)],
    }
    for (host, port), requests in tries.items():
        for request in requests:
            box.run(f"ask({host!r}, {port}, b'{request}', pause=.05, timeout=1)")
    tunnel = f"CONNECT {here}:80 HTTP/1.1\\r\\nHost: {here}:80\\r\\n\\r\\n"
    answer = box.run(f"ask('other.test', 80, b'{tunnel}', b'{get.format('tunnel', here)}', pause=.2, timeout=1)")
    assert "200 Connected" in answer and "echo" not in answer, answer
    rows = arrived(world)
    assert not any(row[0] in ("secrets", "tunnel") for row in rows) and {row[3].split()[0] for row in rows} <= {"GET", "CONNECT"}, rows
    assert not any("target" in str(row) or "second" in str(row) for row in rows), rows
    whys = {row["why"] for row in box.decisions(kind="http", verdict="denied")}
    assert whys >= {"headers are set for this host, and the request or its connection names another", "headers are set for this host, and TRACE would show them",
                    "the head of a request is too long with the headers that are set"}, whys
    assert "value" not in str(box.decisions()), "no decision has it"
