"""An error of a cell: name, message, and a traceback in the cell's coordinates, without frames of the agent or of IPython."""
import re
import sys

errors = part("errors")
message_of, shorten, MAX_MESSAGE, is_agent, grouped = (
    errors["message_of"], errors["shorten"], errors["MAX_MESSAGE"], errors["is_agent"], errors["grouped"])
AROUND = 2
MANY, ENDS = 24, 10
MAX_LINE = 2000
RULE = "-" * 75
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"


def bare(error):
    """The fallback for an exception whose own description throws."""
    name = type.__getattribute__(type(error), "__name__")
    return {"name": name, "message": "", "traceback": [name]}


def describe(error, cells, mode="Context"):
    """cells: the names of files that are cells."""
    lines = rendered(error)
    if lines is None:
        lines = chain(error, cells, AROUND if mode in ("Context", "Verbose", "Docs") else 0, mode == "Minimal")
    return {"name": type(error).__name__, "message": shorten(message_of(error), MAX_MESSAGE),
            "traceback": [shorten(line, MAX_LINE) for text in lines for line in text.split("\n")]}


def rendered(error):
    """IPython's protocol for exceptions that draw themselves."""
    draw = getattr(error, "_render_traceback_", None)
    if draw is None:
        return None
    try:
        lines = draw()
        return [COLOURS.sub("", line) for line in lines] if lines is not None else None
    except Exception:
        return None


def chain(error, cells, around, minimal):
    links, seen = [], set()
    introduction = None
    while error is not None and id(error) not in seen and len(links) < MANY:
        seen.add(id(error))
        links.append((error, introduction))
        if error.__cause__ is not None:
            error, introduction = error.__cause__, CAUSE
        elif error.__suppress_context__:
            break
        else:
            error, introduction = error.__context__, CONTEXT
    if minimal:
        return last_lines(links[0][0], cells)
    lines = []
    for link, then in reversed(links):
        lines += one(link, cells, around)
        if then is not None:
            lines += ["", then, ""]
    return lines


def one(error, cells, around):
    frames = user_frames(error.__traceback__)
    last = last_lines(error, cells)
    if not frames:
        return last
    name = type(error).__name__
    lines = [RULE, name + "Traceback (most recent call last)".rjust(max(34, 75 - len(name)))]
    for index, frame in enumerate(frames):
        if len(frames) > MANY and ENDS <= index < len(frames) - ENDS:
            if index == ENDS:
                lines += ["... %d frames left out ..." % (len(frames) - 2 * ENDS), ""]
            continue
        lines += frame_lines(*frame, cells, around) + [""]
    return lines + last


def user_frames(trace):
    frames = []
    while trace is not None:
        if not is_agent(trace) and not is_ipython(trace.tb_frame):
            frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames


def is_ipython(frame):
    return (frame.f_globals.get("__name__") or "").partition(".")[0] in ("IPython", "decorator")


def frame_lines(frame, line, cells, around):
    import linecache
    code = frame.f_code
    where = code.co_filename
    head = "%s, line %d" % (where, line) if where in cells else "File %s:%d" % (where, line)
    if code.co_name != "<module>":
        taken = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        head += ", in %s(%s)" % (getattr(code, "co_qualname", code.co_name), ", ".join(taken))
    source = linecache.getlines(where, frame.f_globals)
    lines = [head]
    for number in range(max(1, line - around), min(len(source), line + around) + 1):
        text = source[number - 1].rstrip("\n")
        mark = "-" * max(1, 5 - len(str(number))) + "> " if number == line else ""
        lines.append("%s %s" % ((mark + str(number)).rjust(7), text))
    return lines


def last_lines(error, cells):
    import traceback
    try:
        text = "".join(traceback.format_exception_only(type(error), error)).rstrip("\n")
    except BaseException:
        text = "%s: %s" % (type(error).__name__, message_of(error))
    lines = shorten(text, MAX_MESSAGE).split("\n")
    if isinstance(error, SyntaxError):
        lines = [in_cell(line, cells) for line in lines]
    for inner in grouped(error):
        if isinstance(inner, BaseException):
            lines += ["  | " + line for line in last_lines(inner, cells)]
    return lines


def in_cell(line, cells):
    found = re.match(r'  File "(.*)", line (\d+)', line)
    return "  %s, line %s" % found.groups() if found and found[1] in cells else line
