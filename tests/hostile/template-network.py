"""Each order to fork brings a template the namespaces of the box beneath it. Code of the template that joins the user namespace has every capability there.
The capabilities must reach nothing of the kernel's network code, and nothing else that decision 0018 lists as closed."""
import importlib.util
import json
import os
import signal

import int80
from keeper_boxes import Keeper
from warm import Warm
from cloche import ORDINARY_USER, equal, need_ordinary_user


def load(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


rights, nested = load("template-rights"), load("nested-helpers")
OTHER_USER = 0x70000007  # a host user of another box: templates have all of them in their maps

ATTACK = rights.SYSCALLS + """
import json, socket, struct
def attribute(kind, data): return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)
def netlink(kind, body):
    fd = call(41, 16, 3, 0)
    if fd < 0: return fd
    with socket.socket(fileno=fd) as s:
        s.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)  # NLM_F_REQUEST, ACK, CREATE, EXCL
        return struct.unpack_from("i", s.recv(4096), 16)[0]
def new_link(kind): return netlink(16, bytes(16) + attribute(18, attribute(1, kind)))  # RTM_NEWLINK, IFLA_LINKINFO, IFLA_INFO_KIND
def control(request, data): return call(16, inet, request, ctypes.create_string_buffer(data, 128))
def option(number, level, name, kind=1):
    fd = call(41, 10 if level == 41 else 2, kind, 0)
    try: return call(number, fd, level, name, ctypes.create_string_buffer(128), 4 if number == 54 else ctypes.byref(ctypes.c_int(128)))
    finally: os.close(fd)
"""
# Attacks on the network: refused by the kernel where the namespace is owned from above, by the filter where it is not.
NETWORK = {
    "bridge by ioctl": "control(0x89a0, b'br0')", "flags of lo": "control(0x8914, b'lo' + bytes(14))", "address of lo": "control(0x8916, b'lo' + bytes(126))",
    "route by ioctl": "control(0x890b, bytes(120))", "ethtool": "control(0x8946, b'lo' + bytes(126))", "bridges": "control(0x8940, bytes(64))",
    "private request": "control(0x89f1, b'lo' + bytes(126))", "wireless": "control(0x8b00, b'lo' + bytes(126))", "network of a socket": "control(0x894c, b'')",
    "ifb": "new_link(b'ifb')", "veth": "new_link(b'veth')", "bridge by netlink": "new_link(b'bridge')", "dummy": "new_link(b'dummy')",
    "qdisc": "netlink(36, struct.pack('BxxxiIII', 0, 1, 0, 0xffffffff, 0) + attribute(1, b'pfifo\\0'))",
    "address by netlink": "netlink(20, struct.pack('BBBBI', 2, 32, 0, 0, 1) + attribute(2, bytes([10, 0, 0, 1])))",
    "netfilter by netlink": "call(41, 16, 3, 12)", "xfrm": "call(41, 16, 3, 6)", "generic netlink": "call(41, 16, 3, 16)",
    "raw socket": "call(41, 2, 3, 1)", "raw socket of IPv6": "call(41, 10, 3, 58)", "packet socket": "call(41, 17, 3, 0)", "socket of XDP": "call(41, 44, 3, 0)",
    "iptables: replace": "option(54, 0, 64)", "iptables: info": "option(55, 0, 64)", "ip6tables: info": "option(55, 41, 64)", "arptables: info": "option(55, 0, 96)",
    "ebtables: info": "option(55, 0, 128)", "IPVS": "option(55, 0, 1153)", "policy of IPsec": "option(54, 0, 17)", "mark": "option(54, 1, 36)", "device": "option(54, 1, 25)",
    "transparent": "option(54, 0, 19)", "hop options": "option(54, 41, 54)", "flow labels": "option(54, 41, 32)", "repair": "option(54, 6, 19)", "multicast routes": "option(54, 0, 200)",
    "group": "option(54, 0, 35)", "group of IPv6": "option(54, 41, 20)", "group of either": "option(54, 0, 42)", "group of either, by IPv6": "option(54, 41, 42)",
}
REST = {
    **{name: attack for name, attack in rights.ATTACKS.items() if name != "take back a dropped capability"},
    **{f"call {number}": f"call({number}, 0, 0, 0, 0, 0, 0)" for number in (
        171, 167, 168, 169, 103, 163, 179, 443, 246, 320, 175, 313, 248, 249, 323, 300, 301, 310, 311, 312, 438, 256, 279, 425, 426, 427, 431, 432, 433, 435, 154, 159, 305)},
    "clone with a network": "call(56, 0x40000000 | 17, 0, 0, 0, 0)", "unshare a network": "call(272, 0x40000000)", "owner of a namespace": "call(16, here, 0xb701)",
    "namespace above": "call(16, here, 0xb702)", "freezing a file system": "call(16, files, 0xc0045877, 0)", "listener of calls": "call(317, 1, 8, allow_all)",
    "another user": f"call(117, {OTHER_USER}, {OTHER_USER}, {OTHER_USER})", "another user by setuid": f"call(105, {OTHER_USER})", "another group": f"call(119, -1, {OTHER_USER}, -1)",
    "another user for files": f"call(122, {OTHER_USER})", "groups": "call(116, 0, 0)", "a file for another": f"call(93, own, {OTHER_USER}, -1)",
}
# The twin: everyday code, with the same rights.
PERMITTED = {
    "stream": "option(54, 1, 2)", "datagram": "option(54, 1, 9, 2)", "IPv6 alone": "option(54, 41, 26)", "without delay": "option(54, 6, 1)", "kind of a socket": "option(55, 1, 3)",
    "interface": "control(0x8933, b'lo' + bytes(14))", "flags": "control(0x8913, b'lo' + bytes(14))", "to read": "call(16, inet, 0x541b, ctypes.byref(ctypes.c_int()))",
    "own user": "call(117, 1000, 1000, -1)", "own file": "call(93, own, 1000, -1)", "filter": "call(317, 1, 0, allow_all)", "nobody new": "call(117, -1, -1, -1)",
}
ANSWERS = """
own_ids = [call(119, 1000, 1000, 1000), call(117, 1000, 1000, 1000)]
step = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000), 8)  # BPF_RET | BPF_K: SECCOMP_RET_ALLOW
allow_all = ctypes.byref((ctypes.c_uint64 * 2)(1, ctypes.addressof(step)))
here, files, inet, own = os.open('/proc/self/ns/user', 0), os.open('/tmp', 0), call(41, 2, 2, 0), os.memfd_create('own')
"""
TRY_ALL = ANSWERS + "answers = {" + ", ".join(f"{name!r}: {attack}" for name, attack in {**NETWORK, **REST, **PERMITTED}.items()) + "}\n"
# In the set-up code: at the first fork, a process of its own goes into the box that was made for the run.
SETUP = ATTACK + """
KINDS = ["net", "user", "mnt", "ipc", "uts"]
FOUND = []
def others(kind):
    own = os.readlink('/proc/self/ns/' + kind)
    for name in os.listdir('/proc/self/fd'):
        try: target = os.readlink('/proc/self/fd/' + name)
        except OSError: continue
        if target.startswith(kind + ':') and target != own: return int(name)
def attack(out):
    fds = [others(kind) for kind in KINDS]
    joined = [call(308, fd, 0) for fd in fds]
    exec(TRY_ALL, globals())
    os.write(out, json.dumps([joined, status('CapEff'), answers]).encode())
def steal():
    if FOUND or others("user") is None: return
    back, out = os.pipe()
    pid = libc.syscall(57)
    if pid == 0:
        try: attack(out)
        except BaseException as e: os.write(out, json.dumps(repr(e)).encode())
        os._exit(0)
    os.close(out)
    FOUND.append(json.loads(os.read(back, 100000)))
    os.close(back)
    os.waitpid(pid, 0)
os.register_at_fork(before=steal)
""" + f"TRY_ALL = {TRY_ALL!r}\n"


def check(found, *, joined):
    assert isinstance(found, list), found
    equal(found[0], [0] * joined)
    assert int(found[1], 16) >> 21 & 0x1003 and bin(int(found[1], 16)).count("1") > 30, f"the attack must be written anew: {found[1]}"
    answers = found[2]
    if answers["mknod of a device"] == -75:  # EOVERFLOW comes first where the file system does not know the user
        del answers["mknod of a device"]
    held = {name: answers[name] for name in {**NETWORK, **REST} if answers.get(name, -1) not in (-1, -38)}
    assert not held, f"reached: {held}"
    refused = {name: answers[name] for name in PERMITTED if answers[name] < 0}
    assert not refused, f"refused: {refused}"


def test_the_set_up_code_reaches_nothing_in_the_box_of_a_run():
    with Warm(setup=SETUP) as warm:
        warm.value("1")
        check(warm.value("FOUND")[0], joined=5)


OTHER_NUMBERS = ATTACK + """
import mmap
def ended(act):
    pid = libc.syscall(57)
    if pid == 0:
        act()
        os._exit(0)
    return os.waitpid(pid, 0)[1]
def machine(code):
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(area)))()
ioctl = b"\\xb8\\x36\\x00\\x00\\x00"  # mov eax, 54
ENDED = [ended(lambda: call(0x40000000 | 514, 0, 0x8914, 0)), ended(lambda: machine(ioctl + b"\\xcd\\x80\\xc3")), ended(lambda: call(39))]
"""


def test_numbers_of_other_architectures_kill():
    """x32 has an ioctl(2) of its own, i386 has it by int 0x80: the rules by argument do not see them. The twin is a native call."""
    with Warm(setup=OTHER_NUMBERS) as warm:
        equal([status & 127 for status in warm.value("ENDED")], [signal.SIGSYS, int80.signal_in_a_box(), 0])


# In a process of a context: it has the user namespace of its fork, and searches for networks beneath that.
IN_PROCESS = ATTACK + f"TRY_ALL = {TRY_ALL!r}\n" + """
def networks():
    own = os.readlink('/proc/self/ns/net')
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try: fd = os.open(f'/proc/{pid}/ns/net', 0)
        except OSError: continue
        if os.readlink(f'/proc/self/fd/{fd}') != own: yield fd
back, out = os.pipe()
pid = os.fork()
if pid == 0:
    try:
        joined = [call(308, stolen[-1], 0)]
        joined.append(max(call(308, fd, 0x40000000) for fd in list(networks())))
        exec(TRY_ALL, globals())
        os.write(out, json.dumps([joined, status('CapEff'), answers]).encode())
    except BaseException as e: os.write(out, json.dumps(repr(e)).encode())
    os._exit(0)
os.close(out)
print(os.read(back, 100000).decode())
os.close(back)
os.waitpid(pid, 0)
"""


def a_context_reaches_nothing(*before):
    with Keeper(*before) as keeper:
        it = nested.walls.Forkable(keeper)
        it.context.run(nested.STEAL)
        box = keeper.box(parent=it.box.name, template=True)
        fork = it.fork(box)
        fork.run("is_thief = False\nfor fd in stolen: os.close(fd)")
        beneath = fork.fork(keeper.box(parent=box.name))
        equal(beneath.run("print('lives')"), "lives\n")
        check(json.loads(it.context.run(IN_PROCESS)), joined=2)
        equal(beneath.run("print('lives')"), "lives\n")


def test_a_context_reaches_nothing_beneath_its_fork():
    a_context_reaches_nothing()


def test_a_context_reaches_nothing_beneath_its_fork_without_privilege():
    need_ordinary_user()
    a_context_reaches_nothing(*ORDINARY_USER)


EVERY_DAY = {
    "python": ("import socket, os, ctypes, threading", """
def main():
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(b"x")
    six = socket.create_server(("::1", 0), family=socket.AF_INET6)
    one, other = socket.socketpair()
    one.send(b"y")
    names = {a[4][0] for a in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)}
    return [server.accept()[0].recv(1).decode(), other.recv(1).decode(), "127.0.0.1" in names, [n for _, n in socket.if_nameindex()], socket.if_nametoindex("lo") > 0]
""", ["x", "y", True, ["lo"], True]),
    "javascript": ("", """
async function main() {
  const net = require("net"), dns = require("dns/promises"), os = require("os");
  const server = net.createServer(s => s.end("x"));
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  const heard = await new Promise((done, fail) => net.connect(server.address().port, "127.0.0.1").setNoDelay().on("data", d => done(String(d))).on("error", fail));
  server.close();
  return [heard, (await dns.lookup("localhost", { all: true })).some(a => a.address === "127.0.0.1"), Object.keys(os.networkInterfaces())];
}
""", ["x", True, ["lo"]]),
    "ruby": ("require 'socket'", """
def main
  server = TCPServer.new("127.0.0.1", 0)
  client = TCPSocket.new("localhost", server.addr[1])
  client.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
  client.write("x")
  client.close
  one, other = UNIXSocket.pair
  one.write("y")
  [*[server.accept.read, other.recv(1)].map { |s| s.force_encoding("UTF-8") }, Socket.getifaddrs.map { |i| i.name.encode("UTF-8") }.uniq]
end
""", ["x", "y", ["lo"]]),
}


def every_day(language):
    setup, code, expected = EVERY_DAY[language]
    with Warm(language, setup=setup) as warm:
        for _ in range(2):
            result = warm.run(code, function="main")
            assert result.status == "success", result
            equal(result.value, expected)


def test_sockets_and_names_in_python():
    every_day("python")


def test_sockets_and_names_in_javascript():
    every_day("javascript")


def test_sockets_and_names_in_ruby():
    every_day("ruby")
