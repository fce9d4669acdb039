"""Results and events of sandboxes (spec/sandbox.md), as dataclasses: the daemon's names in snake_case, its whole response in `raw`.

Data that may be invalid UTF-8 (commands, output, contents, names of files) is sent as text if valid, else as
bytes; here output and contents are bytes with a text beside them, and names of files keep their bytes as everywhere in
Python (os.fsencode)."""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ._results import Raw, _get, _list, _text
from .errors import ProtocolError


def _bytes(raw: Raw, name: str) -> bytes:
    told: Any = raw.get(name, "")
    if isinstance(told, bytes):
        return told
    if not isinstance(told, str):
        raise ProtocolError(f"the daemon's answer has a {name} of type {type(told).__name__}")
    return told.encode("utf-8")


def _path(raw: Raw, name: str) -> str:
    return _text(_get(raw, name, (str, bytes), ""))


def _maybe_path(raw: Raw, name: str) -> str | None:
    return None if raw.get(name) is None else _path(raw, name)


def _texts(raw: Raw, name: str) -> dict[str, str]:
    return {key: str(value) for key, value in _get(raw, name, dict, {}).items()}


def _printed(raw: Raw) -> tuple[str, str, bytes, bytes, int, int, bool, str | None]:
    """The output of a command or a cell: stdout and stderr as text, as bytes, the full size of
    each; truncated, output."""
    out, err = _bytes(raw, "stdout"), _bytes(raw, "stderr")
    return (out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), out, err, _get(raw, "stdoutBytes", int, 0), _get(raw, "stderrBytes", int, 0),
            bool(raw.get("truncated")), raw.get("output"))


# ---- sandboxes and sessions ----

@dataclass(frozen=True)
class RefusedConnection:
    """A connection, or a name to resolve, that the sandbox's network refused."""

    kind: str
    """dns, tcp, http or tls"""
    host: str | None
    address: str | None
    port: int | None
    why: str
    rule: str | None
    """The rule that denies it."""
    remedy: str | None
    """The command that permits it, or with a daemon of the client's own or a token the method."""
    count: int
    allow: list[str] = field(default_factory=list)
    """The rules that permit it, for update(add_network=...)."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> RefusedConnection:
        allow = [str(rule) for rule in _get(raw, "allow", list, [])]
        return cls(_get(raw, "kind", str, ""), _get(raw, "host", str, None), _get(raw, "address", str, None), _get(raw, "port", int, None),
                   _get(raw, "why", str, ""), _get(raw, "rule", str, None), _method_of(_get(raw, "remedy", str, None), allow),
                   _get(raw, "count", int, 1), allow, raw)


def _method_of(remedy: str | None, allow: list[str]) -> str | None:
    """An operation as the method of Sandbox that sends it."""
    if remedy is None or not remedy.startswith("sandbox.update "):
        return remedy
    return f'update(add_network={{"allow": {json.dumps(allow)}}})'


def _denials(raw: Raw) -> list[RefusedConnection]:
    return [RefusedConnection.read(row) for row in _list(raw, "denials")]


@dataclass(frozen=True)
class KeptPackages:
    """Packages that sandboxes begin with, installed once."""

    layer: str
    """Their id, for delete_packages()."""
    packages: dict[str, list[str]]
    """As in sandbox(packages=...)."""
    image: str | None
    """The image for which they are; None: the daemon's own."""
    bytes: int
    created_at: str
    expires_at: str
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> KeptPackages:
        return cls(_get(raw, "layer", str, ""), _get(raw, "packages", dict, {}), _get(raw, "image", str, None), _get(raw, "bytes", int, 0),
                   _get(raw, "createdAt", str, ""), _get(raw, "expiresAt", str, ""), raw)


@dataclass(frozen=True)
class Network:
    """The permitted connections of a sandbox. A rule is HOST, HOST:PORT or HOST:FIRST-LAST; HOST a
    name, *.name, *, an IPv4 address or CIDR."""

    allow: list[str] = field(default_factory=list)
    deny: list[str] = field(default_factory=list)
    """Overrides allow."""


@dataclass(frozen=True)
class SandboxMount:
    """A directory or file of the host in a sandbox."""

    path: str
    """Its place in the sandbox."""
    source: str
    """The host's."""
    state: str
    """mounted, stopped, or lost: its server ended, and the next start mounts it anew."""

    @classmethod
    def read(cls, raw: Raw) -> SandboxMount:
        return cls(_get(raw, "path", str, ""), _get(raw, "source", str, ""), _get(raw, "state", str, ""))


@dataclass(frozen=True)
class VolumeMount:
    """A volume in a sandbox."""

    name: str
    path: str
    """Absolute, in the sandbox."""
    read_only: bool = False

    @classmethod
    def read(cls, raw: Raw) -> VolumeMount:
        return cls(_get(raw, "name", str, ""), _path(raw, "path"), bool(raw.get("readOnly")))

    def tree(self) -> dict[str, Any]:
        return {"name": self.name, "path": self.path, "readOnly": self.read_only}


@dataclass(frozen=True)
class VolumeInfo:
    """A volume: a kept directory of a fixed size, for the sandboxes of one caller."""

    volume: str
    size_bytes: int
    """Reserved on the host's disk."""
    created_at: str
    labels: Mapping[str, str]
    used_by: tuple[str, ...]
    """The sandboxes that name it, running or not."""
    usage: Mapping[str, int] | None = None
    """bytes, usedBytes, entries, usedEntries; None in lists."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> VolumeInfo:
        return cls(_get(raw, "volume", str, ""), _get(raw, "sizeBytes", int, 0), _get(raw, "createdAt", str, ""), _texts(raw, "labels"),
                   tuple(_get(raw, "usedBy", list, [])), _get(raw, "usage", dict, None), raw)


@dataclass(frozen=True)
class SandboxInfo:
    name: str
    state: str
    """running, paused or stopped"""
    created_at: str
    last_used_at: str
    saved_at: str | None
    limits: Mapping[str, int]
    env: Mapping[str, str]
    network: Network | None
    """No connections if None."""
    idle_ms: int
    labels: Mapping[str, str]
    sessions: int
    processes: int
    usage: Mapping[str, float]
    """For a running one: memoryBytes, memoryPeakBytes, cpuMs, pids, diskBytes."""
    lost: Mapping[str, str] | None = None
    """from and to: changes between these times are lost, because the sandbox or the daemon crashed. None: no loss."""
    image: str | None = None
    """The image of the store that it was made with. None: the daemon's own."""
    mounts: tuple[SandboxMount, ...] = ()
    image_name: str | None = None
    """The name by which the image was found then; it may be another image's now."""
    packages: Mapping[str, Any] = field(default_factory=dict)
    """The packages that it began with: pip, npm, gem, or apt."""
    idle_action: str = "stop"
    """Its fate after idle_ms without use: stop or pause."""
    ends_at: str | None = None
    """The end of its lifetime. None: no end."""
    end_action: str = "stop"
    """Its fate at that end: stop, pause or delete."""
    resumed: str | None = None
    """How resume found it: "memory" (its processes go on), "files" (it was stopped, or paused without its memory) or "running" (it was not paused)."""
    volumes: tuple[VolumeMount, ...] = ()
    writable_root: bool = False
    """True: the directories of its image can be changed."""
    root: bool = False
    """True: its programs are root of users of its own."""
    pause_kind: str | None = None
    """The kind of a pause: "memory" (its processes go on) or "files" (it has its saved files, and no processes). None: it is not paused."""
    paused_at: str | None = None
    """Since when it is paused. None: it is not."""
    host_name: str = ""
    """No other has it."""
    boot_id: str | None = None
    """Another at each start. None: it is stopped."""
    sample: SandboxSample | None = None
    """In a list with sample=True: the newest one. None: it has not run since the daemon was started."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SandboxInfo:
        rules = _get(raw, "network", dict, None)
        network = None if rules is None else Network(_get(rules, "allow", list, []), _get(rules, "deny", list, []))
        return cls(_get(raw, "sandbox", str, ""), _get(raw, "state", str, ""), _get(raw, "createdAt", str, ""), _get(raw, "lastUsedAt", str, ""),
                   raw.get("savedAt"), _get(raw, "limits", dict, {}), _texts(raw, "env"), network, _get(raw, "idleMs", int, 0),
                   _texts(raw, "labels"), _get(raw, "sessions", int, 0), _get(raw, "processes", int, 0), _get(raw, "usage", dict, {}), _get(raw, "lost", dict, None),
                   _get(raw, "image", str, None), tuple(SandboxMount.read(row) for row in _get(raw, "mounts", list, [])),
                   _get(raw, "imageName", str, None), _get(raw, "packages", dict, {}), _get(raw, "idleAction", str, "stop"),
                   raw.get("endsAt"), _get(raw, "endAction", str, "stop"), raw.get("resumed"),
                   tuple(VolumeMount.read(row) for row in _get(raw, "volumes", list, [])), bool(raw.get("writableRoot")), bool(raw.get("root")),
                   raw.get("pauseKind"), raw.get("pausedAt"), _get(raw, "hostName", str, ""), raw.get("bootId"),
                   SandboxSample.read(raw["sample"]) if "sample" in raw else None, raw)


@dataclass(frozen=True)
class SandboxLogLine:
    """One line of the log of a sandbox."""

    time: str
    event: str
    """created, started, paused, resumed, stopped, failed, unsaved, lost, forked, snapshot, changed or renamed."""
    message: str | None
    missed: int
    """Lines before this one that could not be written."""

    @classmethod
    def read(cls, raw: Raw) -> SandboxLogLine:
        return cls(_get(raw, "time", str, ""), _get(raw, "event", str, ""), raw.get("message"), _get(raw, "missed", int, 0))


@dataclass(frozen=True)
class SandboxSample:
    """The usage of a sandbox at one time. None: the host does not tell."""

    time: str
    cpu_ms: int | None
    """Since it was started."""
    memory_bytes: int | None
    pids: int | None
    disk_bytes: int | None
    network_sent_bytes: int
    """Bytes of its connections to hosts, since it was started, up to a second before."""
    network_received_bytes: int

    @classmethod
    def read(cls, raw: Raw) -> SandboxSample:
        return cls(_get(raw, "time", str, ""), raw.get("cpuMs"), raw.get("memoryBytes"), raw.get("pids"), raw.get("diskBytes"),
                   _get(raw, "networkSentBytes", int, 0), _get(raw, "networkReceivedBytes", int, 0))


class SandboxPage(list[SandboxInfo]):
    """A list of sandboxes. next: with a limit, the value of `after` for the next page; None: this is the last."""

    def __init__(self, rows: Iterable[SandboxInfo] = (), next: str | None = None) -> None:
        super().__init__(rows)
        self.next = next


@dataclass(frozen=True)
class Omitted:
    """A part of a sandbox that its forks do not have."""

    kind: str
    """context, checkpoint, session (the command that it runs), process, port, mount or volume"""
    name: str
    reason: str

    @classmethod
    def read(cls, raw: Raw) -> Omitted:
        return cls(_get(raw, "kind", str, ""), _get(raw, "name", str, ""), _get(raw, "reason", str, ""))


@dataclass(frozen=True)
class SandboxForks:
    """The forks of a sandbox."""

    sandboxes: tuple[SandboxInfo, ...]
    omitted: tuple[Omitted, ...]
    """Each part of the sandbox that they do not have."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SandboxForks:
        return cls(tuple(SandboxInfo.read(row) for row in _get(raw, "sandboxes", list, [])),
                   tuple(Omitted.read(row) for row in _get(raw, "omitted", list, [])), raw)


@dataclass(frozen=True)
class SnapshotInfo:
    """A snapshot: a named copy of a sandbox's files and definition, which nothing changes."""

    snapshot: str
    sandbox: str
    """It was taken of this one, which may be gone."""
    created_at: str
    bytes: int
    """Size of its files, as an archive."""
    labels: Mapping[str, str]
    digest: str | None = None
    """sha256- and 64 digits, of that archive. None: it has no files."""
    image: str | None = None
    """The image of the store of its sandboxes. None: the daemon's own."""
    image_name: str | None = None
    """The name by which the image was found then."""
    packages: Mapping[str, Any] = field(default_factory=dict)
    """The packages that the sandbox began with."""
    writable_root: bool = False
    """True: the directories of the image can be changed."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SnapshotInfo:
        return cls(_get(raw, "snapshot", str, ""), _get(raw, "sandbox", str, ""), _get(raw, "createdAt", str, ""), _get(raw, "bytes", int, 0),
                   _texts(raw, "labels"), raw.get("digest"), _get(raw, "image", str, None), _get(raw, "imageName", str, None),
                   _get(raw, "packages", dict, {}), bool(raw.get("writableRoot")), raw)


@dataclass(frozen=True)
class SessionInfo:
    session: str
    cwd: str
    isolation: bool
    busy: bool
    created_at: str
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SessionInfo:
        return cls(_get(raw, "session", str, ""), _path(raw, "cwd"), bool(raw.get("isolation")), bool(raw.get("busy")),
                   _get(raw, "createdAt", str, ""), raw)


@dataclass(frozen=True)
class SandboxEvent:
    """An event: portOpened, portClosed, processStarted, processEnded, network, fileDenied, state, forked or snapshot."""

    event: str
    about: Mapping[str, Any]


# ---- commands and processes ----

@dataclass(frozen=True)
class Completed:
    """The end of a command. A failed command raises no exception; unwrap() does."""

    exit_code: int
    signal: str | None
    stdout: str
    stderr: str
    stdout_bytes: bytes
    """The exact output, up to output_bytes of it; `stdout` has replacements for invalid UTF-8."""
    stderr_bytes: bytes
    stdout_total: int
    """Size of the whole output in bytes; the rest is read with Sandbox.read_output()."""
    stderr_total: int
    truncated: bool
    output: str | None
    """Its id for read_output()."""
    timed_out: bool
    duration_ms: float
    session: str
    cwd: str
    """The session's present directory."""
    session_ended: bool
    warnings: list[str] = field(default_factory=list)
    """Lines about a failed command, such as the sandbox's network policy."""
    denials: list[RefusedConnection] = field(default_factory=list)
    """The connections that the network refused meanwhile."""
    raw: Raw = field(default_factory=dict, repr=False)

    @property
    def success(self) -> bool:
        return self.exit_code == 0

    @classmethod
    def read(cls, raw: Raw) -> Completed:
        return cls(_get(raw, "exitCode", int, 0), raw.get("signal"), *_printed(raw), bool(raw.get("timedOut")), _get(raw, "durationMs", (int, float), 0.0),
                   _get(raw, "session", str, ""), _path(raw, "cwd"), bool(raw.get("sessionEnded")), _get(raw, "warnings", list, []), _denials(raw), raw)


@dataclass(frozen=True)
class OutputPage:
    data: bytes
    offset: int
    next: int
    """Offset of the following page."""
    total: int
    end: bool
    """True if no more output will come."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> OutputPage:
        return cls(_bytes(raw, "data"), _get(raw, "offset", int, 0), _get(raw, "next", int, 0), _get(raw, "total", int, 0), bool(raw.get("end")), raw)


@dataclass(frozen=True)
class ProcessInfo:
    id: str
    pid: int
    command: str
    status: Literal["running", "completed", "failed", "killed"]
    session: str
    started_at: str
    ended_at: str | None
    exit_code: int | None
    """For a killed one 128 plus the signal's number."""
    signal: str | None
    terminal: bool
    timed_out: bool
    denials: list[RefusedConnection] = field(default_factory=list)
    """The connections that the network refused until its end."""
    raw: Raw = field(default_factory=dict, repr=False)

    @property
    def running(self) -> bool:
        return self.status == "running"

    @classmethod
    def read(cls, raw: Raw) -> ProcessInfo:
        return cls(_get(raw, "process", str, ""), _get(raw, "pid", int, 0), _path(raw, "command"), _get(raw, "status", str, "running"),
                   _get(raw, "session", str, ""), _get(raw, "startedAt", str, ""), raw.get("endedAt"), raw.get("exitCode"), raw.get("signal"),
                   bool(raw.get("terminal")), bool(raw.get("timedOut")), _denials(raw), raw)


@dataclass(frozen=True)
class Logs:
    """The output of a process so far, or a page of it. On a terminal all is stdout."""

    stdout_bytes: bytes
    stderr_bytes: bytes
    stdout_next: int
    stderr_next: int
    stdout_total: int
    stderr_total: int
    stdout_dropped: int
    """Bytes that were dropped."""
    stderr_dropped: int
    raw: Raw = field(default_factory=dict, repr=False)

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @classmethod
    def read(cls, raw: Raw) -> Logs:
        def both(what: str) -> tuple[int, int]:
            return _get(raw, "stdout" + what, int, 0), _get(raw, "stderr" + what, int, 0)

        return cls(_bytes(raw, "stdout"), _bytes(raw, "stderr"), *both("Next"), *both("Total"), *both("Dropped"), raw)


@dataclass(frozen=True)
class Waited:
    """The awaited event has happened."""

    process: ProcessInfo
    line: str | None
    match: list[str | None] | None
    """For a pattern: the whole match, then its groups."""
    stream: str | None
    status: int | None
    """The HTTP status."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Waited:
        return cls(ProcessInfo.read(_get(raw, "process", dict, {})), _maybe_path(raw, "line"), _get(raw, "match", list, None), raw.get("stream"),
                   _get(raw, "status", int, None), raw)


# ---- files ----

@dataclass(frozen=True)
class FileContent:
    """A file, or a piece of it."""

    path: str
    data: bytes
    offset: int
    total: int
    """Size of the whole file in bytes."""
    mime_type: str
    raw: Raw = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """Raises UnicodeDecodeError if it is not UTF-8."""
        return self.data.decode("utf-8")

    @classmethod
    def read(cls, raw: Raw) -> FileContent:
        return cls(_path(raw, "path"), _bytes(raw, "content"), _get(raw, "offset", int, 0), _get(raw, "total", int, 0),
                   _get(raw, "mimeType", str, ""), raw)


@dataclass(frozen=True)
class FileEntry:
    name: str
    path: str
    relative_path: str
    """Relative to the listed directory."""
    type: Literal["file", "directory", "symlink", "other"]
    size: int
    mode: int
    modified_at: str
    target: str | None
    """For a symlink."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> FileEntry:
        return cls(_path(raw, "name"), _path(raw, "path"), _path(raw, "relativePath"), _get(raw, "type", str, "other"), _get(raw, "size", int, 0),
                   _get(raw, "mode", int, 0), _get(raw, "modifiedAt", str, ""), _maybe_path(raw, "target"), raw)


@dataclass(frozen=True)
class FileList:
    path: str
    entries: list[FileEntry]
    next: str | None
    """The `after` of the following page; None on the last one."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> FileList:
        return cls(_path(raw, "path"), [FileEntry.read(row) for row in _list(raw, "entries")], _maybe_path(raw, "next"), raw)


@dataclass(frozen=True)
class FileMatch:
    path: str
    line: int
    column: int
    text: str
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> FileMatch:
        return cls(_path(raw, "path"), _get(raw, "line", int, 0), _get(raw, "column", int, 0), _path(raw, "text"), raw)


@dataclass(frozen=True)
class Found:
    matches: list[FileMatch]
    files: int
    """Number of searched files."""
    truncated: bool
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Found:
        return cls([FileMatch.read(row) for row in _list(raw, "matches")], _get(raw, "files", int, 0), bool(raw.get("truncated")), raw)


@dataclass(frozen=True)
class Replaced:
    files: dict[str, int]
    """Number of replacements, by path."""
    count: int
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Replaced:
        return cls({_path(row, "path"): _get(row, "count", int, 0) for row in _list(raw, "files")}, _get(raw, "count", int, 0), raw)


@dataclass(frozen=True)
class Archived:
    path: str
    to: str
    files: int
    bytes: int
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Archived:
        return cls(_path(raw, "path"), _path(raw, "to"), _get(raw, "files", int, 0), _get(raw, "bytes", int, 0), raw)


@dataclass(frozen=True)
class FileChange:
    """`lost`: changes came faster than they were read; list the files again."""

    type: Literal["create", "modify", "delete", "move", "attrib", "lost"]
    path: str
    old_path: str | None
    """For a move."""
    is_directory: bool
    timestamp: Any
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, event: str, raw: Raw) -> FileChange:
        return cls("lost" if event == "lost" else _get(raw, "type", str, "modify"), _path(raw, "path"), _maybe_path(raw, "from"),
                   bool(raw.get("isDirectory")), raw.get("timestamp"), raw)


# ---- git, ports, network ----

@dataclass(frozen=True)
class Checkout:
    url: str
    """Without credentials."""
    dir: str
    branch: str | None
    commit: str | None
    stdout: str
    stderr: str
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Checkout:
        return cls(_get(raw, "url", str, ""), _path(raw, "dir"), raw.get("branch"), raw.get("commit"), _path(raw, "stdout"), _path(raw, "stderr"), raw)


@dataclass(frozen=True)
class ExposedPort:
    port: int
    token: str
    name: str | None
    url: str | None
    """If the daemon has a preview host."""
    open: bool
    exposed_at: str | None
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> ExposedPort:
        return cls(_get(raw, "port", int, 0), _get(raw, "token", str, ""), raw.get("name"), raw.get("url"), bool(raw.get("open")), raw.get("exposedAt"), raw)


@dataclass(frozen=True)
class OpenPort:
    port: int
    address: str


@dataclass(frozen=True)
class Ports:
    exposed: list[ExposedPort]
    open: list[OpenPort]
    """Ports with a listener."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Ports:
        listening = [OpenPort(_get(row, "port", int, 0), _get(row, "address", str, "")) for row in _list(raw, "open")]
        return cls([ExposedPort.read(row) for row in _list(raw, "exposed")], listening, raw)


@dataclass(frozen=True)
class NetworkDecision:
    number: int
    time: str
    host: str | None
    address: str | None
    port: int
    verdict: Literal["allowed", "denied"]
    rule: str | None
    why: str
    kind: Literal["dns", "tcp", "tls", "http"]
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> NetworkDecision:
        return cls(_get(raw, "number", int, 0), _get(raw, "time", str, ""), raw.get("host"), raw.get("address"), _get(raw, "port", int, 0),
                   _get(raw, "verdict", str, "denied"), raw.get("rule"), _get(raw, "why", str, ""), _get(raw, "kind", str, "tcp"), raw)


@dataclass(frozen=True)
class ImageImport:
    """An imported image."""

    name: str
    id: str
    tree: str
    size: int
    entries: int
    is_new: bool
    """False: the store had it already."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Numbers of things that were left out: devices, pipes, setid, capabilities, attributes; of a commit to the store of an
    ordinary user also owners: files of other users, which belong to root there."""
    notes: tuple[str, ...] = ()
    """As in ImageInfo."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> ImageImport:
        return cls(_get(raw, "name", str, ""), _get(raw, "id", str, ""), _get(raw, "tree", str, ""), _get(raw, "size", int, 0),
                   _get(raw, "entries", int, 0), _get(raw, "isNew", bool, False), _get(raw, "dropped", dict, {}),
                   tuple(_get(raw, "notes", list, [])), raw)
