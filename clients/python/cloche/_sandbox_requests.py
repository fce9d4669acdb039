"""The requests of sandboxes (spec/sandbox.def), ready to be sent. Pure, as _requests is: arguments are checked here.

The functions are the methods of Sandbox, Session and Process, of both clients: the first parameter is their target."""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, Union

from ._context_results import CellResult
from ._core import Event, Happening, Output
from ._mount import Mount, Sync, mount_tree
from ._requests import Handlers, Maybe, Request, Rules, _texts, check_timeout, limits_tree, network_tree
from ._results import Raw, _get, read_object, read_rows
from ._rpc import Message
from ._sandbox_results import (Archived, Checkout, Completed, ExposedPort, FileChange, FileContent, FileEntry, FileList, Found, ImageImport, KeptPackages, Logs, Network,
                               NetworkDecision, OutputPage, Ports, ProcessInfo, Replaced, SandboxEvent, SandboxForks, SandboxInfo, SandboxLogLine, SandboxPage, SandboxSample, SessionInfo, SnapshotInfo,
                               VolumeInfo, VolumeMount, Waited)
from ._values import Encoder
from .errors import InvalidArgumentError, ProtocolError
from .limits import Limits

T = TypeVar("T")
E = TypeVar("E")

Path = Union[str, "os.PathLike[str]"]
Text = Union[str, bytes]
Environment = Mapping[str, "str | None"]
"""A value of None unsets."""
OnStream = Callable[[Literal["stdout", "stderr", "terminal"], bytes], Maybe[object]]


@dataclass(frozen=True)
class Place:
    """The target: a sandbox, one of its sessions, processes, or contexts."""

    sandbox: str
    session: str | None = None
    process: str | None = None
    context: str | None = None


@dataclass(frozen=True)
class Streaming(Request[T], Generic[T, E]):
    """A request with events before its response: the caller iterates over them."""

    item: Callable[[Event], E | None] = lambda event: None
    """Return None to skip the event."""
    ready: str | None = None
    """The event after which the stream is active."""


# ---- writing ----

class _Writer:
    """Collects the parameters of a request; None is omitted."""

    def __init__(self, place: Place | None) -> None:
        self.encoder = Encoder()
        self.params: dict[str, Any] = {}
        for name in ("sandbox", "session", "process", "context"):
            self.add(**{name: getattr(place, name, None)})

    def add(self, **values: Any) -> _Writer:
        for name, value in values.items():
            if value is not None:
                self.params[name] = self.encoder.value(value, name)
        return self

    def env(self, env: Environment | None, may_unset: bool = True) -> _Writer:
        return self.add(env=None if env is None else _environment(env, may_unset))

    def asks(self, method: str, read: Callable[[Message], T], timeout: float | None = None, on_output: Any = None,
             handlers: Handlers | None = None) -> Request[T]:
        return Request(method, self.params, read, self.encoder.parts, handlers or Handlers(on_output=on_output), timeout=check_timeout(timeout))

    def streams(self, method: str, read: Callable[[Message], T], item: Callable[[Event], E | None], ready: str | None = None) -> Streaming[T, E]:
        return Streaming(method, self.params, read, self.encoder.parts, item=item, ready=ready)


def _environment(env: Environment, may_unset: bool) -> dict[str, str | None]:
    if not isinstance(env, Mapping):
        raise InvalidArgumentError(f"env must be a mapping, not a {type(env).__name__}")
    for name, value in env.items():
        if not isinstance(name, str) or not (isinstance(value, str) or (value is None and may_unset)):
            raise InvalidArgumentError(f"env: {name!r} and its value must be texts" + (", or the value None: unset" if may_unset else ""))
        if not name or "=" in name or "\0" in name or "\0" in (value or ""):
            raise InvalidArgumentError(f"env: {name!r} cannot be a variable: no name, or '=' or NUL in it")
    return dict(env)


def _content(content: Text, name: str) -> Any:
    if not isinstance(content, (str, bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"{name} must be text or bytes, not a {type(content).__name__}")
    return content


def _packages(packages: Mapping[str, Sequence[str]] | None) -> dict[str, list[str]] | None:
    """The names by kind. A text in place of a list would be a package for each of its letters."""
    if packages is None:
        return None
    if not isinstance(packages, Mapping):
        raise InvalidArgumentError(f"packages must be a mapping as {{'pip': ['requests']}}, not a {type(packages).__name__}")
    return {kind: _texts(names, f"packages: {kind}") for kind, names in packages.items()}


def _volumes(volumes: Sequence[VolumeMount | Mapping[str, Any]] | None) -> list[Any] | None:
    if volumes is None:
        return None
    if isinstance(volumes, (str, Mapping, VolumeMount)) or not all(isinstance(row, (VolumeMount, Mapping)) for row in volumes):
        raise InvalidArgumentError("volumes must be a sequence of VolumeMount, or of mappings of name and path")
    return [row.tree() if isinstance(row, VolumeMount) else dict(row) for row in volumes]


def _labels(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if labels is None else dict(labels)


def _path(path: Path, name: str = "path") -> str:
    told = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(told, str) or not told or "\0" in told:
        raise InvalidArgumentError(f"{name}: {path!r} is no path: a text that is not empty and has no NUL is expected")
    return told


# ---- reading ----

def _reads(read: Callable[[Raw], T]) -> Callable[[Message], T]:
    return lambda message: read(read_object(message))


def _rows(name: str, read: Callable[[Raw], T]) -> Callable[[Message], list[T]]:
    return lambda message: [read(row) for row in read_rows(message, name)]


def _sandbox_page(message: Message) -> SandboxPage:
    return SandboxPage((SandboxInfo.read(row) for row in read_rows(message, "sandboxes")), _get(read_object(message), "next", str, None))


def _nothing(message: Message) -> None:
    return None


def _number(name: str) -> Callable[[Message], int]:
    return lambda message: int(_get(read_object(message), name, int, 0))


def _text_of(name: str) -> Callable[[Message], str]:
    def read(message: Message) -> str:
        value = read_object(message).get(name)
        if not isinstance(value, str):
            raise ProtocolError(f"the daemon's answer has no {name}")
        return value
    return read


def _output_item(event: Event) -> Output | None:
    return event if isinstance(event, Output) else None


# ---- sandboxes ----

def _mount(mount: Mount | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A sandbox has no sync: the default of a Mount, which is for runs, is left out."""
    if mount is None:
        return None
    tree = mount_tree(mount)
    if isinstance(mount, Mount) and mount.sync == Sync():
        del tree["sync"]
    return tree


def sandbox(name: str | None = None, *, limits: Limits | Mapping[str, int] | None = None, env: Mapping[str, str] | None = None,
            network: Rules | None = None, idle_ms: int | None = None, idle_action: str | None = None, lifetime_ms: int | None = None,
            end_action: str | None = None, labels: Mapping[str, str] | None = None, image: str | None = None, mount: Mount | Mapping[str, Any] | None = None,
            packages: Mapping[str, Sequence[str]] | None = None, image_settings: Mapping[str, Any] | None = None,
            volumes: Sequence[VolumeMount | Mapping[str, Any]] | None = None,
            writable_root: bool | None = None, root: bool | None = None, snapshot: str | None = None,
            startup: Mapping[str, Any] | None = None, timeout: float | None = None) -> Request[Place]:
    """A persistent box: create it, or find the one of that name. It outlives the client.

    name     1 to 63 of A-Z a-z 0-9 -; None: a generated one, and the sandbox is deleted at the end of a `with`
    limits   of the whole sandbox; an existing one keeps its limits, env, network, idle_ms, labels, image and mount
    env      added to the environment of everything started in it
    network  permitted connections; None: none
    idle_ms  it is saved and stopped after so long without a request or a running process; None: 1,200,000, 0: never
    idle_action  "pause": after idle_ms it is paused instead of stopped
    lifetime_ms  its time from now on, used or not; None, 0: no end
    end_action  its fate at that end: "stop" (the default) or "pause", if it runs, or "delete"
    image    the root file system: an image of the daemon's store, by its name or as sha256-DIGITS; None: the daemon's own
    image_settings  what applies with a digest in place of a name: {"env": {"A": "1"}, "workingDirectory": "/srv"}
    mount    directories and files of the host under rules; what is written there stays in the sandbox until it stops (no sync)
    packages  that it begins with, installed once and then shared: {"pip": ["requests"], "npm": [...], "gem": [...]}; with root: {"apt": [...]}
    volumes  of this caller: VolumeMount(name, path, read_only), or the same as a mapping of name, path, readOnly
    writable_root  True: the directories of its image can be changed, by a copy in its quota; with image
    root     True: its programs are root of 65,536 users of its own (apt-get install, useradd, ports below 1024); writable_root is implied
    snapshot  of this caller: it begins with the files and the definition of that, to which the others are changes
    startup  commands of each of its starts instead of those of its image or snapshot: {"start": …, "ready": …, "readyMs": …}; {}: none
    """
    w = _Writer(None).add(sandbox=name, limits=limits_tree(limits) if limits is not None else None).env(env, False)
    w.add(network=network_tree(network), idleMs=idle_ms, idleAction=idle_action, lifetimeMs=lifetime_ms, endAction=end_action)
    w.add(labels=_labels(labels), image=image, writableRoot=writable_root, root=root, mount=_mount(mount), snapshot=snapshot,
          imageSettings=dict(image_settings) if image_settings is not None else None,
          packages=_packages(packages), startup=dict(startup) if startup is not None else None,
          volumes=_volumes(volumes))
    return w.asks("sandbox.create", lambda message: Place(_text_of("sandbox")(message)), timeout)


def sandboxes(*, state: str | None = None, labels: Mapping[str, str | None] | None = None, image: str | None = None, prefix: str | None = None,
              created_after: str | None = None, created_before: str | None = None, order: str | None = None, reverse: bool = False,
              limit: int | None = None, after: str | None = None, sample: bool = False) -> Request[SandboxPage]:
    """List the caller's sandboxes: all, or those that every filter permits.

    state   running, paused or stopped
    labels  all must be there; None: with any value
    image   the name or digest that it was made with
    prefix  of the name
    created_after, created_before  in UTC: "2026-11-28T07:30:00.000Z", or a beginning of it
    order   created (the default), used or name, the oldest first; reverse: the newest first
    limit   at most so many: then .next is the value of after for the next page, None on the last one
    sample  each has its newest sample"""
    wanted = None if labels is None else [name if value is None else f"{name}={value}" for name, value in labels.items()]
    w = _Writer(None).add(state=state, labels=wanted, image=image, prefix=prefix, createdAfter=created_after, createdBefore=created_before)
    w.add(order=order, reverse=True if reverse else None, limit=limit, after=after, sample=True if sample else None)
    return w.asks("sandbox.list", _sandbox_page)


def packages() -> Request[list[KeptPackages]]:
    """List the packages that are kept for the caller's new sandboxes, the oldest first."""
    return Request("packages.list", {}, _rows("layers", KeptPackages.read))


def delete_packages(layer: str) -> Request[None]:
    """Remove kept packages. Sandboxes that began with them have them still."""
    return Request("packages.delete", {"layer": layer}, lambda message: None)


# ---- snapshots ----

def snapshots() -> Request[list[SnapshotInfo]]:
    """List the caller's snapshots (Sandbox.snapshot takes one, snapshot of sandbox() begins with one)."""
    return Request("snapshot.list", {}, _rows("snapshots", SnapshotInfo.read))


def snapshot(name: str) -> Request[SnapshotInfo]:
    """One snapshot."""
    return _Writer(None).add(snapshot=name).asks("snapshot.get", _reads(SnapshotInfo.read))


def copy_snapshot(name: str, to: str, *, replace: bool | None = None, labels: Mapping[str, str] | None = None) -> Request[SnapshotInfo]:
    """Keep it under another name too. replace: in the place of one that has that name. labels: of the copy, instead of its own."""
    return _Writer(None).add(snapshot=name, to=to, replace=replace, labels=_labels(labels)).asks("snapshot.copy", _reads(SnapshotInfo.read))


def delete_snapshot(name: str) -> Request[None]:
    """Remove it. Sandboxes that began with it keep their files."""
    return _Writer(None).add(snapshot=name).asks("snapshot.delete", _nothing)


# ---- volumes ----

def create_volume(name: str, size_bytes: int, *, labels: Mapping[str, str] | None = None, timeout: float | None = None) -> Request[VolumeInfo]:
    """Make a volume: a kept directory of a fixed size, which sandboxes mount (volumes of sandbox()). It needs a daemon of root.

    size_bytes  from 16 MiB on, reserved on the host's disk; tables of its file system take some of it, and it holds an entry for each 16 KiB
    """
    return _Writer(None).add(volume=name, sizeBytes=size_bytes, labels=_labels(labels)).asks("volume.create", _reads(VolumeInfo.read), timeout)


def volumes() -> Request[list[VolumeInfo]]:
    """List the caller's volumes, without their usage."""
    return Request("volume.list", {}, _rows("volumes", VolumeInfo.read))


def volume(name: str) -> Request[VolumeInfo]:
    """One volume with its usage."""
    return _Writer(None).add(volume=name).asks("volume.get", _reads(VolumeInfo.read))


def delete_volume(name: str) -> Request[None]:
    """Remove it with all its files. InvalidStateError: a sandbox names it, running or not."""
    return _Writer(None).add(volume=name).asks("volume.delete", _nothing)


# ---- one sandbox ----

def sandbox_info(at: Place) -> Request[SandboxInfo]:
    """State, limits, usage."""
    return _Writer(at).asks("sandbox.get", _reads(SandboxInfo.read))


def sandbox_metrics(at: Place, *, from_time: str | None = None, to_time: str | None = None) -> Request[list[SandboxSample]]:
    """Its usage over the last ten minutes in which it ran, a sample every five seconds. Times are in UTC, or their beginnings."""
    return _Writer(at).add(**{"from": from_time, "to": to_time}).asks("sandbox.metrics", _rows("samples", SandboxSample.read))


def sandbox_update(at: Place, *, limits: Limits | Mapping[str, int] | None = None, env: Mapping[str, str] | None = None, network: Rules | None = None,
                   add_network: Rules | None = None, idle_ms: int | None = None, idle_action: str | None = None, lifetime_ms: int | None = None,
                   end_action: str | None = None, labels: Mapping[str, str] | None = None) -> Request[SandboxInfo]:
    """Change the named options. memory_bytes, pids, cpu_percent and network act at once, other
    limits from the next start; env, network and labels replace the former ones; add_network adds
    rules to those in force, in one step; lifetime_ms counts from now, 0: no end. To close its network: network=Network()."""
    w = _Writer(at).add(limits=limits_tree(limits) if limits is not None else None).env(env, False)
    w.add(network=network_tree(network), addNetwork=network_tree(add_network), idleMs=idle_ms, labels=_labels(labels))
    w.add(idleAction=idle_action, lifetimeMs=lifetime_ms, endAction=end_action)
    return w.asks("sandbox.update", _reads(SandboxInfo.read))


def sandbox_stop(at: Place, *, sync: bool | Sync | Mapping[str, str] = False, timeout: float | None = None) -> Request[SandboxInfo]:
    """Save the files and end all processes; the next use starts it again. ResourceError: they
    cannot be saved, and it keeps running.

    sync  first write the changes in its mounts to the host, and lose them otherwise; Sync(conflict="overwrite"), for example. The outcome is in .raw["sync"]; if a change cannot be written, it is an InvalidStateError and the sandbox keeps running"""
    given: dict[str, Any] | None = sync.tree() if isinstance(sync, Sync) else None if sync is False else {} if sync is True else dict(sync)
    if given and isinstance(sync, Sync) and sync.mode == "batch":  # the default, which is for runs
        del given["mode"]
    return _Writer(at).add(sync=given).asks("sandbox.stop", _reads(SandboxInfo.read), timeout)


def sandbox_save(at: Place, *, timeout: float | None = None) -> Request[SandboxInfo]:
    """Save the files as they are now; processes keep running."""
    return _Writer(at).asks("sandbox.save", _reads(SandboxInfo.read), timeout)


def sandbox_logs(at: Place, *, limit: int | None = None) -> Request[list[SandboxLogLine]]:
    """The log of its life, the oldest line first. limit: only the newest so many."""
    return _Writer(at).add(limit=limit).asks("sandbox.logs", _rows("lines", SandboxLogLine.read))


def sandbox_rename(at: Place, name: str) -> Request[SandboxInfo]:
    """Give it another name. This object keeps the one before: client.sandbox(name) has the new one."""
    return _Writer(at).add(name=name).asks("sandbox.rename", _reads(SandboxInfo.read))


def sandbox_fork(at: Place, count: int | None = None, *, names: Sequence[str] | None = None, timeout: float | None = None) -> Request[SandboxForks]:
    """Make new sandboxes with its definition, its files as they are now and its forkable contexts; it goes on. client.sandbox(name)
    opens each; they are not deleted by a `with` of this one.

    count  1 to 100; None: as many as names, or 1
    names  of the new sandboxes; None: generated ones
    """
    return _Writer(at).add(count=count, names=list(names) if names is not None else None).asks("sandbox.fork", _reads(SandboxForks.read), timeout)


def sandbox_snapshot(at: Place, name: str | None = None, *, replace: bool | None = None, labels: Mapping[str, str] | None = None,
                     timeout: float | None = None) -> Request[SnapshotInfo]:
    """Keep its files as they are now and its definition under a name, for new sandboxes: client.sandbox(snapshot=name).

    replace  in the place of an earlier snapshot of that name, which stays until this one is whole
    """
    return _Writer(at).add(snapshot=name, replace=replace, labels=_labels(labels)).asks("sandbox.snapshot", _reads(SnapshotInfo.read), timeout)


def sandbox_pause(at: Place, *, save: bool = True, memory: bool = True, timeout: float | None = None) -> Request[SandboxInfo]:
    """Freeze all its processes, which keep their memory. The next use, or resume, lets them go on;
    no timeout counts the time between. save: save its files first. memory=False: keep its files only;
    its processes end. InvalidStateError: it does not run, or a process could not be frozen."""
    return _Writer(at).add(save=None if save else False, memory=None if memory else False).asks("sandbox.pause", _reads(SandboxInfo.read), timeout)


def sandbox_resume(at: Place, *, timeout: float | None = None) -> Request[SandboxInfo]:
    """Let it go on if it is paused, or start it from its saved files: .resumed tells which."""
    return _Writer(at).asks("sandbox.resume", _reads(SandboxInfo.read), timeout)


def sandbox_commit(at: Place, image: str | None = None, *, env: Environment | None = None, labels: Environment | None = None,
                   working_dir: str | None = None, user: str | None = None, entrypoint: Sequence[str] | None = None,
                   cmd: Sequence[str] | None = None, exposed_ports: Sequence[str] | None = None,
                   startup: Mapping[str, str | int | None] | None = None, comment: str | None = None,
                   file_time: int | None = None, timeout: float | None = None) -> Request[ImageImport]:
    """Make an image of a sandbox with a writable root: its image with the changes outside of /workspace, /tmp, /home, /root
    and /run. The daemon's option --image-changes decides who may.

    image      the name to give, NAME[:TAG]; None: it has none, and prune_images removes it
    env        added to the variables of its image, as labels are to its labels; a value of None removes
    startup    commands of each sandbox of the image: {"start": …, "ready": …, "readyMs": …}; it is ready when that one succeeds
    file_time  of all changed files, in seconds since 1970; None: their own
    """
    config = {"env": env, "labels": labels, "workingDir": working_dir, "user": user, "entrypoint": entrypoint, "cmd": cmd,
              "exposedPorts": exposed_ports, "startup": startup}
    given = {name: dict(value) if isinstance(value, Mapping) else value if isinstance(value, str) else list(value)
             for name, value in config.items() if value is not None}
    w = _Writer(at).add(image=image, config=given or None, comment=comment, fileTime=file_time)
    return w.asks("sandbox.commit", _reads(ImageImport.read), timeout)


def sandbox_delete(at: Place) -> Request[None]:
    """End and delete it with all its data; also if there is none."""
    return _Writer(at).asks("sandbox.delete", _nothing)


def events(at: Place) -> Streaming[None, SandboxEvent]:
    """Iterate over its events: ports, processes, connections, states; until the sandbox is deleted."""
    return _Writer(at).streams("sandbox.events", _nothing,
                               lambda event: SandboxEvent(event.event, event.about) if isinstance(event, Happening) else None)


# ---- sessions ----

def session(at: Place, name: str | None = None, *, cwd: Path | None = None, env: Mapping[str, str] | None = None, isolation: bool | None = None,
            timeout_ms: int | None = None) -> Request[SessionInfo]:
    """A persistent shell: create it, or find the one of that name.

    isolation   in a pid namespace of its own
    timeout_ms  of commands without one of their own
    """
    w = _Writer(at).add(session=name, cwd=None if cwd is None else _path(cwd, "cwd")).env(env, False)
    return w.add(isolation=isolation, timeoutMs=timeout_ms).asks("session.create", _reads(SessionInfo.read))


def sessions(at: Place) -> Request[list[SessionInfo]]:
    return _Writer(at).asks("session.list", _rows("sessions", SessionInfo.read))


def session_delete(at: Place) -> Request[None]:
    """End it and its processes."""
    return _Writer(at).asks("session.delete", _nothing)


def set_env(at: Place, env: Environment) -> Request[None]:
    """Export variables into the session, or unset them (None)."""
    return _Writer(at).env(env).asks("session.env", _nothing)


# ---- commands ----

def _command(at: Place, command: Text, cwd: Path | None, env: Environment | None, timeout_ms: int | None) -> _Writer:
    return _Writer(at).add(command=_content(command, "command"), cwd=None if cwd is None else _path(cwd, "cwd")).env(env).add(timeoutMs=timeout_ms)


def exec(at: Place, command: Text, *, cwd: Path | None = None, env: Environment | None = None, stdin: Text | None = None,
         timeout_ms: int | None = None, output_bytes: int | None = None, fork: bool | None = None, on_output: OnStream | None = None,
         timeout: float | None = None) -> Request[Completed]:
    """Run a command in the session's shell, after all earlier ones: its directory, variables and functions stay.

    command       for the shell: several lines, here documents, anything
    cwd, env      for this command only
    timeout_ms    then everything it started is killed: exit_code 124, timed_out
    output_bytes  of each stream in the response (1 MiB); the rest is read with read_output()
    fork          in a copy of the shell, at once: without waiting for earlier ones, or changing the session
    on_output     receives output as it comes
    timeout       seconds to wait: then the command is killed, RunTimeoutError raised
    """
    w = _command(at, command, cwd, env, timeout_ms).add(stdin=None if stdin is None else _content(stdin, "stdin"))
    w.add(outputBytes=output_bytes, fork=fork, stream=True if on_output is not None else None)
    return w.asks("exec", _reads(Completed.read), timeout, on_output)


def stream(at: Place, command: Text, *, cwd: Path | None = None, env: Environment | None = None, stdin: Text | None = None,
           timeout_ms: int | None = None, output_bytes: int | None = None, fork: bool | None = None) -> Streaming[Completed, Output]:
    """As exec, but iterate over its output while it runs; afterwards `result`. Leaving early kills it."""
    w = _command(at, command, cwd, env, timeout_ms).add(stdin=None if stdin is None else _content(stdin, "stdin"))
    return w.add(outputBytes=output_bytes, fork=fork, stream=True).streams("exec", _reads(Completed.read), _output_item)


def read_output(at: Place, output: Completed | CellResult | str, stream: Literal["stdout", "stderr"] = "stdout", *, offset: int | None = None,
                limit: int | None = None) -> Request[OutputPage]:
    """A page of the output of a command or cell: of a result of exec() or run_code(), or its `output`."""
    ident = output if isinstance(output, str) else output.output
    if ident is None:
        raise InvalidArgumentError("read_output: this command's output was not kept")
    return _Writer(at).add(output=ident, stream=stream, offset=offset, limit=limit).asks("output.read", _reads(OutputPage.read))


# ---- processes ----

def start(at: Place, command: Text, *, id: str | None = None, cwd: Path | None = None, env: Environment | None = None, stdin: bool = False,
          timeout_ms: int | None = None, auto_cleanup: bool | None = None, terminal: tuple[int, int] | None = None, paced: bool | None = None) -> Request[ProcessInfo]:
    """Start a command in the background, with the session's variables, functions and directory.

    stdin         keep its input open, for input()
    auto_cleanup  remove it from the list after its end
    terminal      (columns, rows): run on a terminal of its own
    paced         it waits for the readers of its output, rather than that they miss some
    """
    w = _command(at, command, cwd, env, timeout_ms).add(process=id, stdin=True if stdin else None, autoCleanup=auto_cleanup, paced=paced)
    if terminal is not None:
        cols, rows = terminal
        w.add(terminal={"cols": cols, "rows": rows})
    return w.asks("process.start", _reads(ProcessInfo.read))


def processes(at: Place) -> Request[list[ProcessInfo]]:
    """List the started processes that were not removed."""
    return _Writer(at).asks("process.list", _rows("processes", ProcessInfo.read))


def kill_all(at: Place, *, grace_ms: int | None = None) -> Request[int]:
    """SIGTERM, and SIGKILL after grace_ms (5,000), to all that run. Returns their number."""
    return _Writer(at).add(graceMs=grace_ms).asks("process.killAll", _number("count"))


def cleanup(at: Place) -> Request[int]:
    """Remove ended processes from the list. Returns their number."""
    return _Writer(at).asks("process.cleanup", _number("count"))


def process_info(at: Place) -> Request[ProcessInfo]:
    return _Writer(at).asks("process.get", _reads(ProcessInfo.read))


def process_kill(at: Place, signal: str | int | None = None, *, tree: bool | None = None, grace_ms: int | None = None) -> Request[ProcessInfo]:
    """Signal it and its descendants, at once; without a signal SIGTERM, SIGKILL after grace_ms (5,000), and wait until all are dead.

    tree  False: only the process itself
    """
    w = _Writer(at).add(signal=None if signal is None else str(int(signal)) if isinstance(signal, int) else signal, tree=tree, graceMs=grace_ms)
    return w.asks("process.kill", _reads(ProcessInfo.read))


def process_logs(at: Place, *, offset: int | None = None, limit: int | None = None) -> Request[Logs]:
    """Its output so far: at most `limit` bytes (1 MiB) of each stream from `offset` on."""
    return _Writer(at).add(offset=offset, limit=limit).asks("process.logs", _reads(Logs.read))


def process_follow(at: Place, *, replay: bool | None = None) -> Streaming[ProcessInfo, Output]:
    """Iterate over its output so far, then over new output, until it ends; afterwards `result`. Leaving early keeps it running.

    replay  False: only new output
    """
    return _Writer(at).add(replay=replay).streams("process.follow", _reads(ProcessInfo.read), _output_item)


def process_input(at: Place, data: Text | None = None, *, end: bool | None = None) -> Request[None]:
    """Write to its input or terminal; returns when the kernel has all of it.

    end  then close it
    """
    return _Writer(at).add(data=None if data is None else _content(data, "data"), end=end).asks("process.input", _nothing)


def process_resize(at: Place, cols: int, rows: int) -> Request[None]:
    """Resize its terminal."""
    return _Writer(at).add(cols=cols, rows=rows).asks("process.resize", _nothing)


def process_wait(at: Place, *, timeout_ms: int | None = None, timeout: float | None = None) -> Request[ProcessInfo]:
    """Wait until it has ended. timeout_ms: then TimeoutError of cloche.errors."""
    read = _reads(Waited.read)
    return _Writer(at).add(timeoutMs=timeout_ms).asks("process.wait", lambda message: read(message).process, timeout)


def process_wait_for(at: Place, *, text: str | None = None, pattern: str | None = None, port: int | None = None, path: str | None = None,
                     status: tuple[int, int] | None = None, timeout_ms: int | None = None, timeout: float | None = None) -> Request[Waited]:
    """Wait until it has printed a text, or serves a port. ProcessEndedError if it ends before: then `data` of the error
    has `condition` (the option's name) and `exitCode`.

    text     a line of its output that contains this
    pattern  a line that matches this regular expression (PCRE2)
    port     it accepts connections; path: and responds to GET over HTTP, with a status from (first, last)
    """
    if text is None and pattern is None and port is None:
        raise InvalidArgumentError("wait_for: expected text, pattern or port")
    w = _Writer(at).add(text=text, pattern=pattern, port=port, path=path, status=None if status is None else list(status), timeoutMs=timeout_ms)
    return w.asks("process.wait", _reads(Waited.read), timeout)


# ---- files ----

def write_file(at: Place, path: Path, content: Text, *, append: bool | None = None, offset: int | None = None, mode: int | None = None) -> Request[int]:
    """Write a file, byte for byte; missing parent directories are created. Returns the number of bytes written.

    offset  write from here, without truncating it
    """
    w = _Writer(at).add(path=_path(path), content=_content(content, "content"), append=append, offset=offset, mode=mode)
    return w.asks("file.write", _number("bytes"))


def read_file(at: Place, path: Path, *, offset: int | None = None, limit: int | None = None) -> Request[FileContent]:
    """Read a file, or a piece of it; without `limit` at most 32 MiB (see download())."""
    return _Writer(at).add(path=_path(path), offset=offset, limit=limit).asks("file.read", _reads(FileContent.read))


def stat(at: Place, path: Path) -> Request[FileEntry]:
    return _Writer(at).add(path=_path(path)).asks("file.stat", _reads(FileEntry.read))


def exists(at: Place, path: Path) -> Request[bool]:
    return _Writer(at).add(path=_path(path)).asks("file.exists", lambda message: bool(read_object(message).get("exists")))


def list_files(at: Place, path: Path = "/workspace", *, recursive: bool | None = None, hidden: bool | None = None, after: str | None = None,
               limit: int | None = None) -> Request[FileList]:
    """List a directory, sorted by path; links are not followed.

    hidden  names that begin with a dot too
    after   `next` of the page before
    """
    w = _Writer(at).add(path=_path(path), recursive=recursive, hidden=hidden, after=after, limit=limit)
    return w.asks("file.list", _reads(FileList.read))


def make_directory(at: Place, path: Path, *, recursive: bool | None = None, mode: int | None = None) -> Request[bool]:
    """Create a directory. True if it was created.

    recursive  create missing parents, and accept an existing one
    """
    w = _Writer(at).add(path=_path(path), recursive=recursive, mode=mode)
    return w.asks("file.mkdir", lambda message: bool(read_object(message).get("created")))


def _moves(method: str, at: Place, source: Path, target: Path, overwrite: bool | None) -> Request[str]:
    w = _Writer(at).add(to=_path(target, "target"), overwrite=overwrite)
    return w.add(**{"from": _path(source, "source")}).asks(method, _text_of("to"))


def move(at: Place, source: Path, target: Path, *, overwrite: bool | None = None) -> Request[str]:
    """Returns the new path: within `target` if that is a directory."""
    return _moves("file.move", at, source, target, overwrite)


def copy(at: Place, source: Path, target: Path, *, overwrite: bool | None = None) -> Request[str]:
    """Copies directories with their content. Returns the path of the copy: within `target` if that is a directory."""
    return _moves("file.copy", at, source, target, overwrite)


def remove(at: Place, path: Path, *, recursive: bool | None = None, force: bool | None = None) -> Request[int]:
    """Returns the number of deleted files and directories.

    recursive  delete directories with their content
    force      accept a missing path
    """
    return _Writer(at).add(path=_path(path), recursive=recursive, force=force).asks("file.remove", _number("count"))


def _globs(globs: Sequence[str] | None, name: str) -> list[str] | None:
    return None if globs is None else _texts(globs, name)


def search(at: Place, path: Path = "/workspace", *, text: str | None = None, pattern: str | None = None, include: Sequence[str] | None = None,
           exclude: Sequence[str] | None = None, ignore_case: bool | None = None, limit: int | None = None,
           timeout: float | None = None) -> Request[Found]:
    """Lines of files with `text`, or that match `pattern` (PCRE2).

    include, exclude  globs of paths below it; exclude is .git and node_modules by default
    """
    w = _Writer(at).add(path=_path(path), text=text, pattern=pattern, include=_globs(include, "include"), exclude=_globs(exclude, "exclude"))
    return w.add(ignoreCase=ignore_case, limit=limit).asks("file.search", _reads(Found.read), timeout)


def replace(at: Place, path: Path, replacement: str, *, text: str | None = None, pattern: str | None = None, include: Sequence[str] | None = None,
            exclude: Sequence[str] | None = None, ignore_case: bool | None = None, dry_run: bool | None = None,
            timeout: float | None = None) -> Request[Replaced]:
    """Replace `text`, or matches of `pattern`, in files; each is rewritten whole or not at all. The
    replacement of a pattern may contain $1 and ${name}."""
    w = _Writer(at).add(path=_path(path), text=text, pattern=pattern, replacement=replacement, include=_globs(include, "include"))
    return w.add(exclude=_globs(exclude, "exclude"), ignoreCase=ignore_case, dryRun=dry_run).asks("file.replace", _reads(Replaced.read), timeout)


def watch(at: Place, path: Path = "/workspace", *, recursive: bool | None = None, include: Sequence[str] | None = None,
          exclude: Sequence[str] | None = None) -> Streaming[None, FileChange]:
    """Iterate over changes from now on.

    include, exclude  globs, one of them; exclude is .git, node_modules and .DS_Store by default
    """
    w = _Writer(at).add(path=_path(path), recursive=recursive, include=_globs(include, "include"), exclude=_globs(exclude, "exclude"))
    return w.streams("file.watch", _nothing, _change_item, "ready")


def _change_item(event: Event) -> FileChange | None:
    return FileChange.read(event.event, event.about) if isinstance(event, Happening) and event.event in ("change", "lost") else None


def pack(at: Place, path: Path, target: Path, *, format: Literal["tar", "tar.gz", "tar.zst", "zip"] | None = None,
         exclude: Sequence[str] | None = None, links: Literal["any", "inside"] | None = None, timeout: float | None = None) -> Request[Archived]:
    """Pack a tree into an archive in the sandbox; the name determines the format, unless `format`
    does. links "inside": one that leads out of the tree is an error."""
    w = _Writer(at).add(path=_path(path), to=_path(target, "target"), format=format, exclude=_globs(exclude, "exclude"), links=links)
    return w.asks("archive.create", _reads(Archived.read), timeout)


def unpack(at: Place, path: Path, target: Path, *, timeout: float | None = None) -> Request[Archived]:
    """Unpack an archive into a directory, created if missing; nothing is written if a member is not permitted."""
    return _Writer(at).add(path=_path(path), to=_path(target, "target")).asks("archive.extract", _reads(Archived.read), timeout)


# ---- git, ports, network ----

def checkout(at: Place, url: str, dir: Path | None = None, *, branch: str | None = None, depth: int | None = None, username: str | None = None,
             password: str | None = None, timeout_ms: int | None = None, on_output: OnStream | None = None,
             timeout: float | None = None) -> Request[Checkout]:
    """Clone a repository, in the sandbox and through its network.

    dir       None: below /workspace, under the repository's name
    password  or a token; appears in no command line, file or response
    """
    w = _Writer(at).add(url=url, dir=None if dir is None else _path(dir, "dir"), branch=branch, depth=depth, username=username, password=password)
    return w.add(timeoutMs=timeout_ms).asks("git.checkout", _reads(Checkout.read), timeout, on_output)


def expose_port(at: Place, port: int, *, name: str | None = None, token: str | None = None) -> Request[ExposedPort]:
    """Let every holder of the token reach a port: `url`, if the daemon has a preview host."""
    return _Writer(at).add(port=port, name=name, token=token).asks("port.expose", _reads(ExposedPort.read))


def unexpose_port(at: Place, port: int) -> Request[bool]:
    """Undo expose_port(). True if it was exposed. Open connections end."""
    return _Writer(at).add(port=port).asks("port.unexpose", lambda message: bool(read_object(message).get("exposed")))


def ports(at: Place) -> Request[Ports]:
    return _Writer(at).asks("port.list", _reads(Ports.read))


def wait_for_port(at: Place, port: int, *, path: str | None = None, status: tuple[int, int] | None = None, timeout_ms: int | None = None,
                  timeout: float | None = None) -> Request[int | None]:
    """Wait until the port accepts connections; with `path` until it responds to GET over HTTP, with
    a matching status."""
    w = _Writer(at).add(port=port, path=path, status=None if status is None else list(status), timeoutMs=timeout_ms)
    def read(message: Message) -> int | None:
        status: int | None = _get(read_object(message), "status", int, None)
        return status

    return w.asks("port.wait", read, timeout)


def network_log(at: Place, *, after: int | None = None) -> Request[list[NetworkDecision]]:
    """The last decisions about connections; only those after this number."""
    return _Writer(at).add(after=after).asks("network.log", _rows("decisions", NetworkDecision.read))
