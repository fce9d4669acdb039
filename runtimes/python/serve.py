"""Reads requests until the engine closes the channel, and answers each `call`."""
import _signal
import atexit
import os
import sys

channels, values, calls = part("channel"), part("values"), part("call")
encode, write_json, parse_json = values["encode"], values["write_json"], values["parse_json"]
Refused, TooLarge, Decoder = values["Refused"], values["TooLarge"], values["Decoder"]
call = calls["call"]
exit_now, getcwd = os._exit, os.getcwd
run_exit_functions = atexit._run_exitfuncs
set_trace, set_profile = sys.settrace, sys.setprofile
set_recursion_limit, RECURSION_LIMIT = sys.setrecursionlimit, sys.getrecursionlimit()
signal, getsignal, IGNORE = _signal.signal, _signal.getsignal, _signal.SIG_IGN
SIGNALS = tuple(range(1, _signal.NSIG))
STREAMS = (sys.stdout, sys.stderr)
MUTED = {}
REHEARSALS = 20
modules = sys.modules

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, THREW = (
    -32700, -32600, -32601, -32602, -32000)
NOTEBOOK = "__cloche_notebook__"  # a name that set-up code leaves if contexts are to be forked from it (notebook.py)
LIBRARY = FOLDER + "/libcloche-guest.so"  # exists if the process is to be a template
CANNOT_FORK = -32001
CALL_SHAPES = {"code": str, "filename": str, "function": (str, type(None)), "args": list, "holes": list, "kwargs": dict,
               "order": (list, type(None)), "resultBytes": int, "globals": dict, "imports": dict}
PREPARE_SHAPES = {"code": str, "filename": str, "globals": dict, "imports": dict}
RUN_SHAPES = {"code": str, "filename": str, "argv": list, "globals": dict, "imports": dict}
DEFAULTS = {"filename": "main.py", "function": None, "args": [], "holes": [], "kwargs": {}, "order": None, "resultBytes": 0,
            "globals": {}, "imports": {}}


class Invalid(Exception):
    """Params that violate spec/values.md."""


class State:
    """The state of this process as a template or a context."""
    template = None
    frozen = False
    standing = False  # a context that has received `branch`
    bridge = None
    contexts_expected = False  # the set-up was a notebook's
    context = None  # a persistent interpreter (cells.py), after `open`
    number = None  # id of the current request


def main():
    channel = channels["Channel"](3)
    user_environment()
    try:
        begin_template()
    except OSError as error:  # the engine quotes the line
        sys.stderr.write("%s\n" % error)
        exit_now(1)
    try:
        while True:
            serve(channel)
            if not State.frozen:
                break
            State.frozen = False
            State.template.may_fork = State.template.children(channel)
            channel = channels["Channel"](3)
            if (not State.template.may_fork or State.contexts_expected) and not channel.has_input():
                get_ready()
    except channels["BadFrame"] as error:
        send_error(channel, None, PARSE_ERROR, str(error))
        exit_now(1)
    except OSError:
        exit_now(1)
    leave(0)


def begin_template():
    try:
        os.stat(LIBRARY)
    except OSError:
        return
    template = part("template")["Template"]()
    template.warm_up()
    rehearse(REHEARSALS, REHEARSED)
    State.template = template


REHEARSED = (
    ("return args", None, [1, "two", 3.5, None, [True], {"key": b"value"}]),
    ("def f(a, b=2, *rest, **more):\n    return {'a': a, 'b': [b, rest], 'more': more, 'n': 1.5, 't': (1,)}\n", None, [1, "x"]),
    ("import json\nclass A:\n    pass\ndef g(x):\n    return [str(x), json.dumps(x)]\n", "g", [{"k": [1, 2]}]),
    ("def h():\n    raise ValueError('no')\n", "h", []),
    ("sum(i * i for i in range(10))\n", None, []),
)


def get_ready():
    """No request waits yet: pages that the first call will touch are copied from the template now
    (0.7 of its 0.9 ms). Only for the first: copying in vain costs as much. A child for a context is
    prepared for cells."""
    if State.contexts_expected and part("cells")["get_ready"]():
        return
    prefix = dict(calls["PREFIX"])
    calls["PREFIX"].clear()
    rehearse(1, REHEARSED[:1])
    calls["PREFIX"].update(prefix)


def rehearse(times, codes):
    """Run code before the fork, so that children write less: the interpreter rewrites code that
    runs often (PEP 659), and each page written after a fork is copied."""
    main, argv, channel = modules["__main__"], sys.argv, part("template")["Rehearsed"]()
    for _ in range(times):
        for code, name, args in codes:
            params = {"code": code, "filename": "main.py", "function": name, "args": [], "kwargs": {}, "resultBytes": 1 << 20}
            request = b'{"jsonrpc":"2.0","id":1,"method":"call","params":%s}' % write_json(params)
            channel.send(*respond(channel, channel.passed(request)))
            encode(args, 1 << 20)
    modules["__main__"], sys.argv = main, argv
    channel.done()


def user_environment():
    """The environment that a plain `python3 main.py` in the working directory would have."""
    sys.path[0] = getcwd()
    for stream in STREAMS:
        # A killed run must not lose the lines it printed.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)


def leave(status):
    """Exit without joining threads: the result is sent, and the box ends them."""
    try:
        run_exit_functions()
    except BaseException:
        status = status or 1
    flush()
    exit_now(status)


def serve(channel):
    while True:
        State.number = None
        frame = channel.read() if State.context is None else State.context.next_request()
        unmute()
        if frame is None:
            return
        try:
            answer = respond(channel, frame)
        except BaseException as late:
            # A signal handler of the user's fired between the lines.
            settle_down()
            answer = interrupted(State.number, late)
        settle_down()
        if not channel.mine():
            leave(0)
        if answer is not None:
            (channel.send if State.context is None else State.context.send_frame)(*answer)
        if State.frozen:
            return
        if State.standing:
            State.standing = False
            channel = part("cells")["stand"](channel)


def respond(channel, frame):
    """The frame to send, or None if the message needs no response."""
    try:
        request = parse_json(frame[0])
    except Exception as error:
        # SystemError too: the scanner's own, when json.decoder with its error class is not loaded.
        return failure(None, PARSE_ERROR, "not JSON: %s" % error)
    if type(request) is not dict or request.get("jsonrpc") != "2.0" or type(request.get("method", "")) is not str:
        return failure(None, INVALID_REQUEST, "not a JSON-RPC 2.0 message")
    number = State.number = request.get("id")
    if "method" not in request or number is None:
        return None
    if type(number) not in (str, int):
        return failure(None, INVALID_REQUEST, "the id is neither string nor integer")
    if request["method"] in CONTEXT_METHODS:
        return part("cells")["answer"](channel, number, request["method"], request.get("params"), frame[1])
    if request["method"] not in METHODS:
        return failure(number, NO_METHOD, "unknown method %.80r" % request["method"])
    return METHODS[request["method"]](channel, number, request.get("params"), frame[1])


def answer_call(channel, number, params, attachments):
    def work(request):
        value, source = call(request["code"], request["filename"], request["function"], request["args"], set(request["holes"]),
                             request["kwargs"], request["order"])
        return value, '{"signatureSource":"%s","value":' % source

    if State.template is not None:
        State.template.give_way()
    return answer_code(channel, number, params, attachments, CALL_SHAPES, work)


def answer_prepare(channel, number, params, attachments):
    def work(request):
        if State.contexts_expected:  # a caller's set-up, on the notebook's
            part("cells")["set_up"](request["code"], request["filename"])
            return None, '{"value":'
        calls["prepare"](request["code"], request["filename"])
        if calls["PREFIX"]["main"].__dict__.pop(NOTEBOOK, False):
            part("cells")["warm_up"]()
            State.contexts_expected = True
        return None, '{"value":'

    return answer_code(channel, number, params, attachments, PREPARE_SHAPES, work)


def answer_freeze(channel, number, params, attachments):
    if State.template is None:
        return failure(number, CANNOT_FORK, "this process was not started as a template")
    blocker = State.template.freeze(channel)
    if blocker:
        return failure(number, CANNOT_FORK, blocker)
    State.frozen = True
    return success(number, None, '{"value":', 1024)


def answer_run(channel, number, params, attachments):
    """Runs a script: its streams and its exit code are the result."""
    try:
        request = read_params(params, attachments, RUN_SHAPES)
    except (Invalid, Refused) as error:
        return failure(number, INVALID_PARAMS, str(error))
    if State.template is not None:
        State.template.give_way()
    sys.argv = [request["filename"], *map(str, request["argv"])]
    try:
        offer_host(channel, request)
        status = calls["run_script"](request["code"], request["filename"])
    except BaseException as error:
        sys.stderr.write(part("errors")["describe"](error, request["filename"], request["code"])["stack"])
        status = 1
    settle_down()
    leave(status)


CONTEXT_METHODS = ("cell", "open", "complete", "describe", "inspect", "isComplete", "branch", "enter")
METHODS = {"call": answer_call, "run": answer_run, "prepare": answer_prepare, "freeze": answer_freeze}


def answer_code(channel, number, params, attachments, shapes, work):
    """work: takes the request, returns a value and the head of the result's JSON."""
    try:
        request = read_params(params, attachments, shapes)
    except (Invalid, Refused) as error:
        data = {"type": "TypeError", "message": str(error), "stack": ""}
        return failure(number, INVALID_PARAMS, str(error), data)
    sys.argv = [request["filename"]]
    error = None
    try:
        try:
            offer_host(channel, request)
            value, head = work(request)
        finally:
            settle_down()
        answer = success(number, value, head, request["resultBytes"] or 1024, request["filename"])
    except BaseException as caught:
        error = caught
    if error is not None:
        settle_down()
        answer = threw(channel, number, error, request)
    flush()
    return answer


def offer_host(channel, request):
    """Declares the host's functions, in the namespace of the code and as importable modules. A
    prefix's declarations stay, on the new channel."""
    if request["globals"] or request["imports"]:
        State.bridge = State.bridge or part("bridge")["Bridge"]()
        State.bridge.declare(request["globals"], request["imports"], calls["PREFIX"])
    if State.bridge is not None:
        State.bridge.connect(channel)


def read_params(params, attachments, shapes):
    if type(params) is not dict:
        raise Invalid("params must be an object")
    request = {**DEFAULTS, **params}
    decoder = Decoder(attachments)
    for name in ("args", "kwargs", "globals", "imports"):
        try:
            request[name] = decoder.decode(request[name])
        except Refused as refusal:
            refusal.steps.append(name)
            raise
    decoder.finish()
    for name, kind in shapes.items():
        if name not in request or not isinstance(request[name], kind):
            raise Invalid("params.%s is missing or of the wrong type" % name)
    return request


def settle_down():
    """Disarm timers, handlers and hooks of user code. Otherwise they would run inside the agent:
    between two bytes of a frame, for example."""
    if State.context is not None:
        State.context.keep()
    while True:
        try:
            set_trace(None)
            set_profile(None)
            set_recursion_limit(RECURSION_LIMIT)
            mute(IGNORE if State.context is None else nothing)
            return
        except BaseException:
            continue


def mute(by):
    for number in SIGNALS:
        handler = getsignal(number)
        if callable(handler) and handler is not nothing:
            MUTED[number] = handler
            signal(number, by)


def nothing(number, frame):
    """The handler for a context, whose threads go on: programs they start would inherit an ignored signal."""


def unmute():
    while MUTED:
        number, handler = MUTED.popitem()
        signal(number, handler)


def success(number, value, head, limit, filename="main.py"):
    try:
        text, parts, size = encode(value, limit)
    except Refused as refusal:
        raise TypeError("%s; returned by %s" % (refusal, calls["place_of_called"](filename))) from None
    except TooLarge as error:
        raise ValueError(str(error)) from None
    head = '{"jsonrpc":"2.0","id":%s,"result":%s' % (json_text(number), head)
    return head.encode() + text + b"}}", parts, size


def json_text(value):
    return write_json(value).decode()


def failure(number, code, message, data=None):
    error = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return (write_json({"jsonrpc": "2.0", "id": number, "error": clean(error)}),)


def interrupted(number, error):
    """Without a stack: the last line of the user's code is not known here."""
    try:
        message = str(error)
    except BaseException:
        message = ""
    return failure(number, THREW, message, {"type": type(error).__name__, "message": message, "stack": ""})


def send_error(channel, number, code, message):
    channel.send(*failure(number, code, message))


def clean(value):
    """Messages may hold lone surrogates, which UTF-8 cannot encode."""
    if type(value) is str:
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    return {key: clean(item) for key, item in value.items()} if type(value) is dict else value


def threw(channel, number, error, request):
    if not channel.mine():
        child_failed(error)
    try:
        data = part("errors")["describe"](error, request["filename"], request["code"])
    except BaseException:
        # Out of memory or stack, or an exception whose own description throws.
        data = {"type": type.__getattribute__(type(error), "__name__"), "message": "", "stack": ""}
    if "source" in calls["CALLED"]:
        data["signatureSource"] = calls["CALLED"]["source"]
    return failure(number, THREW, data["message"], data)


def child_failed(error):
    """As in a plain interpreter: a forked child that throws prints that to stderr, or ends with its sys.exit code."""
    if isinstance(error, SystemExit):
        leave(error.code if isinstance(error.code, int) else 0 if error.code is None else 1)
    sys.__excepthook__(type(error), error, error.__traceback__)
    leave(1)


def flush():
    for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), *STREAMS):
        try:
            stream.flush()
        except BaseException:
            continue
