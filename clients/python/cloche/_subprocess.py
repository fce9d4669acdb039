"""The contract of the subprocess sandbox: code and tools in, {result, logs, error, duration} out; each execution in a box of its own."""
from __future__ import annotations

import asyncio
import codecs
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from . import _requests
from ._async import AsyncCloche
from ._base_errors import RunTimeoutError, ValueRefusedError
from ._plain import plain
from ._requests import Request
from ._results import Result
from ._schema import Check, Misfit, compile_schema
from ._sync import Cloche
from .errors import InvalidArgumentError, InvalidStateError

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Tool:
    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SubprocessResult:
    result: Any
    logs: list[str]
    """Lines, each with its stream as a prefix: `[stdout] ...`"""
    error: str | None
    duration: float
    """Milliseconds."""


Tools = Sequence[Tool | Mapping[str, Any]]
ToolExecutor = Callable[[str, Any], Any]

# The code is the body of a function even if it defines some: sent as text, and made a function in the box.
PYTHON = '''
def _execute(text):
    import ast, linecache
    linecache.cache["code.py"] = (len(text), None, text.splitlines(True), "code.py")
    body = ast.parse(text, "code.py").body
    if body and isinstance(body[-1], ast.Expr):
        body[-1] = ast.copy_location(ast.Return(body[-1].value), body[-1])
    try:
        code = _function(ast, "def", body)
    except SyntaxError:
        code = _function(ast, "async def", body)
    exec(code, globals())
    return globals().pop("_body")()


def _function(ast, keyword, body):
    holder = ast.parse(keyword + " _body(): pass", "code.py")
    holder.body[0].body = body or holder.body[0].body
    return compile(holder, "code.py", "exec")
'''

JAVASCRIPT = '''
async function _execute(text) {
    const AsyncFunction = (async () => {}).constructor;
    return await new AsyncFunction("require", "module", "exports", text)(require, module, exports);
}
'''

BODIES = {"python": PYTHON, "javascript": JAVASCRIPT}


class _Logs:
    """Bytes in as they come, lines out as they are complete."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        self._begun = {"stdout": "", "stderr": ""}

    def add(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        *lines, self._begun[stream] = (self._begun[stream] + self._decoders[stream].decode(data)).split("\n")
        self.lines += [f"[{stream}] {line}" for line in lines]

    def finish(self) -> list[str]:
        self.lines += [f"[{stream}] {rest}" for stream, rest in self._begun.items() if rest]
        return self.lines


@dataclass(frozen=True)
class _Config:
    language: str
    timeout: int
    memory_limit: int
    minimal_env: bool
    rich: bool = False

    def __post_init__(self) -> None:
        if self.language not in BODIES:
            raise InvalidArgumentError(f"language must be one of {', '.join(BODIES)}, not {self.language!r}")
        for name in ("timeout", "memory_limit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InvalidArgumentError(f"{name} must be an integer of 0 (none) or more, not {value!r}")

    def having(self, timeout: int | None, rich: bool | None) -> _Config:
        """Options of one execution."""
        return dataclasses.replace(self, timeout=self.timeout if timeout is None else timeout, rich=self.rich if rich is None else rich)

    @property
    def seconds(self) -> float | None:
        """The client waits this long for the start and the end together; the run's own clock starts later."""
        return self.timeout / 1000 if self.timeout else None

    def request(self, code: str, tools: Tools, executor: ToolExecutor | None, logs: _Logs) -> Request[Result]:
        if not isinstance(code, str):
            raise InvalidArgumentError(f"code must be text, not a {type(code).__name__}")
        return _requests.call(
            self.language, BODIES[self.language], "_execute", [code], globals=_tool_functions(tools, executor, self.rich), on_output=logs.add,
            limits={"wall_ms": self.timeout, "cpu_ms": self.timeout, "memory_bytes": self.memory_limit * MEGABYTE},
            env=None if self.minimal_env else {name: value for name, value in os.environ.items() if name},
            result_options={"includeChanges": False})

    def conclude(self, result: Result, logs: _Logs) -> SubprocessResult:
        try:
            value = result.value if self.rich else plain(result.value)
        except ValueRefusedError as error:
            return SubprocessResult(None, logs.finish(), str(error), result.meta.duration_ms)
        return SubprocessResult(value, logs.finish(), self._error(result), result.meta.duration_ms)

    def late(self, logs: _Logs, begun: float) -> SubprocessResult:
        """The caller's time ended before the engine's clock did: the daemon took long to start, for example."""
        return SubprocessResult(None, logs.finish(), self._timeout_text(), (time.monotonic() - begun) * 1000)

    def _timeout_text(self) -> str:
        return f"Execution timed out after {self.timeout} ms"

    def _error(self, result: Result) -> str | None:
        if result.success:
            return None
        if result.status == "timeout":
            return self._timeout_text()
        if result.status == "terminated":
            return "Execution was terminated"
        return str(result.error) if result.error else result.status


def _tool_functions(tools: Tools, executor: ToolExecutor | None, rich: bool) -> dict[str, Callable[..., Any]]:
    functions: dict[str, Callable[..., Any]] = {}
    for index, told in enumerate(tools):
        tool = _read_tool(told, f"tools[{index}]")
        if tool.name in functions:
            raise InvalidArgumentError(f"tools[{index}]: there is a tool {tool.name!r} already")
        if executor is None:
            raise InvalidArgumentError("tools need a tool_executor, which is to be called with a name and parameters")
        functions[tool.name] = _tool_function(tool.name, compile_schema(tool.input_schema, f"tools[{index}].inputSchema"), executor, rich)
    return functions


def _read_tool(told: Tool | Mapping[str, Any], where: str) -> Tool:
    if isinstance(told, Mapping):
        schema = told.get("inputSchema", told.get("input_schema"))
        told = Tool(told.get("name", ""), told.get("description", ""), {} if schema is None else schema)
    if not isinstance(told, Tool) or not isinstance(told.name, str) or not told.name.isidentifier():
        raise InvalidArgumentError(f"{where} must have a name that code can call, not {getattr(told, 'name', told)!r}")
    return told


def _tool_function(name: str, check: Check, executor: ToolExecutor, rich: bool) -> Callable[..., Any]:
    """The tool as the code calls it: with one object of parameters, or with keywords."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or (args and kwargs):
            raise TypeError(f"{name} takes one object of parameters, or keywords")
        given = args[0] if args and args[0] is not None else kwargs
        params = given if rich else plain(given)
        try:
            check(params, name)
        except Misfit as misfit:
            raise TypeError(str(misfit)) from None
        return executor(name, params)
    return call


class _Execution:
    """Registered before its run starts: a tool may be called, and may cancel, before the client has the run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: Any = None
        self._is_cancelled = False

    def begin(self, run: Any) -> None:
        with self._lock:
            self._run, is_cancelled = run, self._is_cancelled
        if is_cancelled:
            run.cancel()

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled, run = True, self._run
        if run is not None:
            run.cancel()


class SubprocessSandbox:
    """Executes code that may call tools. `timeout` in milliseconds and `memory_limit` in megabytes; 0 means none. Results and tools'
    parameters are plain JSON; with `rich` sets, dates, bytes and keys of other kinds keep their types.

        sandbox = SubprocessSandbox()
        sandbox.execute("return add(a=2, b=3)", [{"name": "add"}], lambda name, params: params["a"] + params["b"])
    """

    def __init__(self, client: Cloche | None = None, *, language: str = "python", timeout: int = 30000, memory_limit: int = 128,
                 minimal_env: bool = True, rich: bool = False) -> None:
        self._config = _Config(language, timeout, memory_limit, minimal_env, rich)
        self._owned = client is None
        self._client: Cloche | None = client or Cloche()
        self._executions: set[_Execution] = set()

    def execute(self, code: str, tools: Tools = (), tool_executor: ToolExecutor | None = None, *, timeout: int | None = None,
                rich: bool | None = None) -> SubprocessResult:
        """tool_executor(name, params) may be a coroutine function; its exceptions are raised in the
        code. `timeout` and `rich` default to the sandbox's."""
        if self._client is None:
            raise InvalidStateError("the sandbox was closed")
        config, logs, execution, begun = self._config.having(timeout, rich), _Logs(), _Execution(), time.monotonic()
        self._executions.add(execution)
        try:
            run = self._client._start(config.request(code, tools, tool_executor, logs))
            execution.begin(run)
            return config.conclude(run.wait(config.seconds), logs)
        except RunTimeoutError:
            return config.late(logs, begun)
        finally:
            self._executions.discard(execution)

    def is_running(self) -> bool:
        return bool(self._executions)

    def terminate(self) -> None:
        """Cancel the execution, from any thread. The sandbox may be used again."""
        for execution in list(self._executions):
            execution.cancel()

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._owned:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()
        self.close()


class AsyncSubprocessSandbox:
    """See SubprocessSandbox. For asyncio."""

    def __init__(self, client: AsyncCloche | None = None, *, language: str = "python", timeout: int = 30000, memory_limit: int = 128,
                 minimal_env: bool = True, rich: bool = False) -> None:
        self._config = _Config(language, timeout, memory_limit, minimal_env, rich)
        self._owned = client is None
        self._client: AsyncCloche | None = client or AsyncCloche()
        self._executions: set[_Execution] = set()

    async def execute(self, code: str, tools: Tools = (), tool_executor: ToolExecutor | None = None, *, timeout: int | None = None,
                      rich: bool | None = None) -> SubprocessResult:
        if self._client is None:
            raise InvalidStateError("the sandbox was closed")
        config, logs, execution, begun = self._config.having(timeout, rich), _Logs(), _Execution(), time.monotonic()
        self._executions.add(execution)
        try:
            async with asyncio.timeout(config.seconds) as starting:
                run = await self._client._start(config.request(code, tools, tool_executor, logs))
            execution.begin(run)
            left = None if config.seconds is None else max(config.seconds - (time.monotonic() - begun), 0.0)
            return config.conclude(await run.settle(left), logs)
        except RunTimeoutError:
            return config.late(logs, begun)
        except TimeoutError:
            if not starting.expired():
                raise
            return config.late(logs, begun)
        finally:
            self._executions.discard(execution)

    def is_running(self) -> bool:
        return bool(self._executions)

    def terminate(self) -> None:
        """Cancel the execution. The sandbox may be used again."""
        for execution in list(self._executions):
            execution.cancel()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._owned:
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.terminate()
        await self.close()
