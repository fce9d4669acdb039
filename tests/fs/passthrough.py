"""Large read-only files are read by the kernel past the server: their contents, denials, and
processes that share a file."""
import errno
import mmap
import os
import random
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled
from mounted import ALL, BUILD, MNT_DETACH, Mounted, OWNER, leave_namespace, libc, mount, write

TIMEOUT = 120
MIB = 1 << 20
SIZE = 3 * MIB + 4097
DATA = random.Random(7).randbytes(SIZE)
READ = {"default": {"read": True, "list": True, "create": False, "modify": False, "delete": False}}
FIXED = {**ALL, "modify": False, "delete": False}


def passthrough(tree=None, permissions=READ, **settings):
    m = Mounted({"large": DATA} if tree is None else tree, keeper=True, permissions=permissions, cacheSeconds=settings.pop("cacheSeconds", 0), **settings)
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 9):
        print("needs Linux 6.9", flush=True)
        raise SystemExit(77)
    return m


def counts(m):
    told = m.usage()["passthrough"]
    return told["opened"], told["refused"]


def whole(path="large"):
    with open(path, "rb", 0) as file:
        return file.read()


def attempt(function, *arguments):
    try:
        function(*arguments)
    except OSError as e:
        return errno.errorcode[e.errno]
    return "ok"


# ---- reads -------------------------------------------------------------------------------------------------

def test_every_way_to_read_gives_the_same():
    def splice():
        out, into = os.pipe()
        with open("large", "rb", 0) as file:
            n = os.splice(file.fileno(), into, 50000, offset_src=12345)
        return os.read(out, n) == DATA[12345:12345 + n] and n > 0

    def send():
        ours, theirs = socket.socketpair()
        with open("large", "rb", 0) as file:
            n = os.sendfile(ours.fileno(), file.fileno(), 100000, 30000)
        return theirs.recv(n, socket.MSG_WAITALL) == DATA[100000:100000 + n] and n > 0

    def mapped(flags):
        with open("large", "rb") as file, mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ) as view:
            return view[:] == DATA

    def copied():
        with open("large", "rb", 0) as file, open("copy", "wb+", 0) as to:
            n = os.copy_file_range(file.fileno(), to.fileno(), 200000, 4000, 0)
            return os.pread(to.fileno(), n, 0) == DATA[4000:4000 + n] and n > 0

    def pieces():
        with open("large", "rb", 0) as file:
            parts = [bytearray(1000), bytearray(5000)]
            at_end = os.lseek(file.fileno(), 0, os.SEEK_END), os.lseek(file.fileno(), 0, os.SEEK_HOLE), os.lseek(file.fileno(), 5, os.SEEK_DATA)
            return (all(os.pread(file.fileno(), 777, at) == DATA[at:at + 777] for at in (0, 4095, MIB - 1, SIZE - 10, SIZE, SIZE + 5)) and
                    os.preadv(file.fileno(), parts, 99) == 6000 and b"".join(parts) == DATA[99:6099] and at_end == (SIZE, SIZE, 5) and
                    os.fstat(file.fileno()).st_size == SIZE)

    rules = {**READ, "rules": [{"pattern": "copy", "allow": ["create"], "priority": 1}]}
    with passthrough(permissions=rules) as m:
        ways = [lambda: whole() == DATA, pieces, splice, send, copied, lambda: mapped(mmap.MAP_PRIVATE), lambda: mapped(mmap.MAP_SHARED)]
        for way in ways:
            assert m.guest(way) is True
        assert counts(m) == (len(ways), 0), counts(m)


def test_a_mapping_outlives_its_descriptor():
    with passthrough() as m:
        def work():
            with open("large", "rb") as file:
                view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            with open("large", "rb") as file:
                again = file.read()
            return view[:] == again == DATA
        assert m.guest(work)
        assert counts(m) == (2, 0)


def test_a_large_program_runs():
    python = os.path.realpath("/usr/bin/python3")

    def program(path):
        shutil.copy(python, path)
        os.chmod(path, 0o755)
    with passthrough({"program": program}) as m:
        assert os.path.getsize(python) > MIB
        assert m.guest(lambda: subprocess.run(["./program", "-c", "print(6*7)"], capture_output=True, text=True).stdout) == "42\n"
        assert counts(m)[0] >= 1 and counts(m)[1] == 0, counts(m)


def test_a_large_sparse_file():
    size = sampled(1 << 28, 1 << 30)

    def sparse(path):
        with open(path, "wb") as file:
            file.truncate(size)
            os.pwrite(file.fileno(), b"end", size - 3)
    with passthrough({"large": sparse}) as m:
        def work():
            piece, total, last = bytearray(MIB), 0, b""
            with open("large", "rb", 0) as file:
                while n := file.readinto(piece):
                    total, last = total + n, bytes(piece[n - 3:n])
            return total, last
        assert m.guest(work) == (size, b"end")
        assert counts(m) == (1, 0)


def test_the_time_of_access_stays():
    with passthrough() as m:
        path = m.lower + "/large"
        os.utime(path, (1000, 1000))
        assert m.guest(whole) == DATA and counts(m) == (1, 0)
        assert os.stat(path).st_atime == 1000


# ---- denials -----------------------------------------------------------------------------------------------

def test_denied_is_denied_and_told():
    rules = {**READ, "rules": [{"pattern": "secret", "deny": ["read"], "priority": 1}]}
    with passthrough({"large": DATA, "secret": DATA}, rules) as m:
        def work():
            with open("large", "rb") as held:
                tried = [attempt(os.open, "large", flags) for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_RDWR | os.O_DIRECT)]
                tried += [attempt(os.open, "secret", os.O_RDONLY), attempt(os.truncate, "large", 0), attempt(os.unlink, "large"),
                          attempt(os.rename, "large", "other"), attempt(os.chmod, "large", 0o777), attempt(os.link, "large", "twin")]
                tried += [attempt(mmap.mmap, held.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_WRITE), attempt(os.write, held.fileno(), b"x"),
                          attempt(os.ftruncate, held.fileno(), 0)]
                with mmap.mmap(held.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as view:
                    tried.append(attempt(view.madvise, 9))  # MADV_REMOVE: a hole
                    return tried, view[:] == DATA and held.read() == DATA
        tried, same = m.guest(work)
        assert same and tried == ["EACCES"] * 11 + ["EBADF", "EINVAL", "EACCES"], tried
        assert counts(m) == (1, 0)
        told = {(path, operation) for path, operation, _ in m.denials()}
        assert {("secret", "read"), ("large", "modify"), ("large", "delete")} <= told, told
        with open(m.lower + "/large", "rb") as file:
            assert file.read() == DATA


def test_what_may_change_is_read_the_ordinary_way():
    for right in ("modify", "delete"):
        with passthrough(permissions={"default": {**READ["default"], right: True}}) as m:
            assert m.guest(whole) == DATA and counts(m) == (0, 0), right
    for policy in ("ignore", "virtual"):
        with passthrough(onPermissionDenied=policy) as m:
            assert m.guest(whole) == DATA and counts(m) == (0, 0), policy
    with passthrough({"small": DATA[:MIB - 1], "large": DATA[:MIB]}) as m:
        assert m.guest(lambda: whole("small")) == DATA[:MIB - 1] and counts(m) == (0, 0)
        assert m.guest(whole) == DATA[:MIB] and counts(m) == (1, 0)
    with passthrough(permissions={"default": FIXED}) as m:
        assert m.guest(lambda: (write("own", "x" * 2 * MIB), len(whole("own")), os.link("large", "twin"), whole() == whole("twin") == DATA)[3])
        assert counts(m) == (0, 0), "the guest's own file, and one with two names"


def test_without_a_keeper_nothing_is_asked():
    with Mounted({"large": DATA}, permissions=READ) as m:
        assert m.guards["passthrough"] is False
        assert m.guest(whole) == DATA and counts(m) == (0, 0)
    with passthrough() as m:
        assert m.guards["passthrough"] is True


def test_a_directory_above_is_not_moved():
    with passthrough({"d/large": DATA}, {"default": ALL, "rules": [{"pattern": "d/large", "deny": ["modify", "delete"], "priority": 1}]}) as m:
        def work():
            with open("d/large", "rb") as held:
                return attempt(os.rename, "d", "e"), held.read() == DATA
        assert m.guest(work) == ("EACCES", True) and counts(m) == (1, 0)


# ---- shared files ------------------------------------------------------------------------------------------------

def test_all_opens_of_a_file_agree():
    with passthrough() as m:
        def first_directly():
            fd = os.open("large", os.O_RDONLY | os.O_DIRECT)
            page = mmap.mmap(-1, 8192)
            return os.preadv(fd, [page], 4096) == 8192 and page[:] == DATA[4096:12288] and whole() == DATA
        assert m.guest(first_directly) and counts(m) == (0, 0)
        m.settled()

        def then_directly():
            with open("large", "rb") as held:
                return held.read(1) == DATA[:1] and first_directly()
        assert m.guest(then_directly) and counts(m) == (3, 0), counts(m)
        m.settled()

        def by_place():
            place = os.open("large", os.O_PATH)
            with open(f"/proc/self/fd/{place}", "rb") as one, open("large", "rb") as other:
                return one.read() == other.read() == DATA
        assert m.guest(by_place) and counts(m) == (5, 0)


def test_many_at_once_in_both_ways():
    """O_DIRECT opens a file that is not open the ordinary way: no two ways may meet in the kernel,
    which returns EIO."""
    with passthrough() as m:
        def work():
            wrong = []

            def reader(seed):
                dice, page = random.Random(seed), mmap.mmap(-1, 8192)
                for _ in range(150):
                    try:
                        fd = os.open("large", os.O_RDONLY | dice.choice((0, 0, os.O_DIRECT)))
                        at = dice.randrange(SIZE // 8192 - 1) * 8192
                        if os.preadv(fd, [page], at) != 8192 or page[:] != DATA[at:at + 8192]:
                            wrong.append(at)
                        os.close(fd)
                    except OSError as e:
                        wrong.append(str(e))
                    if dice.random() < 0.2:
                        time.sleep(0.002)  # so that sometimes no process has it open
            threads = [threading.Thread(target=reader, args=(i,)) for i in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return wrong
        assert m.guest(work) == []
        opened, refused = counts(m)
        assert 0 < opened < 450 and refused == 0, (opened, refused)


def test_many_at_once():
    with passthrough({f"large{i}": DATA for i in range(4)}) as m:
        def work():
            wrong = []

            def reader(seed):
                dice = random.Random(seed)
                for _ in range(60):
                    with open(f"large{dice.randrange(4)}", "rb", 0) as file:
                        at = dice.randrange(SIZE)
                        if os.pread(file.fileno(), 5000, at) != DATA[at:at + 5000]:
                            wrong.append(at)
            threads = [threading.Thread(target=reader, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return wrong
        assert m.guest(work) == [] and counts(m) == (480, 0), counts(m)


def test_a_child_keeps_the_descriptor():
    with passthrough() as m:
        def work():
            file = open("large", "rb", 0)
            go, told = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(told)
                os.read(go, 1)
                os._exit(0 if os.pread(file.fileno(), SIZE, 0) == DATA else 1)
            file.close()
            with open("large", "rb") as other:
                other.read(1)
            os.close(told)
            return os.waitpid(pid, 0)[1]
        assert m.guest(work) == 0 and counts(m) == (2, 0)
        m.settled()


def test_ids_are_given_back():
    with passthrough() as m:
        def work():
            for _ in range(1500):  # more than a mount may have alive
                os.close(os.open("large", os.O_RDONLY))
        m.guest(work)
        assert counts(m) == (1500, 0), counts(m)


def test_more_files_than_ids():
    def sparse(path):
        with open(path, "wb") as file:
            file.truncate(MIB)
    with passthrough({f"f{i}": sparse for i in range(1040)}, limits={"openFiles": 2000}) as m:
        def work():
            resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
            files = [open(f"f{i}", "rb", 0) for i in range(1040)]
            return {file.read(10) for file in files}
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
        assert m.guest(work, timeout=90) == {bytes(10)}
        assert counts(m) == (1024, 16), counts(m)


# ---- the host ----------------------------------------------------------------------------------------------------

def host_does(m, work, change, prepare=lambda held: held):
    """A guest with the file open: work(its prepared state) after the host has made its change."""
    go, told = os.pipe()
    begun, begins = os.pipe()

    def guest():
        with open("large", "rb", 0) as held:
            first, prepared = os.pread(held.fileno(), 10, 0), prepare(held)
            os.write(begins, b"x")
            os.read(go, 1)
            return first == DATA[:10], work(prepared)
    running = m.begin(guest)
    os.read(begun, 1)
    change(m.lower + "/large")
    os.write(told, b"x")
    fine, result = m.finish(running)
    assert fine
    return result


def replace(path, data=b"new" * MIB):
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.chown(path + ".new", OWNER, OWNER)
    os.rename(path + ".new", path)


def test_the_host_truncates_it():
    with passthrough() as m:
        def work(held):
            return os.pread(held.fileno(), 100, 0), whole(), os.stat("large").st_size
        assert host_does(m, work, lambda path: os.truncate(path, 5)) == (DATA[:5], DATA[:5], 5)
        assert counts(m) == (2, 0), "the same file, however long it is"


def test_what_the_host_cut_off_a_mapping_is_a_signal():
    with passthrough() as m:
        def mapped(held):
            return mmap.mmap(held.fileno(), SIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)

        def work(view):
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGBUS, signal.SIG_DFL)
                os._exit(view[2 * MIB])
            return view[:5] == DATA[:5], os.WTERMSIG(os.waitpid(pid, 0)[1])
        assert host_does(m, work, lambda path: os.truncate(path, 5), mapped) == (True, signal.SIGBUS)


def test_the_host_writes_into_it():
    def change(path):
        with open(path, "r+b", 0) as file:
            file.write(b"CHANGED")
            file.seek(0, 2)
            file.write(b"more")
    with passthrough() as m:
        def work(held):
            return os.pread(held.fileno(), 7, 0), whole()[:7], whole()[-4:]
        assert host_does(m, work, change) == (b"CHANGED", b"CHANGED", b"more")
        assert counts(m)[1] == 0


def test_the_host_replaces_it():
    for seconds in (0, 10):  # with names cached by the kernel, too
        with passthrough(cacheSeconds=seconds) as m:
            def work(held):
                return os.pread(held.fileno(), SIZE, 0) == DATA, whole(), os.fstat(held.fileno()).st_size, os.stat("large").st_size
            assert host_does(m, work, replace) == (True, b"new" * MIB, SIZE, 3 * MIB), seconds
            assert counts(m) == (2, 0), "each is read by the kernel"
            assert m.guest(whole) == b"new" * MIB


def test_the_host_replaces_it_by_a_small_file_again_and_again():
    with passthrough() as m:
        def work(held):
            return os.pread(held.fileno(), SIZE, 0) == DATA, whole(), attempt(os.open, f"/proc/self/fd/{held.fileno()}", os.O_RDONLY)
        assert host_does(m, work, lambda path: (replace(path), replace(path, b"tiny"))) == (True, b"tiny", "ESTALE")
        assert counts(m) == (1, 0)


def test_the_host_deletes_it():
    with passthrough() as m:
        def work(held):
            return os.pread(held.fileno(), SIZE, 0) == DATA, attempt(os.open, "large", os.O_RDONLY), os.fstat(held.fileno()).st_size
        assert host_does(m, work, os.unlink) == (True, "ENOENT", SIZE)


def test_a_keeper_that_goes_takes_nothing_along():
    with passthrough() as m:
        def work(held):
            return os.pread(held.fileno(), SIZE, 0) == DATA, whole() == DATA, whole("other") == DATA
        m.make({"other": DATA})

        def end(_):
            m.keeper.kill()
            m.keeper.wait()
        assert host_does(m, work, end) == (True, True, True)
        m.settled()
        assert m.guest(whole) == DATA
        opened, refused = counts(m)
        assert opened == 2 and refused == 1, (opened, refused)


# ---- a server that lies --------------------------------------------------------------------------------------------

class Liar:
    """A server that lets the kernel read every opened file by itself: a mount of one file, `large`."""

    def __init__(self, at, file_fd):
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        mount("liar", at, "fuse", 6, f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0,allow_other")
        self.file_fd, self.id, self.result = file_fd, 0, None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.keeper = subprocess.Popen([os.path.join(BUILD, "tests", "passthrough-keeper"), str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()
        self.way = ours
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def answer(self, unique, data=b"", error=0):
        os.write(self.fuse, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)

    def attributes(self, node):
        kind, size = (stat.S_IFDIR | 0o777, 0) if node == 1 else (stat.S_IFREG | 0o666, SIZE)
        return struct.pack("<6Q10I", node, size, 0, 0, 0, 0, 0, 0, 0, kind, 1, 0, 0, 0, 4096, 0)

    def ask(self):
        socket.send_fds(self.way, [struct.pack("<IiII", 0, 0, 1, 0)], [self.fuse, self.file_fd])
        return struct.unpack("<Ii", self.way.recv(8))[1]

    def serve(self):
        while True:
            try:
                request = os.read(self.fuse, 1 << 20)
            except OSError:
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if opcode == 26:  # INIT
                self.answer(unique, struct.pack("<IIIIHHIIHHII6I", 7, 40, 65536, 1 << 30, 16, 12, 1 << 16, 1, 0, 0, 1 << 5, 1, *[0] * 6))
            elif opcode == 1:  # LOOKUP
                self.answer(unique, struct.pack("<4Q2I", 2, 0, 0, 0, 0, 0) + self.attributes(2))
            elif opcode == 3:  # GETATTR
                self.answer(unique, struct.pack("<QII", 0, 0, 0) + self.attributes(node))
            elif opcode == 14:  # OPEN
                self.id = self.id or self.ask()
                if self.id < 0:
                    self.answer(unique, error=-self.id)
                else:
                    self.answer(unique, struct.pack("<QIi", 0, 1 << 7, self.id))
            elif opcode not in (2, 42):  # FORGET has no response
                self.answer(unique, error=errno.ENOSYS if opcode != 18 else 0)

    def close(self):
        self.keeper.kill()
        self.keeper.wait()


def test_a_server_that_lies_cannot_have_the_host_written():
    leave_namespace()
    for name in ("at", "lower"):
        os.mkdir(name)
    path = os.path.abspath("lower/large")
    with open(path, "wb") as file:
        file.write(DATA)
    os.chmod(path, 0o666)
    file_fd = os.open(path, os.O_RDONLY)
    liar = Liar(os.path.abspath("at"), file_fd)
    go, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        reader = attempt(lambda: (lambda data: data == DATA or os._exit(3))(whole("at/large")))
        writers = [attempt(os.open, "at/large", flags) for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND, os.O_RDWR | os.O_DIRECT)]
        os.write(told, repr((reader, writers)).encode())
        os._exit(0)
    try:
        os.close(told)
        result = os.read(go, 1000)
        status = os.waitpid(pid, 0)[1]
        assert status == 0, status
        assert eval(result) == ("ok", ["EIO"] * 4), result
        with open(path, "rb") as file:
            assert file.read() == DATA
    finally:
        liar.close()
        libc.umount2(os.path.abspath("at").encode(), MNT_DETACH)
