"""Connections to a daemon: at an address, or to a program that is started for this client alone and ends with it."""
from __future__ import annotations

import errno
import os
import pathlib
import socket
import stat
import subprocess
import threading
from collections.abc import Sequence
from typing import NamedTuple

from . import _discovery
from ._base_errors import ConnectionLostError, DaemonNotFoundError
from .errors import ForbiddenError, InvalidArgumentError

PROGRAM = "cloched"
LAST_WORDS = 4096
PATH_MAX = 107


class Address(NamedTuple):
    """A path, or host and port."""

    path: str | None
    host: str
    port: int

    def __str__(self) -> str:
        return self.path if self.path is not None else f"{self.host}:{self.port}"


def parse_address(text: str | os.PathLike[str]) -> Address:
    """`/path`, `./path`, `unix:PATH`, `HOST:PORT`, `tcp://HOST:PORT`, `[V6]:PORT`."""
    text = os.fspath(text)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgumentError(f"{text!r} is no address: expected a path, unix:PATH or HOST:PORT")
    if text.startswith("unix:"):
        return Address(text.removeprefix("unix:").removeprefix("//"), "", 0)
    rest = text.removeprefix("tcp://").removeprefix("tcp:")
    if rest == text and "/" in text:
        return Address(text, "", 0)
    host, colon, port = rest.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise InvalidArgumentError(f"{text!r} is no address: expected a path, unix:PATH or HOST:PORT")
    return Address(None, host.removeprefix("[").removesuffix("]"), int(port))


def connect(address: Address, timeout: float) -> socket.socket:
    try:
        if address.path is None:
            sock = socket.create_connection((address.host, address.port), timeout)
            # Frames are written whole: never wait for more.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock = _connect_unix(address.path, timeout)
    except TimeoutError:
        raise ConnectionLostError(f"{address}: nobody answered within {timeout:g} s") from None
    except OSError as error:
        if address.path is None:
            raise DaemonNotFoundError(f"{address}: {error.strerror or error}") from error
        kind, fault = (ForbiddenError, _discovery.CLOSED) if error.errno in (errno.EACCES, errno.EPERM) else (DaemonNotFoundError, _discovery.NONE)
        raise kind(fault % (address.path, error.strerror or error)) from error
    sock.settimeout(None)
    return sock


def _connect_unix(path: str, timeout: float) -> socket.socket:
    if not path:
        raise InvalidArgumentError(_discovery.EMPTY)
    if (size := len(os.fsencode(path))) > PATH_MAX:
        raise InvalidArgumentError(_discovery.LONG % size)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


# ---- a program ----

def find_program(named: str | os.PathLike[str] | None = None) -> str:
    """The order is DISCOVERY_PROGRAM of spec/discovery.def."""
    for told, by in ((named, "the option daemon"), (os.environ.get("CLOCHE_DAEMON"), "$CLOCHE_DAEMON")):
        if told:
            path = os.fspath(told)
            if not _is_program(path):
                raise DaemonNotFoundError(_discovery.NAMED % (by, path))
            return path
    on_path = [folder for folder in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]  # never the current directory
    beside = [os.path.join(os.path.dirname(folder), "sbin") for folder in on_path if os.path.basename(folder) == "bin"]
    for path in (_in_source_tree(), *(os.path.join(folder, PROGRAM) for folder in (*on_path, *beside, *_discovery.INSTALLED))):
        if path and _is_program(path):
            return path
    raise DaemonNotFoundError(_discovery.MISSING % ", ".join(_discovery.INSTALLED))


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _in_source_tree() -> str | None:
    """The newest build."""
    here = pathlib.Path(__file__).resolve().parents
    if len(here) < 4 or not (here[3] / "meson.build").exists():
        return None
    built = [path for path in here[3].glob(f"build*/{PROGRAM}") if _is_program(str(path))]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else None


# ---- choice of the daemon ----

class Choice(NamedTuple):
    """The daemon a client uses: one at an address, or one it starts."""

    address: Address | None
    program: str | os.PathLike[str] | None
    options: tuple[str, ...]
    optional: tuple[str, ...] | None
    strict: bool
    shared: bool

    def open(self, timeout: float) -> tuple[socket.socket, PrivateDaemon | None]:
        """Blocks until it is connected."""
        if self.address is not None:
            return connect(self.address, timeout), None
        if self.shared:
            return connect(Address(start_shared(self.program, timeout), "", 0), timeout), None
        daemon = PrivateDaemon(self.program, [*self._guard_options(), *self.options])
        return daemon.socket, daemon

    @property
    def is_ours(self) -> bool:
        """True for the user's own daemon, not a named one: then its notice is for this user."""
        return self.address is None

    def _guard_options(self) -> list[str]:
        """The names of the guards it may lack."""
        if self.strict:
            return []
        if self.optional is None:
            return ["--profile", "user"]
        return [word for guard in self.optional for word in ("--optional", guard)]


def choose(address: str | os.PathLike[str] | None, program: str | os.PathLike[str] | None, options: Sequence[str],
           optional: Sequence[str] | None, strict: bool, shared: bool) -> Choice:
    if address is not None and program is not None:
        raise InvalidArgumentError("address and daemon exclude each other: connect to one that runs, or start one")
    if shared and address is not None:
        raise InvalidArgumentError("shared finds a daemon; with an address one is named")
    if shared and (optional is not None or options):
        raise InvalidArgumentError("optional and daemon_options are for a daemon of our own; a shared one may run already")
    if address is not None and optional is not None:
        raise InvalidArgumentError("optional is for a daemon that is started, not for one at an address")
    if strict and optional is not None:
        raise InvalidArgumentError("optional and strict exclude each other: a guard may be missing, or none may")
    if isinstance(optional, str):
        raise InvalidArgumentError(f"optional must be a list of guards, not {optional!r}")
    is_private = not shared and (program is not None or bool(options) or optional is not None)
    variable = None if is_private else os.environ.get("CLOCHE_SOCKET")
    where = parse_address(address) if address is not None else Address(variable, "", 0) if variable else None
    return Choice(where, program, tuple(options), None if optional is None else tuple(optional), bool(strict), bool(shared))


def start_shared(program: str | os.PathLike[str] | None, timeout: float) -> str:
    """The socket of the command line's daemon, started if none runs. The error has the daemon's own message."""
    path = find_program(program)
    try:
        done = subprocess.run([path, "--on-demand", "--profile", "user"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
    except OSError as error:
        raise DaemonNotFoundError(f"{path}: {error.strerror or error}") from error
    except subprocess.TimeoutExpired:
        raise ConnectionLostError(f"{path}: there was no shared daemon within {timeout:g} s") from None
    if done.returncode:
        raise DaemonNotFoundError(done.stderr.strip().removeprefix(PROGRAM + ": ") or f"{path} ended with exit status {done.returncode}")
    return done.stdout.rstrip("\n")


class PrivateDaemon:
    """A cloched of this client's, at one end of a socket pair. It exits when the other end is closed."""

    def __init__(self, program: str | os.PathLike[str] | None = None, options: Sequence[str] = ()) -> None:
        self.path = find_program(program)
        self._tail = bytearray()
        self._tail_lock = threading.Lock()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [self.path, *options, "--connect-fd", str(theirs.fileno())], pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)
        except OSError as error:
            ours.close()
            raise DaemonNotFoundError(f"{self.path}: {error.strerror or error}") from error
        self.socket = ours
        self._listener = threading.Thread(target=self._listen, name="cloche-daemon-log", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _listen(self) -> None:
        """Keeps the end of its log, for the error that reports its exit."""
        pipe = self._process.stderr
        assert pipe is not None
        with pipe:
            while data := os.read(pipe.fileno(), 4096):
                with self._tail_lock:
                    self._tail += data
                    del self._tail[:-LAST_WORDS]

    def last_words(self) -> str:
        """Its exit status, if it has exited, and its last log line."""
        try:
            code = self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            return ""
        self._listener.join(0.5)
        with self._tail_lock:
            said = self._tail.decode("utf-8", "replace").strip()
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        return f" ({self.path}: {how})" + (f"; it said last:\n{said}" if said else "")

    def abandon(self) -> None:
        """In a forked child: the daemon is the parent's."""
        if self._process.stderr is not None:
            self._process.stderr.close()

    def stop(self, grace: float) -> None:
        """After the socket was closed: wait, then kill."""
        for insist in (None, self._process.terminate, self._process.kill):
            if insist is not None:
                insist()
            try:
                self._process.wait(grace)
                break
            except subprocess.TimeoutExpired:
                continue
        self._listener.join(grace)
