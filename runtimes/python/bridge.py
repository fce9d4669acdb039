"""The host's functions in the code: blocking calls, awaitables where an event loop runs, several in flight at once."""
import _thread
import builtins
import sys

values = part("values")
encode, write_json, parse_json, Decoder, Refused = (
    values["encode"], values["write_json"], values["parse_json"], values["Decoder"], values["Refused"])
MAX_ARGUMENTS = 1 << 30
RESERVED = ("name", "message", "args", "with_traceback", "add_note")


class Waiter:
    """One call: whoever asked sleeps on the lock, or has left a function to be told."""

    def __init__(self, tell=None):
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


class Bridge:
    def __init__(self):
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
            """Calls the host. Where an event loop runs the result is to be awaited; elsewhere the call waits."""
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
        waiter = Waiter(tell)
        with self.state_lock:
            self.number += 1
            number = self.number
            self.waiting[number] = waiter
            head = '{"jsonrpc":"2.0","id":%d,"method":"bridge","params":' % number
            self.channel.send(head.encode() + params + b"}", parts, size)
        return waiter

    def call(self, target, args, kwargs):
        waiter = self.send(target, args, kwargs)
        while not waiter.done:
            if self.read_lock.acquire(False):
                try:
                    if not waiter.done:
                        self.read_one()
                finally:
                    self.read_lock.release()
                    self.wake_another(waiter)
            else:
                # Woken by the answer, or because nobody reads any more.
                waiter.lock.acquire()
        if waiter.error is not None:
            raise waiter.error
        return waiter.value

    def wake_another(self, but):
        with self.state_lock:
            for waiter in self.waiting.values():
                if waiter is not but and not waiter.done and waiter.tell is None:
                    waiter.wake()
                    return

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
            try:
                self.read_one()
            finally:
                self.read_lock.release()
        if not any(waiter.tell for waiter in self.waiting.values()):
            loop.remove_reader(self.channel.fd)
            self.loops.discard(loop)

    def read_one(self):
        frame = self.channel.read()
        if frame is None:
            raise SystemExit(1)  # the engine is gone, and the box with it
        message = parse_json(frame[0])
        with self.state_lock:
            waiter = self.waiting.pop(message.get("id"), None)
        if waiter is None:
            return
        try:
            if "error" in message:
                waiter.error = error_of(message["error"], frame[1])
            else:
                decoder = Decoder(frame[1])
                waiter.value = decoder.decode(message["result"]["value"])
        except BaseException as error:
            waiter.error = error
        waiter.finish()


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
    """The host's error as one of ours: a built-in class of that name, else a class made for it."""
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
