"""A test network for cloche-egress: an "internet" in a network namespace of its own, with addresses public and private, name
servers and servers in it; beside it the network of a host, which the test moves into; and a box whose only network is
the egress program. Needs root, ip and nsenter.

    world = World(names={"allowed.test": ["93.184.216.34"]})
    box = world.box({"allow": ["allowed.test"]})
    box.run("print(get('http://allowed.test/'))")
    world.heard(), box.decisions(), box.policy({...})
"""
import ctypes
import json
import os
import queue
import re
import select
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import textwrap
import threading
import time

import cloche

CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
GUEST = 65534
BUILD = os.environ["CLOCHE_BUILD"]
BOX = os.path.join(BUILD, "tests", "egress-box")
EGRESS = os.path.join(BUILD, "cloche-egress")
HOST, ROUTER, NAMES = "51.0.0.2", "51.0.0.1", "9.9.9.9"
PUBLIC = ["93.184.216.34", "93.184.216.35", "8.8.8.8", "93.184.216.99", NAMES]
CLOSED = ["10.1.1.1", "192.168.7.7", "169.254.169.254", "172.16.3.4", "100.64.0.9", "198.51.100.3"]
ADDRESSES6 = ["2606:2800:220:1::1", "fd00:ec2::254"]

# Functions for a guest's code; each returns a word or two in all cases.
PRELUDE = """
import socket, ssl, sys, time, json, os, urllib.request
def said(e): return type(e).__name__
def connect(host, port, timeout=8):
    return socket.create_connection((host, port), timeout)
def talk(host, port, data=b"", first=False, timeout=8):
    'What comes back until the end, or how it broke.'
    try:
        with connect(host, port, timeout) as s:
            if data: s.sendall(data)
            if not first: s.shutdown(socket.SHUT_WR)
            out = bytearray()
            while True:
                piece = s.recv(65536)
                if not piece: return bytes(out)
                out += piece
    except OSError as e:
        return said(e)
def ask(host, port, *pieces, pause=0.0, timeout=8):
    'Send pieces on one connection, and what came back until the server or the egress program ended it.'
    out = b""
    try:
        with connect(host, port, timeout) as s:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(pause)
            while True:
                piece = s.recv(65536)
                if not piece: return out
                out += piece
    except OSError as e:
        return out + said(e).encode()
def name(host):
    try: return socket.getaddrinfo(host, 1, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as e: return said(e)
def get(url):
    try: return urllib.request.urlopen(url, timeout=8, context=ssl._create_unverified_context() if url.startswith("https") else None).read().decode()
    except Exception as e: return said(e)
def tls(host, port, sni, data=b"hello"):
    context = ssl._create_unverified_context()
    context.check_hostname = False
    try:
        with connect(host, port) as s, context.wrap_socket(s, server_hostname=sni) as t:
            t.sendall(data)
            return t.recv(1000)
    except Exception as e:
        return said(e)
"""

# A guest's process with the prelude loaded, which forks for each piece of code and returns its
# output. Starting Python each time costs more than most pieces do.
SERVE = """
import traceback
def perform(code, printed_fd):
    try:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(printed_fd, 1)
        exec(compile(code, "guest", "exec"), dict(globals()))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stdout.flush()
    finally:
        os._exit(0)
while line := sys.stdin.readline():
    read_fd, printed_fd = os.pipe()
    pid = os.fork()
    if pid == 0: perform(json.loads(line), printed_fd)
    os.close(printed_fd)
    with open(read_fd, "rb") as file: printed = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    print(json.dumps(printed), flush=True)
"""


def need():
    if os.geteuid() != 0:
        cloche.skip("network namespaces with servers in them want root")


def unshare(kind):
    if ctypes.CDLL(None, use_errno=True).unshare(kind) < 0:
        raise OSError(ctypes.get_errno(), "unshare")


def use_name_servers(*addresses):
    """Name servers for processes started from now on, like an engine sets them for its sandboxes."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("host-resolv.conf", "w") as file:
        file.writelines(f"nameserver {address}\n" for address in addresses)
    unshare(CLONE_NEWNS)
    libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
    if libc.mount(b"host-resolv.conf", b"/etc/resolv.conf", None, MS_BIND, None) < 0:
        raise OSError(ctypes.get_errno(), "mount")


def ip(*lines, namespace=None):
    command = ["nsenter", f"--net=/proc/{namespace}/ns/net"] if namespace else []
    subprocess.run([*command, "ip", "-batch", "-"], input="\n".join(lines).encode() + b"\n", check=True)


# ---- the internet ---------------------------------------------------------------------------------------------

class Names(socketserver.BaseRequestHandler):
    """A name server: names to lists of addresses; from a list of lists each response takes the next."""
    def handle(self):
        query, sock = self.request
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += query[at] + 1
        kind, question, name = struct.unpack(">H", query[at + 1:at + 3])[0], query[12:at + 5], ".".join(labels).lower()
        self.server.tell(["dns", name, {1: "A", 28: "AAAA"}.get(kind, kind)])
        rows = self.server.names.get(name)
        if rows and isinstance(rows[0], list):
            rows = rows.pop(0) if len(rows) > 1 and kind == 28 else rows[0]  # A is queried first
        found = [socket.inet_pton(socket.AF_INET6 if ":" in a else socket.AF_INET, a) for a in rows or [] if (":" in a) == (kind == 28)]
        head = struct.pack(">2sHHHHH", query[:2], 0x8180 | (0 if rows is not None else 3), 1, len(found), 0, 0)
        sock.sendto(head + question + b"".join(struct.pack(">HHHIH", 0xc00c, kind, 1, 1, len(a)) + a for a in found), self.client_address)


class Web(socketserver.StreamRequestHandler):
    """HTTP/1.1 with kept connections: returns the requested host, and upgrades to WebSocket, or refuses to."""
    timeout = 20

    def handle(self):
        while True:
            lines = []
            while True:
                line = self.rfile.readline(70000)
                if not line:
                    return
                if line in (b"\r\n", b"\n"):
                    if lines:
                        break
                    continue
                lines.append(line.decode("latin1").rstrip())
            fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
            method, target = lines[0].split()[:2]
            body = self.read_body(fields)
            self.server.tell(["http", self.request.getsockname()[0], self.request.getsockname()[1], lines[0], fields.get("host"), len(body)])
            secrets = [line for line in lines[1:] if line.lower().startswith("x-secret")]
            if secrets:
                self.server.tell(["secrets", self.request.getsockname()[0], target, secrets])
            if "upgrade" in fields and "/yes" in target:
                self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
                while piece := self.request.recv(1000):
                    self.wfile.write(b"echo " + piece)
                return
            if method == "CONNECT":
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                while piece := self.request.recv(1000):
                    self.server.tell(["tunnel", piece.decode("latin1")])
                    self.wfile.write(b"echo " + piece)
                return
            answer = f"{fields.get('host')} {target} {len(body)}\n".encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)

    def read_body(self, fields):
        if "chunked" in fields.get("transfer-encoding", ""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            return body
        return self.rfile.read(int(fields.get("content-length", 0)))


class Secure(socketserver.BaseRequestHandler):
    def handle(self):
        named, at = [], self.request.getsockname()[0]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server.certificate)
        context.sni_callback = lambda _socket, name, _context: named.append(name)
        try:
            with context.wrap_socket(self.request, server_side=True) as tls:
                self.server.tell(["tls", at, (named or [None])[0]])
                asked = tls.recv(5000)
                if asked.startswith(b"GET"):
                    tls.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecure")
                else:
                    tls.sendall(b"secure " + asked)
        except OSError:
            self.server.tell(["tls", "broken"])


class Echo(socketserver.BaseRequestHandler):
    """Echoes everything after the end of the input."""
    def handle(self):
        self.server.tell(["echo", self.request.getsockname()[0]])
        out = bytearray()
        while piece := self.request.recv(65536):
            out += piece
        self.request.sendall(out)


class Banner(socketserver.BaseRequestHandler):
    """Sends first, like a mail server."""
    def handle(self):
        self.server.tell(["banner", self.request.getsockname()[0]])
        self.request.sendall(b"220 ready\r\n")
        while piece := self.request.recv(1000):
            self.request.sendall(b"250 " + piece)


class Source(socketserver.BaseRequestHandler):
    """Sends as many bytes as requested, in decimal."""
    def handle(self):
        left = int(self.request.recv(100))
        while left > 0:
            n = min(left, 1 << 16)
            self.request.sendall(b"x" * n)
            left -= n


class Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 512

    def handle_error(self, request, client_address):
        pass


SERVERS = {80: Web, 8080: Web, 443: Secure, 7: Echo, 25: Banner, 19: Source}


def be_internet(names, certificate, tell_fd):
    lock = threading.Lock()

    def tell(row):
        with lock:
            os.write(tell_fd, json.dumps(row).encode() + b"\n")
    for port, handler in SERVERS.items():
        server = Tcp(("0.0.0.0", port), handler)
        server.tell, server.certificate = tell, certificate
        threading.Thread(target=server.serve_forever, daemon=True).start()
    six = type("Six", (Tcp,), {"address_family": socket.AF_INET6})((ADDRESSES6[0], 80), Web)
    six.tell = tell
    threading.Thread(target=six.serve_forever, daemon=True).start()
    dns = socketserver.UDPServer((NAMES, 53), Names)  # one thread: responses in the order of requests
    dns.tell, dns.names = tell, names
    tell(["ready"])
    dns.serve_forever()


class World:
    """Moves this process into the network of a host beside the internet."""
    def __init__(self, names):
        need()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "key.pem",
                        "-out", "cert.pem", "-subj", "/CN=test", "-days", "2"], check=True, capture_output=True)
        with open("both.pem", "w") as both:
            both.write(open("key.pem").read() + open("cert.pem").read())
        with open("resolv.conf", "w") as file:
            file.write("nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
        self.lines, self.told = queue.Queue(), []
        inner, outer = socket.socketpair()
        read_fd, write_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)
                unshare(CLONE_NEWNET)
                inner.send(b"n")
                inner.recv(1)
                be_internet(names, "both.pem", write_fd)
            finally:
                os._exit(1)
        os.close(write_fd)
        outer.recv(1)
        unshare(CLONE_NEWNET)
        self.connect()
        outer.send(b"g")
        threading.Thread(target=self.read, args=(read_fd,), daemon=True).start()
        assert self.lines.get(timeout=20) == ["ready"]

    def connect(self):
        ip("link set lo up", f"link add out type veth peer name in netns {self.pid}", f"address add {HOST}/24 dev out", "address add 2606::2/64 dev out nodad",
           "link set out up", f"route add default via {ROUTER}")
        ip("link set lo up", f"address add {ROUTER}/24 dev in", "address add 2606::1/64 dev in nodad", "link set in up",
           *[f"address add {a}/32 dev lo" for a in PUBLIC + CLOSED], *[f"address add {a}/128 dev lo nodad" for a in ADDRESSES6], namespace=self.pid)
        ip("route add default via 2606::1")

    def read(self, fd):
        with os.fdopen(fd) as file:
            for line in file:
                self.lines.put(json.loads(line))

    def heard(self, wait=0.3):
        """Requests to the servers since the last call."""
        time.sleep(wait)
        rows = []
        while not self.lines.empty():
            rows.append(self.lines.get())
        return rows

    def box(self, policy, **start):
        return Box(policy, **start)


# ---- the box --------------------------------------------------------------------------------------------------

class Box:
    def __init__(self, policy, **start):
        self.ours, theirs = socket.socketpair()
        self.rows, self.answers, self.ids, self.guest = [], queue.Queue(), 0, None
        self.process = subprocess.Popen([BOX, EGRESS, str(theirs.fileno()), "resolv.conf"], pass_fds=[theirs.fileno()], stdout=subprocess.PIPE)
        theirs.close()
        self.pid = int(self.process.stdout.readline())
        threading.Thread(target=self.read, daemon=True).start()
        self.guards = self.ask("start", policy=policy, servers=start.get("servers", NAMES))

    def read(self):
        file = self.ours.makefile("rb")
        while head := file.read(8):
            length, size = struct.unpack("<II", head)
            message = json.loads(file.read(length - 4)[:size])
            if message.get("method") == "decision":
                self.rows.append(message["params"])
            elif message.get("method") != "traffic":
                self.answers.put(message)
        self.answers.put(None)

    def ask(self, method, **params):
        self.ids += 1
        text = json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}).encode()
        self.ours.sendall(struct.pack("<II", len(text) + 4, len(text)) + text)
        answer = self.answers.get(timeout=20)
        assert answer is not None, "the egress program is gone"
        if "error" in answer:
            raise ValueError(answer["error"]["message"])
        return answer["result"]

    def policy(self, policy):
        return self.ask("policy", policy=policy)

    def decisions(self, wait=0.2, **which):
        """The matching events so far."""
        time.sleep(wait)
        return [row for row in list(self.rows) if all(row.get(k) == v for k, v in which.items())]

    def command(self, *words):
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", f"--mount=/proc/{self.pid}/ns/mnt", "--wd=" + os.getcwd(),
                "setpriv", f"--reuid={GUEST}", f"--regid={GUEST}", "--clear-groups", "--bounding-set=-all", "--no-new-privs", *words]

    def start(self, code):
        return subprocess.Popen(self.command("/usr/bin/python3", "-c", PRELUDE + textwrap.dedent(code)), stdout=subprocess.PIPE, text=True)

    def run(self, code, bound=40):
        """The output of the guest's code; an expression is printed."""
        if "\n" not in code and not re.match(r"(import|for|print|while)\b", code):
            code = f"print({code})"
        if self.guest is None:
            self.guest = subprocess.Popen(self.command("/usr/bin/python3", "-c", PRELUDE + SERVE), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.guest.stdin.write(json.dumps(textwrap.dedent(code)).encode() + b"\n")
        self.guest.stdin.flush()
        ready, _, _ = select.select([self.guest.stdout], [], [], bound)
        assert ready, f"the guest's code took more than {bound} s: {code}"
        return json.loads(self.guest.stdout.readline()).strip()

    def run_program(self, *words, bound=40):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=bound)

    def close(self):
        self.ours.shutdown(socket.SHUT_RDWR)
        self.process.wait(20)
