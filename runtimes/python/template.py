"""Being a template: warm, frozen, forked into boxes (src/box/join/guest.h). Loaded only in a process that is to be one."""
import ctypes
import gc
import os
import sys

LIBRARY = FOLDER + "/libcloche-guest.so"
WARM = ("asyncio", "base64", "bisect", "collections", "collections.abc", "contextlib", "copy", "csv", "dataclasses", "datetime",
        "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "html", "inspect", "io", "itertools", "json", "linecache",
        "math", "operator", "pathlib", "random", "re", "statistics", "string", "struct", "tempfile", "textwrap", "threading",
        "time", "traceback", "types", "typing", "urllib.parse", "uuid")
TEXT_SIZE = 1024
fork, listdir = os.fork, os.listdir
# From here on a template has huge pages of its own, which cost a prefix 10 MB and save 1.5 ms of processor time a run.
FORKS_OF_A_BUSY_ONE = 32


class Arenas(ctypes.Structure):
    """PyObjectArenaAllocator (C API, memory management)."""
    _fields_ = [("ctx", ctypes.c_void_p), ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p)]


class Template:
    may_fork = True
    forks = 0  # of a context

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.cloche_guest_collapse.restype = ctypes.c_long
        self.warmed = {}
        self.allocate_huge()
        started = self.library.cloche_guest_start()
        if started != 1:
            raise OSError(-started, "cannot become a template")

    def allocate_huge(self):
        """Objects made from here on lie on huge pages, with which a fork copies tables of some pages instead of thousands."""
        self.arenas = Arenas(None, ctypes.cast(self.library.cloche_guest_arena_alloc, ctypes.c_void_p),
                             ctypes.cast(self.library.cloche_guest_arena_free, ctypes.c_void_p))
        ctypes.pythonapi.PyObject_SetArenaAllocator(ctypes.byref(self.arenas))

    def warm_up(self):
        """Modules that most code imports are there before it asks; so are the agent's own rarely used parts."""
        before = set(sys.modules)
        for name in WARM:
            try:
                __import__(name)
            except ImportError:
                continue  # an image may have been stripped of it
        for name in ("evident", "errors"):
            part(name)
        self.warmed = {name: sys.modules[name] for name in set(sys.modules) - before if "." not in name}

    def freeze(self, channel):
        """None, or what stands in the way of forking."""
        text = ctypes.create_string_buffer(TEXT_SIZE)
        flush()
        gc.collect()
        if self.library.cloche_guest_freeze(channel.fd, text, TEXT_SIZE) != 0:
            return text.value.decode(errors="replace")
        gc.freeze()
        self.library.cloche_guest_collapse(0)
        return None

    def children(self, channel):
        """Returns in a child only, with whether it is itself to be a template."""
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
        """None, or what stands in the way of forking just now. A library's threads that end around a fork are ended by one."""
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
        """Is forked until the next request comes. True in a child."""
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
        """For a request. What was forked ends meanwhile, and its box is not gone before this process has let go of it."""
        library = self.library
        while library.cloche_guest_idle(channel.fd) == 0:
            with lock:
                library.cloche_guest_reap()

    def reap(self, lock):
        with lock:
            self.library.cloche_guest_reap()

    def renew(self):
        """What siblings must not share. `random` reseeds itself after a fork; hashes of strings cannot be changed in a living
        interpreter, and dictionaries rely on them."""
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
        """A user's file comes before a module of the library by the same name, as in a plain interpreter."""
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

