"""All requests, ready to be sent. Pure: arguments are checked here, before anything moves.

The functions with long lists of keywords are the methods of both clients and of prefixes (see _sync and _async)."""
from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union

from ._base_errors import ValueRefusedError
from ._declare import Declarations, Declarer, HostFunction, Target, rebind
from ._mount import Conflict, Links, Mount, OnError, _given, mount_tree
from ._results import (Change, Changes, Denial, Guard, Language, PrefixInfo, Result, SyncOutcome, SyncPlan, SyncReport, read_object,
                       read_rows)
from ._rpc import Message
from ._sandbox_results import Network
from ._values import Encoder, make_encoder
from .errors import InvalidArgumentError, NotFoundError, ProtocolError, UnreadableFileError
from .limits import JSON_NAMES, Limits

if TYPE_CHECKING:
    from ._core import Happening

T = TypeVar("T")
Maybe = Union[Awaitable[T], T]

Code = Union[str, bytes]
OnOutput = Callable[[Literal["stdout", "stderr"], bytes], Maybe[object]]
OnDenied = Callable[[Denial], Maybe[object]]


@dataclass(frozen=True)
class Skip:
    """A result of before_sync: skip this change."""

    reason: str | None = None


@dataclass(frozen=True)
class Abort:
    """A result of before_sync: write nothing at all."""

    reason: str | None = None


Decision = Literal["continue", "skip", "abort"] | Skip | Abort | None
BeforeSync = Callable[[Change], Maybe[Decision]]
AfterSync = Callable[[SyncOutcome], Maybe[object]]
OnSyncError = Callable[[Change, str], Maybe[object]]


@dataclass(frozen=True)
class File:
    """A file of the box."""

    content: str | bytes
    mode: int | None = None


@dataclass(frozen=True)
class Directory:
    mode: int | None = None


@dataclass(frozen=True)
class Symlink:
    target: str


Files = Mapping[str, "str | bytes | os.PathLike[str] | File | Directory | Symlink"]
"""Path in the box to content; a pathlib.Path is a file of the host, read immediately."""


Rules = Union[Network, Mapping[str, Union[Sequence[str], bool, Mapping[str, Mapping[str, str]]]]]


@dataclass(frozen=True)
class Handlers:
    """The callbacks of a run."""

    functions: Mapping[Target, HostFunction] = field(default_factory=dict)
    on_output: OnOutput | None = None
    on_permission_denied: OnDenied | None = None
    before_sync: BeforeSync | None = None
    after_sync: AfterSync | None = None
    on_sync_error: OnSyncError | None = None
    on_event: Callable[[Happening], Maybe[object]] | None = None
    """For a request about a sandbox: all events except output."""
    reply: Callable[[Happening, Any], Request[None] | None] = lambda event, answer: None
    """Makes the request that follows from the result of on_event."""

    def events(self) -> list[str]:
        """The callbacks of a mount, by the names of the contract."""
        rows = [("beforeSync", self.before_sync), ("afterSync", self.after_sync), ("syncError", self.on_sync_error),
                ("permissionDenied", self.on_permission_denied)]
        return [name for name, handler in rows if handler is not None]


@dataclass(frozen=True)
class Request(Generic[T]):
    method: str
    params: dict[str, Any]
    read: Callable[[Message], T]
    parts: Sequence[bytes] = ()
    handlers: Handlers = Handlers()
    references: bool = False
    timeout: float | None = None
    forget: Callable[[Message], Request[None] | None] = lambda message: None
    """Makes the request that releases the daemon's data after an unawaited response."""


@dataclass(frozen=True)
class PrefixData:
    """The client's data about a prefix that it made."""

    id: str
    language: str
    bare: bool
    functions: Mapping[Target, HostFunction] = field(default_factory=dict)


# ---- small ones ----

def limits_tree(limits: Limits | Mapping[str, int]) -> dict[str, int]:
    """Names in either spelling; the daemon checks the numbers."""
    if isinstance(limits, Limits):
        return {name: value for field_, name in JSON_NAMES.items() if (value := getattr(limits, field_)) is not None}
    if not isinstance(limits, Mapping):
        raise InvalidArgumentError(f"limits must be Limits or a mapping, not a {type(limits).__name__}")
    out: dict[str, int] = {}
    for name, value in limits.items():
        if name not in JSON_NAMES and name not in JSON_NAMES.values():
            raise InvalidArgumentError(f"limits: there is no {name!r}; there are: {', '.join(JSON_NAMES)}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidArgumentError(f"limits: {name} must be an integer, not {value!r}")
        out[JSON_NAMES.get(name, name)] = value
    return out


def files_tree(files: Files, encoder: Encoder) -> dict[str, Any]:
    if not isinstance(files, Mapping):
        raise InvalidArgumentError(f"files must be a mapping of paths, not a {type(files).__name__}")
    return {_plain_path(path): _file_tree(source, path, encoder) for path, source in files.items()}


def _plain_path(path: str) -> str:
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidArgumentError(f"files: {path!r} is no path: a text that is not empty and has no NUL is expected")
    return path


def _file_tree(source: Any, path: str, encoder: Encoder) -> Any:
    root = f"files[{path!r}]"
    if isinstance(source, (str, bytes, bytearray, memoryview)):
        return encoder.value(source, root)
    if isinstance(source, os.PathLike):
        return encoder.value(_read_file(os.fspath(source)), root)
    if isinstance(source, File):
        return _with_mode({"content": encoder.value(source.content, root)}, source.mode, root)
    if isinstance(source, Directory):
        return _with_mode({"directory": True}, source.mode, root)
    if isinstance(source, Symlink):
        return {"symlink": encoder.value(source.target, root)}
    raise InvalidArgumentError(f"{root} must be text, bytes, a path of the host, File, Directory or Symlink, not a {type(source).__name__}")


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise UnreadableFileError(f"files: {path}: {error.strerror}") from error


def _with_mode(tree: dict[str, Any], mode: int | None, root: str) -> dict[str, Any]:
    if mode is None:
        return tree
    if isinstance(mode, bool) or not isinstance(mode, int) or not 0 <= mode <= 0o7777:
        raise InvalidArgumentError(f"{root}: mode must be an integer from 0 to 0o7777, not {mode!r}")
    return {**tree, "mode": mode}


def _texts(texts: Sequence[str], name: str) -> list[str]:
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Sequence):
        raise InvalidArgumentError(f"{name} must be a sequence of texts, not a {type(texts).__name__}")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidArgumentError(f"{name}[{index}] must be text, not a {type(text).__name__}")
    return list(texts)


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise InvalidArgumentError(f"env must be a mapping, not a {type(env).__name__}")
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidArgumentError(f"env: {name!r} and its value must be texts")
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise InvalidArgumentError(f"env: {name!r} cannot be a variable: no name, or '=' or NUL in it")
    return dict(env)


def check_timeout(timeout: float | None) -> float | None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
        raise InvalidArgumentError(f"timeout must be a number of seconds greater than 0, not {timeout!r}")
    return timeout


def network_tree(network: Rules | None) -> dict[str, Any] | None:
    if network is None:
        return None
    told: Mapping[str, Any] = {"allow": network.allow, "deny": network.deny} if isinstance(network, Network) else network
    if not isinstance(told, Mapping):
        raise InvalidArgumentError(f"network must be a Network or a mapping of allow and deny, not a {type(network).__name__}")
    return {name: rules if isinstance(rules, (bool, Mapping)) else _texts(rules, f"network.{name}") for name, rules in told.items()}  # type: ignore[misc]


# ---- runs ----

class _RunWriter:
    """Collects the parameters of a run; None is omitted."""

    def __init__(self, references: bool) -> None:
        self.encoder = make_encoder(references)
        self.declarer = Declarer(self.encoder)
        self.params: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> None:
        if value is not None:
            self.params[name] = value

    def text(self, name: str, value: str | None) -> None:
        if value is None:
            return
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} must be text, not a {type(value).__name__}")
        self.params[name] = self.encoder.value(value, name)

    def code(self, code: Code) -> None:
        if not isinstance(code, (str, bytes)):
            raise InvalidArgumentError(f"code must be text or bytes, not a {type(code).__name__}")
        if isinstance(code, str) and any("\ud800" <= letter <= "\udfff" for letter in code):
            raise ValueRefusedError("code: string with a lone surrogate, which is no source text")
        self.params["code"] = self.encoder.value(code, "code")

    def value(self, name: str, value: Any) -> None:
        if value is not None:
            self.params[name] = self.encoder.value(value, name)

    def arguments(self, args: Any, kwargs: Mapping[str, Any] | None) -> None:
        if not isinstance(args, (Sequence, Mapping)) or isinstance(args, (str, bytes, bytearray)):
            raise InvalidArgumentError(f"args must be a sequence or a mapping, not a {type(args).__name__}")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise InvalidArgumentError(f"kwargs must be a mapping, not a {type(kwargs).__name__}")
        if args:
            self.value("args", args if isinstance(args, (list, tuple, dict)) else dict(args) if isinstance(args, Mapping) else list(args))
        if kwargs:
            self.value("kwargs", dict(kwargs))

    def surroundings(self, *, files: Files | None, mount: Mount | Mapping[str, Any] | None, limits: Limits | Mapping[str, int] | None,
                     env: Mapping[str, str] | None, handlers: Handlers) -> None:
        self.add("files", files_tree(files, self.encoder) if files else None)
        self.add("limits", limits_tree(limits) if limits is not None else None)
        self.add("env", _environment(env) if env else None)
        if mount is not None:
            tree = mount_tree(mount)
            events = handlers.events()
            self.params["mount"] = self.encoder.value({**tree, "events": events} if events else tree, "mount")
        if handlers.on_output is not None:
            self.params["stream"] = True

    def declarations(self, globals: Declarations | None, imports: Declarations | None) -> None:
        self.add("globals", self.declarer.globals(globals) if globals else None)
        self.add("imports", self.declarer.imports(imports) if imports else None)

    def request(self, method: str, handlers: Handlers, timeout: float | None, references: bool) -> Request[Result]:
        return Request(method, self.params, Result.read, self.encoder.parts, handlers, references, check_timeout(timeout), _forget_changes)


def _settings(settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if settings is None else dict(settings)


def call(language: str, code: Code, function: str | None = None, args: Sequence[Any] | Mapping[str, Any] = (),
         kwargs: Mapping[str, Any] | None = None, *, schema: Mapping[str, Any] | None = None, build: Mapping[str, Any] | None = None,
         filename: str | None = None, image: str | None = None, image_settings: Mapping[str, Any] | None = None, workdir: str | None = None, env: Mapping[str, str] | None = None,
         files: Files | None = None, mount: Mount | Mapping[str, Any] | None = None, network: Rules | None = None, limits: Limits | Mapping[str, int] | None = None,
         globals: Declarations | None = None, imports: Declarations | None = None, warm: bool | None = None,
         collect: Sequence[str] = (), result_options: Mapping[str, bool] | None = None, references: bool = False,
         on_output: OnOutput | None = None, on_permission_denied: OnDenied | None = None, before_sync: BeforeSync | None = None,
         after_sync: AfterSync | None = None,
         on_sync_error: OnSyncError | None = None, timeout: float | None = None) -> Request[Result]:
    """Call a function of the code in a box of its own.

    function    its name; by default the one public function of the code, else the code is the body
    globals     the host's globals in the code: name to function (sync or async), constant, or mapping of these
    image       the root file system: an image of the daemon's store, by its name or as sha256-DIGITS; by default the daemon's own
    image_settings  what applies with a digest in place of a name: {"env": {"A": "1"}, "workingDirectory": "/srv"}
    network     permitted connections; by default none. Such a call is started cold
    collect     paths to read back after the end: `result.collected`
    references  True: preserve shared and cyclic containers; by default shared ones are copied, cyclic ones refused
    timeout     seconds to wait: then the run is cancelled, RunTimeoutError raised.
                (limits={"wall_ms": ...} bounds the run itself, and gives a result with status "timeout".)
    """
    w = _RunWriter(references)
    w.text("language", language)
    w.code(code)
    w.text("function", function)
    w.arguments(args, kwargs)
    w.value("schema", schema and dict(schema))
    w.value("build", build and dict(build))
    w.text("filename", filename)
    w.text("image", image)
    w.add("imageSettings", _settings(image_settings))
    w.text("workdir", workdir)
    w.declarations(globals, imports)
    handlers = Handlers(w.declarer.functions, on_output, on_permission_denied, before_sync, after_sync, on_sync_error)
    w.surroundings(files=files, mount=mount, limits=limits, env=env, handlers=handlers)
    w.add("network", network_tree(network))
    w.add("warm", warm)
    w.add("collect", _texts(collect, "collect") or None)
    w.value("resultOptions", result_options and dict(result_options))
    return w.request("call", handlers, timeout, references)


def script(language: str, code: Code, argv: Sequence[str] = (), *, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None,
           filename: str | None = None, image: str | None = None, image_settings: Mapping[str, Any] | None = None, workdir: str | None = None, files: Files | None = None,
           mount: Mount | Mapping[str, Any] | None = None, network: Rules | None = None, limits: Limits | Mapping[str, int] | None = None,
           globals: Declarations | None = None, imports: Declarations | None = None, warm: bool | None = None,
           collect: Sequence[str] = (), result_options: Mapping[str, bool] | None = None, on_output: OnOutput | None = None,
           on_permission_denied: OnDenied | None = None, before_sync: BeforeSync | None = None, after_sync: AfterSync | None = None,
           on_sync_error: OnSyncError | None = None, timeout: float | None = None) -> Request[Result]:
    """Run a program in a box of its own: its streams and its exit code are the result."""
    w = _RunWriter(False)
    w.text("language", language)
    w.code(code)
    w.add("argv", _texts(argv, "argv") or None)
    if stdin is not None and not isinstance(stdin, (str, bytes, bytearray, memoryview)):
        raise InvalidArgumentError(f"stdin must be text or bytes, not a {type(stdin).__name__}")
    w.value("stdin", stdin)
    w.text("filename", filename)
    w.text("image", image)
    w.add("imageSettings", _settings(image_settings))
    w.text("workdir", workdir)
    w.declarations(globals, imports)
    handlers = Handlers(w.declarer.functions, on_output, on_permission_denied, before_sync, after_sync, on_sync_error)
    w.surroundings(files=files, mount=mount, limits=limits, env=env, handlers=handlers)
    w.add("network", network_tree(network))
    w.add("warm", warm)
    w.add("collect", _texts(collect, "collect") or None)
    w.value("resultOptions", result_options and dict(result_options))
    return w.request("script", handlers, timeout, False)


def evaluate(code: Code, *, language: str = "javascript", filename: str | None = None, image: str | None = None, image_settings: Mapping[str, Any] | None = None, limits: Limits | Mapping[str, int] | None = None,
             globals: Declarations | None = None, imports: Declarations | None = None, references: bool = True,
             on_output: OnOutput | None = None, timeout: float | None = None) -> Request[Result]:
    """Evaluate an ECMAScript module in a realm of its own, without Node: `result.exports`, `result.console`."""
    w = _RunWriter(references)
    w.text("language", language)
    w.code(code)
    w.text("filename", filename)
    w.text("image", image)
    w.add("imageSettings", _settings(image_settings))
    w.declarations(globals, imports)
    handlers = Handlers(w.declarer.functions, on_output)
    w.surroundings(files=None, mount=None, limits=limits, env=None, handlers=handlers)
    return w.request("evaluate", handlers, timeout, references)


# ---- prefixes ----

def prefix(language: str, code: Code = "", *, bare: bool = False, name: str | None = None, idle_ms: int | None = None,
           filename: str | None = None, image: str | None = None, image_settings: Mapping[str, Any] | None = None, build: Mapping[str, Any] | None = None, files: Files | None = None,
           limits: Limits | Mapping[str, int] | None = None, globals: Declarations | None = None, imports: Declarations | None = None,
           timeout: float | None = None) -> Request[PrefixData]:
    """Run set-up code once; every run of the prefix begins where it ended.

    bare     set up the bare realm, for modules (prefix.evaluate)
    image    as in call: runs of the prefix have the same
    name     it outlives the connection, until it is disposed of, or unused for idle_ms (600,000; 0: for ever)
    globals  the host's globals in runs of the prefix; each run may replace the functions
    """
    w = _RunWriter(False)
    w.text("language", language)
    w.code(code)
    w.add("bare", True if bare else None)
    w.text("name", name)
    w.add("idleMs", idle_ms)
    w.text("filename", filename)
    w.text("image", image)
    w.add("imageSettings", _settings(image_settings))
    w.value("build", build and dict(build))
    w.declarations(globals, imports)
    w.surroundings(files=files, mount=None, limits=limits, env=None, handlers=Handlers())

    def read(message: Message) -> PrefixData:
        ident = read_object(message).get("prefix")
        if not isinstance(ident, str):
            raise ProtocolError("the daemon made a prefix and did not say which")
        return PrefixData(ident, language, bare, w.declarer.functions)

    return Request("prefix.create", w.params, read, w.encoder.parts, Handlers(), False, check_timeout(timeout), _forget_prefix)


def _forget_prefix(message: Message) -> Request[None] | None:
    ident = message.result.get("prefix") if isinstance(message.result, dict) else None
    return Request("prefix.dispose", {"prefix": ident}, lambda message: None) if isinstance(ident, str) else None


def _of_prefix(prefix: PrefixData, references: bool) -> _RunWriter:
    w = _RunWriter(references)
    w.text("language", prefix.language)
    w.params["prefix"] = prefix.id
    return w


def prefix_call(prefix: PrefixData, code: Code = "", function: str | None = None, args: Sequence[Any] | Mapping[str, Any] = (),
                kwargs: Mapping[str, Any] | None = None, *, schema: Mapping[str, Any] | None = None, filename: str | None = None,
                files: Files | None = None, mount: Mount | Mapping[str, Any] | None = None,
                limits: Limits | Mapping[str, int] | None = None, globals: Declarations | None = None,
                collect: Sequence[str] = (), result_options: Mapping[str, bool] | None = None, references: bool = False,
                on_output: OnOutput | None = None, on_permission_denied: OnDenied | None = None, before_sync: BeforeSync | None = None,
                after_sync: AfterSync | None = None, on_sync_error: OnSyncError | None = None,
                timeout: float | None = None) -> Request[Result]:
    """Call a function of the code, or of the set-up; it sees everything that the set-up left.

    globals  other functions in place of those that the prefix declared, for this run
    """
    w = _of_prefix(prefix, references)
    w.code(code)
    w.text("function", function)
    w.arguments(args, kwargs)
    w.value("schema", schema and dict(schema))
    w.text("filename", filename)
    handlers = Handlers(rebind(prefix.functions, globals or {}), on_output, on_permission_denied, before_sync, after_sync, on_sync_error)
    w.surroundings(files=files, mount=mount, limits=limits, env=None, handlers=handlers)
    w.add("collect", _texts(collect, "collect") or None)
    w.value("resultOptions", result_options and dict(result_options))
    return w.request("call", handlers, timeout, references)


def prefix_script(prefix: PrefixData, code: Code, argv: Sequence[str] = (), *, stdin: str | bytes | None = None,
                  filename: str | None = None, files: Files | None = None, mount: Mount | Mapping[str, Any] | None = None,
                  limits: Limits | Mapping[str, int] | None = None, globals: Declarations | None = None,
                  on_output: OnOutput | None = None, timeout: float | None = None) -> Request[Result]:
    """Run a program that begins where the set-up ended."""
    w = _of_prefix(prefix, False)
    w.code(code)
    w.add("argv", _texts(argv, "argv") or None)
    w.value("stdin", stdin)
    w.text("filename", filename)
    handlers = Handlers(rebind(prefix.functions, globals or {}), on_output)
    w.surroundings(files=files, mount=mount, limits=limits, env=None, handlers=handlers)
    return w.request("script", handlers, timeout, False)


def prefix_evaluate(prefix: PrefixData, code: Code, *, filename: str | None = None, limits: Limits | Mapping[str, int] | None = None,
                    globals: Declarations | None = None, references: bool = True, on_output: OnOutput | None = None,
                    timeout: float | None = None) -> Request[Result]:
    """Evaluate a module in the realm that a bare prefix has set up."""
    w = _of_prefix(prefix, references)
    w.code(code)
    w.text("filename", filename)
    handlers = Handlers(rebind(prefix.functions, globals or {}), on_output)
    w.surroundings(files=None, mount=None, limits=limits, env=None, handlers=handlers)
    return w.request("evaluate", handlers, timeout, references)


def prefix_dispose(prefix: PrefixData) -> Request[None]:
    return Request("prefix.dispose", {"prefix": prefix.id}, lambda message: None)


def find_prefix(prefix: str, *, globals: Declarations | None = None) -> Request[PrefixData]:
    """An existing prefix, by its name or id. globals: the functions that it declared, to be provided by this client."""
    declarer = Declarer(Encoder())
    declarer.globals(globals or {})

    def read(message: Message) -> PrefixData:
        for row in read_rows(message, "prefixes"):
            info = PrefixInfo.read(row)
            if prefix in (info.prefix, info.name):
                return PrefixData(info.prefix, info.language, bool(row.get("bare")), declarer.functions)
        raise NotFoundError(f"there is no prefix {prefix!r}")

    return Request("prefix.list", {}, read)


def prefixes() -> Request[list[PrefixInfo]]:
    """List the prefixes that this client may use."""
    return Request("prefix.list", {}, lambda message: [PrefixInfo.read(row) for row in read_rows(message, "prefixes")])


# ---- changes ----


def _changes_params(changes: Changes | str | Sequence[Change], mount: Mount | Mapping[str, Any] | None,
                    encoder: Encoder) -> dict[str, Any]:
    if isinstance(changes, str):
        return {"changeset": changes}
    if isinstance(changes, Changes) and changes.changeset is not None:
        return {"changeset": changes.changeset}
    if mount is None:
        raise InvalidArgumentError("sync: these changes belong to no change set of the daemon's: say of which mount they are")
    rows = changes.all if isinstance(changes, Changes) else list(changes)
    if not all(isinstance(row, Change) for row in rows):
        raise InvalidArgumentError("sync: changes must be those of a result, the id of a change set, or a sequence of Change")
    return {"changes": encoder.value([dict(row.raw) for row in rows], "changes"),
            "mount": encoder.value(mount_tree(mount), "mount")}


def sync(changes: Changes | str | Sequence[Change], mount: Mount | Mapping[str, Any] | None = None, *, on_error: OnError = "rollback",
         conflict: Conflict | None = None, links: Links | None = None, before_sync: BeforeSync | None = None, after_sync: AfterSync | None = None,
         on_sync_error: OnSyncError | None = None, timeout: float | None = None) -> Request[SyncReport]:
    """Write changes to the host: a run's `changes`, the id of a change set, or some changes of a mount.

    before_sync  decides about each: None and "continue" write it, "skip" omits it, "abort" writes nothing at all
    """
    encoder = Encoder()
    handlers = Handlers(before_sync=before_sync, after_sync=after_sync, on_sync_error=on_sync_error)
    params: dict[str, Any] = {**_changes_params(changes, mount, encoder), "onError": on_error,
                              **_given(conflict=conflict, links=links, events=handlers.events() or None)}
    return Request("sync", params, lambda message: SyncReport.read(read_object(message)), encoder.parts, handlers, False,
                   check_timeout(timeout))


def plan_sync(changes: Changes | str | Sequence[Change], mount: Mount | Mapping[str, Any] | None = None, *,
              conflict: Conflict | None = None, links: Links | None = None, timeout: float | None = None) -> Request[SyncPlan]:
    """The dry run: the steps that sync() would take, without taking them."""
    encoder = Encoder()
    params: dict[str, Any] = {**_changes_params(changes, mount, encoder), "dryRun": True, **_given(conflict=conflict, links=links)}
    return Request("sync", params, lambda message: SyncPlan.read(read_object(message)), encoder.parts, timeout=check_timeout(timeout))


def drop_changes(changes: Changes | str) -> Request[None]:
    """Delete a change set and its contents."""
    ident = changes if isinstance(changes, str) else changes.changeset
    if ident is None:
        raise InvalidArgumentError("drop_changes: these changes belong to no change set of the daemon's")
    return Request("changeset.drop", {"changeset": ident}, lambda message: None)


def _forget_changes(message: Message) -> Request[None] | None:
    ident = message.result.get("changeset") if isinstance(message.result, dict) else None
    return drop_changes(ident) if isinstance(ident, str) else None


# ---- about the daemon ----

def languages() -> Request[list[Language]]:
    return Request("languages", {}, lambda message: [Language.read(row) for row in read_rows(message, "languages")])


def guards() -> Request[list[Guard]]:
    """The guards of boxes on this machine."""
    return Request("guards", {}, lambda message: [Guard.read(row) for row in read_rows(message, "guards")])


def stats() -> Request[dict[str, Any]]:
    return Request("stats", {}, read_object)
