"""Compare real answers and events with the rows of spec/answers.def: exactly their members, each of its type."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tools"))
from spec_compiler import answers, tables  # noqa: E402

ROWS = tables.read()
ANSWERS = answers.read(ROWS)
OPERATIONS = answers.operations(ROWS)
BY_METHOD = {row["method"]: row["answer"] for row in OPERATIONS if row["method"]}
LIMITS = {row["json"] for row in ROWS["CLOCHE_LIMIT"]}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ABSENT = object()


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_bytes(value):
    return isinstance(value, dict) and value.get("$") in ("bytes", "buffer")


CHECKS = {
    "text": lambda value: isinstance(value, str),
    "data": lambda value: isinstance(value, str) or is_bytes(value),
    "bytes": lambda value: isinstance(value, str) or is_bytes(value),
    "count": lambda value: is_integer(value) and value >= 0,
    "integer": is_integer,
    "number": lambda value: is_integer(value) or isinstance(value, float),
    "boolean": lambda value: isinstance(value, bool),
    "time": lambda value: isinstance(value, str) and TIME.fullmatch(value) is not None,
    "value": lambda value: True,
    "limits": lambda value: isinstance(value, dict) and set(value) <= LIMITS and all(is_integer(limit) for limit in value.values()),
}


def check_type(kind, suffixes, value, where):
    if not suffixes:
        if kind.is_answer:
            check_object(kind.base, value, where)
        else:
            assert value in kind.base if isinstance(kind.base, tuple) else CHECKS[kind.base](value), f"{where} is no {kind.base}: {value!r:.200}"
    elif suffixes[-1] == "?":
        if value is not None:
            check_type(kind, suffixes[:-1], value, where)
    else:
        assert isinstance(value, list if suffixes[-1] == "[]" else dict), f"{where}: {value!r:.200}"
        for key, item in (enumerate(value) if isinstance(value, list) else value.items()):
            check_type(kind, suffixes[:-1], item, f"{where}[{key}]")


def check_object(name, value, where):
    answer = ANSWERS[name]
    assert isinstance(value, dict), f"{where} is no object: {value!r:.200}"
    more = set(value) - {member.name for member in answer.named}
    assert answer.is_open or not more, f"{where} has members without a row in {name} of spec/answers.def: {sorted(more)}"
    for member in answer.named:
        if member.name in value:
            check_type(member.type, member.type.suffixes, value[member.name], f"{where}.{member.name}")
        else:
            assert not member.is_required, f"{where} lacks {member.name}, which {name} of spec/answers.def always has"


def check_answer(method, value):
    """An unknown method is that of a test itself."""
    if method in BY_METHOD:
        check_object(BY_METHOD[method], value, method)


def check_event(method, event, about):
    about_of = dict(answers.events(ROWS, method))
    assert event in about_of, f"{method} sent the event {event}, which has no row in spec/answers.def"
    check_object(about_of[event], about, f"{method}: {event}")


def check_http(verb, path, status, body):
    """The answer to a request over HTTP. Errors, and paths and bodies that have no row, are those of the tests themselves."""
    for row in OPERATIONS:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(row["path"]))
        if row["path"].startswith("/v1/") and [row["verb"], row["success"]] == [verb, str(status)] and row["answer"] in ANSWERS and re.fullmatch(pattern, path.split("?")[0]):
            check_object(row["answer"], body, f"{verb} {path}")
