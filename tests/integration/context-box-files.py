"""Boxes beneath a template that share a sandbox's files: shared parts, separate parts, and their ends."""
from keeper_boxes import Keeper, refusal
from cloche import ORDINARY_USER, equal, need_ordinary_user

OWNERS = "import os; print(*sorted({(os.stat(f).st_uid, os.stat(f).st_gid) for f in ('/workspace/theirs', '/workspace/mine')}))"


def files_are_one(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        sandbox.said("echo from the sandbox > /workspace/theirs")
        context = sandbox.context(template)
        equal(context.ran("""
import os
print(secret, open('/workspace/theirs').read().strip())
open('/workspace/theirs', 'a').write('changed\\n')
open('/workspace/mine', 'w').write('from the context\\n')
for place in ('/tmp', '/home/cloche', '/dev/shm'): open(place + '/here', 'w').write(place)
os.mkdir('/workspace/folder')
open('/workspace/run', 'w').write('#!/bin/sh\\necho ran\\n')
os.chmod('/workspace/run', 0o755)
"""), "of the template from the sandbox\n")
        equal(sandbox.said("cat /workspace/theirs /workspace/mine /tmp/here /home/cloche/here /dev/shm/here"),
              "from the sandbox\nchanged\nfrom the context\n/tmp/home/cloche/dev/shm")
        equal(sandbox.said("echo again >> /workspace/mine; ./run; rmdir folder; rm theirs; stat -c '%u %g' mine"), "ran\n1000 1000\n")
        equal(context.ran("import os; print(open('/workspace/mine').read(), os.listdir('/workspace'))").split("\n")[1:], ["again", " ['run', 'mine']", ""])
        sandbox.said("touch /workspace/theirs")
        equal(context.ran(OWNERS), "(1000, 1000)\n")
        # A file that is open on both sides is one.
        sandbox.said("echo before > /workspace/open")
        waits = context.forked("import time\nf = open('/workspace/open')\nprint(f.read(), flush=True)\n"
                               "while not f.seek(0) and 'after' not in f.read(): time.sleep(0.01)\nprint('seen')")
        waits.read("before")
        sandbox.said("echo after > /workspace/open")
        waits.read("seen")
        # The twin: a box beneath the template that shares with none has none of it.
        equal(keeper.box(parent=template.name).ran("import os; print(os.listdir('/workspace'), os.listdir('/tmp'))"), "[] []\n")


def test_files_are_one():
    files_are_one()


def test_files_are_one_without_privilege():
    need_ordinary_user()
    files_are_one(*ORDINARY_USER)


def test_the_quota_is_one():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox(limits={"diskBytes": 4 << 20, "diskInodes": 100})
        context = sandbox.context(template, limits={"diskBytes": 1 << 30})
        fill = "import errno, os\ntry: open('/tmp/more', 'wb').write(bytes(3 << 20)); print('written')\nexcept OSError as e: print(errno.errorcode[e.errno])"
        sandbox.said("head -c 3M /dev/zero > /workspace/much")
        equal(context.ran(fill), "ENOSPC\n")
        sandbox.said("rm /workspace/much")
        equal(context.ran(fill), "written\n")
        assert "No space" in sandbox.said("head -c 3M /dev/zero 2>&1 > /dev/shm/much || true; echo $(head -c 3M /dev/zero > /dev/shm/much2) 2>&1")


def test_memory_and_processes_are_the_sandboxes():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox(limits={"memoryBytes": 96 << 20, "pids": 30})
        context = sandbox.context(template, limits={"memoryBytes": 1 << 40, "pids": 1000})
        eats = context.forked("print('up', flush=True)\nb = bytearray(300 << 20)\nprint('has it all')")
        equal(eats.read(), "up\n")
        assert sandbox.ask("usage")["oomKills"] >= 1
        equal(sandbox.said("echo lives"), "lives\n")
        equal(context.ran("print(len(bytearray(20 << 20)))"), f"{20 << 20}\n")
        crowd = """
import errno, os, signal, time
pids = []
try:
    while len(pids) < 200:
        pid = os.fork()
        if pid == 0: time.sleep(1000)
        pids.append(pid)
    print('all')
except OSError as e: print(errno.errorcode[e.errno], len(pids) < 30)
for pid in pids: os.kill(pid, signal.SIGKILL)
"""
        equal(context.ran(crowd), "EAGAIN True\n")
        assert sandbox.ask("usage")["pidsRefused"] >= 1
        # The template is in other groups, and its next child in one without contention.
        equal(keeper.box(parent=template.name).ran(crowd), "all\n")
        equal(refusal(context.ask, "limit", limits={"pids": 50}).code, "invalid_argument")


def test_who_is_frozen_holds_nobody():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        sandbox.freeze()
        context = sandbox.context(template)
        refused = refusal(context.ask, "fork")
        equal(refused.code, "invalid_state")
        assert "on its way into the groups" in refused.message, refused
        equal(keeper.box(parent=template.name).ran("print('other')"), "other\n")
        sandbox.freeze(thaws=True)
        equal(context.ran("print('thawed')"), "thawed\n")
        # As does a crowd that leaves others no processor.
        sandbox.ask("limit", limits={"cpuPercent": 5, "pids": 200})
        sandbox.python("import os\nprint('up', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass").read("up")
        late = sandbox.context(template)
        equal(keeper.box(parent=template.name).ran("print('other')"), "other\n")
        late.drop()


def test_a_frozen_sandbox_is_dropped_with_its_contexts():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        there = sandbox.context(template)
        stays = there.forked("import time\nprint('up', flush=True)\ntime.sleep(1000)")
        stays.read("up")
        sandbox.freeze()
        on_its_way = sandbox.context(template)
        sandbox.drop()
        equal(stays.read(), "")
        for context in [there, on_its_way]:
            context.ask("dead")
            context.drop()
        equal(keeper.box(parent=template.name).ran("print('lives')"), "lives\n")


def own_network(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        sandbox.python("import socket, time\ns = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen(); print('up', flush=True); time.sleep(1000)").read("up")
        context = sandbox.context(template)
        equal(context.ran("import errno, socket\ntry: socket.create_connection(('127.0.0.1', 8000))\nexcept OSError as e: print(errno.errorcode[e.errno])"),
              "ECONNREFUSED\n")
        listens = context.forked("import socket\ns = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen(); print('up', flush=True)\n"
                                 "s.accept()[0].sendall(b'from the context')")
        listens.read("up")
        equal(context.ask("connect", port=8000, data="?")["data"], "from the context")
        equal(listens.read(), "")
        # It can be given an egress program of its own; only boxes with a network of their own can.
        context.ask("serve")
        equal(sorted(port for port, _ in context.ports()), [1, 53])
        equal([port for port, _ in sandbox.ports()], [8000])
        assert "served already" in refusal(context.ask, "serve").message
        for other in [keeper.box(parent=template.name), sandbox.share(), keeper.box()]:
            equal(refusal(other.ask, "serve").code, "invalid_state")
        sandbox.ask("serve")
        context.drop()
        sandbox.drop()


def test_its_network_is_its_own():
    own_network()


def test_its_network_is_its_own_without_privilege():
    need_ordinary_user()
    own_network(*ORDINARY_USER)


def ends(*before):
    with Keeper(*before) as keeper:
        template, sandbox, other = keeper.template(), keeper.sandbox(), keeper.sandbox()
        context, beside, elsewhere = sandbox.context(template), sandbox.context(template), other.context(template)
        stays = context.forked("import time\nprint('up', flush=True)\ntime.sleep(1000)")
        stays.read("up")
        beside.drop()
        sandbox.drop()
        equal(stays.read(), "")
        context.ask("dead")
        equal(refusal(context.ask, "usage").code, "invalid_state")
        context.drop()
        # The template lives, the other sandbox does, and its context ends with the template alone.
        equal(elsewhere.ran("open('/workspace/left', 'w').write('left'); print('lives')"), "lives\n")
        stays = elsewhere.forked("import time\nprint('up', flush=True)\ntime.sleep(1000)")
        stays.read("up")
        template.ask("drop-later")
        equal(stays.read(), "")
        elsewhere.ask("dead")
        equal(refusal(elsewhere.ask, "fork").code, "invalid_state")
        elsewhere.drop()
        equal(other.said("cat /workspace/left"), "left")
        equal(other.context(keeper.template()).ran("print(open('/workspace/left').read())"), "left\n")


def test_it_ends_with_either():
    ends()


def test_it_ends_with_either_without_privilege():
    need_ordinary_user()
    ends(*ORDINARY_USER)


def test_what_cannot_be():
    with Keeper() as keeper:
        template, sandbox, plain = keeper.template(), keeper.sandbox(), keeper.box()
        context, gone = sandbox.context(template), keeper.sandbox()
        gone.drop()
        for shared_id in [plain.id, context.id, template.id, gone.id, 4000, 1 << 20]:
            equal(refusal(keeper.box, parent=template.name, shared_id=shared_id).code, "invalid_state")
        equal(refusal(keeper.box, parent=plain.name, shared=sandbox.name).code, "invalid_state")
        equal(refusal(keeper.box, shared=sandbox.name, template=True).code, "invalid_argument")
        equal(refusal(keeper.box, parent=template.name, shared=sandbox.name, sandbox=True).code, "invalid_argument")
        equal(refusal(keeper.box, parent=template.name, shared=sandbox.name, mount="/workspace/m").code, "invalid_argument")
        equal(refusal(keeper.box, parent=context.name, shared=sandbox.name).code, "invalid_state")
        mounted = keeper.sandbox(mount="/workspace/m")
        keeper.box(parent=template.name, shared=mounted.name).drop()
        mounted.share().drop()
        equal(context.ran("print('lives')"), "lives\n")
