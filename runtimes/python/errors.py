"""Exceptions as the caller sees them: class name, message, traceback in the user's coordinates."""
MAX_MESSAGE = 64 << 10
MAX_STACK = 256 << 10


def describe(error, filename, code):
    return {"type": type(error).__name__, "message": shorten(message_of(error), MAX_MESSAGE),
            "stack": shorten(stack_of(error, filename, code), MAX_STACK)}


def message_of(error):
    try:
        if isinstance(error, SystemExit):
            return "0" if error.code is None else str.__str__(str(error.code))
        return str.__str__(str(error))
    except BaseException as inner:
        return "<message cannot be shown: __str__ raised %s>" % type(inner).__name__


def shorten(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n... %d characters left out ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def stack_of(error, filename, code):
    hide_agent(error, filename)
    try:
        return with_traceback_module(error, filename, code)
    except BaseException:
        return by_hand(error)


def hide_agent(error, filename):
    """Cuts the frames before the user's first one, in the whole chain of causes."""
    seen, waiting = set(), [error]
    while waiting:
        error = waiting.pop()
        if not isinstance(error, BaseException) or id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = user_part(error.__traceback__, filename)
        waiting += [error.__cause__, error.__context__, *grouped(error)]


def grouped(error):
    inner = getattr(error, "exceptions", ())
    return inner if isinstance(inner, (tuple, list)) else ()


def user_part(trace, filename):
    frame = trace
    while frame is not None and frame.tb_frame.f_code.co_filename != filename:
        frame = frame.tb_next
    while frame is None and trace is not None and is_agent(trace):
        trace = trace.tb_next
    return trace if frame is None else frame


def is_agent(trace):
    # Not by file name: precompiled code has the path it has in a box.
    return trace.tb_frame.f_globals.get("__builtins__") is __builtins__


def with_traceback_module(error, filename, code):
    import linecache
    import traceback
    # No modification time: linecache then never looks for the file on disk.
    linecache.cache[filename] = (len(code), None, [line + "\n" for line in code.split("\n")], filename)
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def by_hand(error):
    lines = ["Traceback (most recent call last):\n"]
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        lines.append('  File "%s", line %d, in %s\n' % (code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return "".join(lines[:1000]) + "%s: %s\n" % (type(error).__name__, message_of(error))
