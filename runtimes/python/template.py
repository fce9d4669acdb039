"""Templates: prewarmed, frozen, forked into boxes (src/box/join/guest.h). Loaded only in a process that is to be one."""
import _socket
import ctypes
import gc
import os
import sys

channels, wire = part("channel"), part("wire")

LIBRARY = FOLDER + "/libcloche-guest.so"
WARM = ("asyncio", "base64", "bisect", "collections", "collections.abc", "contextlib", "copy", "csv", "dataclasses", "datetime",
        "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "html", "inspect", "io", "itertools", "json", "linecache",
        "math", "operator", "pathlib", "random", "re", "statistics", "string", "struct", "tempfile", "textwrap", "threading",
        "time", "traceback", "types", "typing", "urllib.parse", "uuid")
TEXT_SIZE = 1024
fork, listdir = os.fork, os.listdir
# After so many forks a template gets huge pages of its own, which cost a prefix 10 MB and save 1.5
# ms of processor time a run.
FORKS_OF_A_BUSY_ONE = 32


class Arenas(ctypes.Structure):
    """PyObjectArenaAllocator (C API, memory management)."""
    _fields_ = [("ctx", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p)]


class Rehearsed(channels["Channel"]):
    """A channel to itself, for the calls of a rehearsal: what reads and writes is rehearsed too."""

    def __init__(self):
        self.fd, self.other = (end.detach() for end in _socket.socketpair())
        self.pid, self.socket = os.getpid(), channels["identity"](self.fd)

    def passed(self, text):
        """The frame of this text, as it arrives."""
        os.write(self.other, wire["frame_head"](len(text), 0) + text)
        return self.read()

    def send(self, *frame):
        super().send(*frame)
        os.read(self.other, TEXT_SIZE)

    def done(self):
        os.close(self.fd)
        os.close(self.other)


class Template:
    may_fork = True
    forks = 0  # forks of a context

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.cloche_guest_collapse.restype = ctypes.c_long
        self.warmed = {}
        self.allocate_huge()
        started = self.library.cloche_guest_start()
        if started != 1:
            raise OSError(-started, "cannot become a template")

    def allocate_huge(self):
        """New objects lie on huge pages: a fork then copies tables of some pages instead of thousands."""
        self.arenas = Arenas(None, ctypes.cast(self.library.cloche_guest_arena_alloc, ctypes.c_void_p),
                             ctypes.cast(self.library.cloche_guest_arena_free, ctypes.c_void_p))
        ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(self.arenas))

    def warm_up(self):
        """Prewarm: import modules that most code imports, and the agent's own rarely used parts."""
        before = set(sys.modules)
        for name in WARM:
            try:
                __import__(name)
            except ImportError:
                continue  # stripped from the image
        for name in ("evident", "errors"):
            part(name)
        self.warmed = {name: sys.modules[name] for name in set(sys.modules) - before if "." not in name}

    def freeze(self, channel):
        """Return None, or the fork blocker."""
        text = ctypes.create_string_buffer(TEXT_SIZE)
        flush()
        self.tell_of_modules()
        gc.collect()
        if self.library.cloche_guest_freeze(channel.fd, text, TEXT_SIZE) != 0:
            return text.value.decode(errors="replace")
        gc.freeze()
        self.library.cloche_guest_collapse(0)
        return None

    def tell_of_modules(self):
        """A fork must not mix these with changed files of the same modules."""
        for module in list(sys.modules.values()):
            for path in (getattr(module, "__file__", None), getattr(module, "__cached__", None)):
                if type(path) is str:
                    self.library.cloche_guest_loaded(os.fsencode(path))

    def children(self, channel):
        """Returns in a child only: True if the child may itself become a template."""
        library, forks = self.library, 0
        channel.rest()
        while library.cloche_guest_wait() == 1:
            try:
                pid = os.fork()
            except OSError as error:
                pid = -error.errno
            if pid == 0:
                is_template = library.cloche_guest_child() == 1
                self.renew()
                return is_template
            library.cloche_guest_parent(pid)
            forks += 1
            if forks == FORKS_OF_A_BUSY_ONE:
                library.cloche_guest_collapse(1)
        os._exit(0)

    # ---- a context that may be forked, between its cells ----

    def look(self, channel):
        """Return None, or the fork blocker. A library's threads that end around a fork are ended by one."""
        text = ctypes.create_string_buffer(TEXT_SIZE)
        if len(listdir("/proc/self/task")) > len(sys._current_frames()):
            pid = fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        if self.library.cloche_guest_freeze(channel.fd, text, TEXT_SIZE) == 0:
            return None
        return text.value.decode(errors="replace")

    def stand(self, channel):
        """Forks on demand until the next request arrives. True in a child."""
        library, fd = self.library, channel.fd
        channel.rest()
        while library.cloche_guest_wait_for(fd) == 1:
            try:
                pid = fork()
            except OSError as error:
                pid = -error.errno
            if pid == 0:
                self.may_fork = library.cloche_guest_child() == 1
                self.forks = 0
                self.renew()
                return True
            library.cloche_guest_parent(pid)
            self.forks += 1
        channel.fd = fd
        return False

    def wait_idle(self, channel, lock):
        """Waits for a request. Children that end meanwhile are reaped: their boxes stay until then."""
        library = self.library
        while library.cloche_guest_idle(channel.fd) == 0:
            with lock:
                library.cloche_guest_reap()

    def reap(self, lock):
        with lock:
            self.library.cloche_guest_reap()

    def renew(self):
        """Renew state that siblings must not share. `random` reseeds itself after a fork; hashes of
        strings cannot be changed in a living interpreter, and dictionaries rely on them."""
        modules = sys.modules
        sys.path_importer_cache.pop(os.getcwd(), None)
        if "tempfile" in modules:
            modules["tempfile"]._name_sequence = None
        if "uuid" in modules:
            modules["uuid"]._node = modules["uuid"]._last_timestamp = None
        if "numpy.random" in modules:
            modules["numpy.random"].seed()
        if "multiprocessing.process" in modules:
            modules["multiprocessing.process"].current_process().authkey = os.urandom(32)

    def give_way(self):
        """Unload prewarmed modules that a user's file of the same name replaces, as in a plain interpreter."""
        try:
            names = {name.partition(".")[0] for name in os.listdir()}
        except OSError:
            return
        for name in names & self.warmed.keys():
            if sys.modules.get(name) is self.warmed[name]:
                for known in [known for known in sys.modules if known == name or known.startswith(name + ".")]:
                    del sys.modules[known]


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue

