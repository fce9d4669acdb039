"""Calls from the box to the engine: the host's functions, blocking, or awaited where an event loop
runs, several at once; in a context input lines too. One waiting thread reads for all."""
import _thread
import builtins
import sys
from _collections import deque

values = part("values")
encode, write_json, parse_json, Decoder, Refused = (
    values["encode"], values["write_json"], values["parse_json"], values["Decoder"], values["Refused"])
MAX_ARGUMENTS = 1 << 30
RESERVED = ("name", "message", "args", "with_traceback", "add_note")


class Waiter:
    """One request: the caller sleeps on the lock, or passed a callback. `blame` makes the exception to raise."""

    def __init__(self, tell=None, blame=None):
        self.blame = blame or error_of
        self.lock = _thread.allocate_lock()
        self.lock.acquire()
        self.tell = tell
        self.done = False
        self.value = self.error = None

    def finish(self):
        self.done = True
        if self.tell:
            self.tell(self)
        self.wake()

    def wake(self):
        if self.lock.locked():
            self.lock.release()


class Unguarded:
    """No guard: calls are not interrupted. A context installs its own (cells.py), because an
    interrupt must not cut a frame in two."""
    hold = release = staticmethod(lambda: None)
    wait_readable = staticmethod(lambda channel: None)

    @staticmethod
    def sleep(waiter):
        waiter.lock.acquire()


class Bridge:
    def __init__(self, guard=Unguarded):
        self.guard = guard
        self.requests, self.closed, self.idle = deque(), False, Waiter()  # in a context: requests that arrive from the engine
        self.idle_loop = None
        self.channel = None
        self.number = 0
        self.waiting = {}
        self.state_lock, self.read_lock = _thread.allocate_lock(), _thread.allocate_lock()
        self.loops = set()

    def connect(self, channel):
        if channel is not self.channel:
            self.channel = channel
            self.waiting.clear()

    # ---- what is declared ----

    def declare(self, names, modules, prefix):
        main = prefix.get("main")
        if main is None:
            main = prefix["main"] = type(sys)("__main__")
            main.__builtins__ = builtins
        for name, declaration in names.items():
            main.__dict__[name] = self.make(declaration, ("global", name))
        for specifier, declaration in modules.items():
            self.add_module(specifier, declaration)

    def add_module(self, specifier, declaration):
        module = type(sys)(specifier, "Offered by the host.")
        if "source" in declaration:
            filename = "<%s>" % specifier
            sys.modules[specifier] = module
            exec(compile(declaration["source"], filename, "exec", dont_inherit=True), module.__dict__)
            return
        for name, member in declaration["members"].items():
            setattr(module, name, self.make(member, ("import", specifier, name)))
        sys.modules[specifier] = module

    def make(self, declaration, target):
        kind = declaration.get("kind")
        if kind == "function":
            return self.function(target)
        if kind == "value":
            return declaration.get("value")
        if kind == "object":
            members = {name: self.make(member, (*target, name)) for name, member in declaration["members"].items()}
            return type(target[-1], (), {"__slots__": (), **{name: static(member) for name, member in members.items()}})()
        raise TypeError("the declaration %r of %s has no meaning in Python" % (kind, ".".join(target[1:])))

    def function(self, target):
        def host_function(*args, **kwargs):
            """Calls the host. Returns an awaitable where an event loop runs; blocks elsewhere."""
            loop = running_loop()
            return self.call(target, args, kwargs) if loop is None else self.start(loop, target, args, kwargs)

        host_function.__name__ = target[-1]
        host_function.__qualname__ = ".".join(target[1:])
        return host_function

    # ---- calls ----

    def send(self, target, args, kwargs, tell=None):
        try:
            params, parts, size = encode({"target": list(target), "args": list(args), "kwargs": kwargs}, MAX_ARGUMENTS)
        except Refused as refusal:
            raise TypeError("%s: %s" % (".".join(target[1:]), refusal)) from None
        return self.ask("bridge", params, parts, size, tell)

    def ask(self, method, params, parts=(), size=0, tell=None, blame=None):
        waiter = Waiter(tell, blame)
        self.guard.hold()
        try:
            with self.state_lock:
                self.number += 1
                number = self.number
                self.waiting[number] = waiter
                head = '{"jsonrpc":"2.0","id":%d,"method":"%s","params":' % (number, method)
                self.channel.send(head.encode() + params + b"}", parts, size)
        finally:
            self.guard.release()
        return waiter

    def send_frame(self, text, parts=(), size=0):
        """Sends a notification or a response whole, even if other threads send too."""
        self.guard.hold()
        try:
            with self.state_lock:
                self.channel.send(text, parts, size)
        finally:
            self.guard.release()

    def call(self, target, args, kwargs):
        return self.wait(self.send(target, args, kwargs))

    def wait(self, waiter):
        self.guard.hold()
        try:
            while not waiter.done:
                if self.read_lock.acquire(False):
                    try:
                        self.guard.wait_readable(self.channel)
                        if not waiter.done:
                            self.read_one()
                    finally:
                        self.read_lock.release()
                        self.wake_another(waiter)
                else:
                    # Woken by the answer, or because no thread reads any more.
                    self.guard.sleep(waiter)
        finally:
            self.guard.release()
        if waiter.error is not None:
            raise waiter.error
        return waiter.value

    def next_request(self):
        """Return the frame of the engine's next request to a context, or None at the end. Responses
        for threads are read here too."""
        while not self.requests and not self.closed:
            if self.read_lock.acquire(False):
                try:
                    if not self.requests and not self.closed:
                        self.read_one()
                except SystemExit:
                    break
                finally:
                    self.read_lock.release()
                    self.wake_another(self.idle)
            else:
                self.idle.lock.acquire()
        return self.requests.popleft() if self.requests else None

    def wake_another(self, but):
        with self.state_lock:
            for waiter in self.waiting.values():
                if waiter is not but and not waiter.done and waiter.tell is None:
                    waiter.wake()
                    return
        if but is not self.idle:
            self.idle.wake()

    def start(self, loop, target, args, kwargs):
        future = loop.create_future()

        def tell(waiter):
            loop.call_soon_threadsafe(settle, future, waiter)

        waiter = self.send(target, args, kwargs, tell)
        if loop not in self.loops:
            self.loops = {loop}
            loop.add_reader(self.channel.fd, self.on_readable, loop)
        del waiter
        return future

    def on_readable(self, loop):
        if self.read_lock.acquire(False):
            self.guard.hold()
            try:
                self.read_one()
            except SystemExit:
                if self.idle_loop is not loop:
                    raise
            finally:
                self.read_lock.release()
                self.guard.release()
        if self.idle_loop is loop:
            if self.requests or self.closed:
                loop.stop()
        elif not any(waiter.tell for waiter in self.waiting.values()):
            loop.remove_reader(self.channel.fd)
            self.loops.discard(loop)

    def idle_in(self, loop):
        """Runs the tasks of a context's loop until a request arrives."""
        if self.requests or self.closed:
            return
        self.idle_loop = loop
        try:
            loop.add_reader(self.channel.fd, self.on_readable, loop)
            loop.run_forever()
        finally:
            self.idle_loop = None
            if any(waiter.tell for waiter in self.waiting.values()):
                self.loops = {loop}
            else:
                loop.remove_reader(self.channel.fd)
                self.loops.discard(loop)

    def read_one(self):
        frame = self.channel.read()
        if frame is None:
            self.closed = True
            raise SystemExit(1)  # the engine has exited, and the box with it
        message = parsed(frame)
        if "method" in message or "id" not in message:
            self.requests.append(frame)
            self.idle.wake()
            return
        with self.state_lock:
            waiter = self.waiting.pop(message.get("id"), None)
        if waiter is None:
            return
        try:
            if "error" in message:
                waiter.error = waiter.blame(message["error"], frame[1])
            else:
                decoder = Decoder(frame[1])
                waiter.value = decoder.decode(message["result"].get("value"))
        except BaseException as error:
            waiter.error = error
        waiter.finish()


def parsed(frame):
    """Invalid messages count as requests: the request loop rejects them."""
    try:
        message = parse_json(frame[0])
    except Exception:
        return {}
    return message if type(message) is dict else {}


def static(member):
    return staticmethod(member) if callable(member) else member


def running_loop():
    asyncio = sys.modules.get("_asyncio")
    return asyncio._get_running_loop() if asyncio is not None else None


def settle(future, waiter):
    if future.done():
        return
    if waiter.error is not None:
        future.set_exception(waiter.error)
    else:
        future.set_result(waiter.value)


def error_of(error, attachments):
    """The host's error as a Python exception: a built-in class of that name, else a class made for it."""
    data = error.get("data") or {}
    name, message = str(data.get("name") or "Error"), str(data.get("message") or error.get("message") or "")
    known = getattr(builtins, name, None)
    if not (isinstance(known, type) and issubclass(known, Exception)):
        known = type(name if name.isidentifier() else "HostError", (Exception,), {"__module__": "host"})
    try:
        made = known(message)
    except Exception:
        made = Exception(message)
    fields = Decoder(attachments).decode(data.get("fields") or {})
    for field, value in fields.items():
        if field not in RESERVED and not field.startswith("__"):
            made.__dict__[field] = value
    return made
