"""The rows of spec/answers.def as objects with typed members."""
from dataclasses import dataclass

from .tables import TableError

PRIMITIVES = {"text", "data", "bytes", "count", "integer", "number", "boolean", "time", "value", "limits"}


@dataclass(frozen=True)
class Type:
    """base: a primitive, the name of an answer, or a tuple of texts; suffixes: from the inside out, of [], {} and ?."""

    base: str | tuple[str, ...]
    suffixes: tuple[str, ...] = ()

    @property
    def is_answer(self):
        return isinstance(self.base, str) and self.base not in PRIMITIVES


@dataclass(frozen=True)
class Member:
    name: str
    type: Type
    is_required: bool
    doc: str


@dataclass(frozen=True)
class Answer:
    name: str
    doc: str
    members: tuple[Member, ...]
    """With those of its base."""

    @property
    def is_open(self):
        return any(member.name == "*" for member in self.members)

    @property
    def named(self):
        return [member for member in self.members if member.name != "*"]


def parse(text, where):
    suffixes, rest = [], text
    while rest[-1:] == "?" or rest[-2:] in ("[]", "{}"):
        size = 1 if rest[-1] == "?" else 2
        suffixes.insert(0, rest[-size:])
        rest = rest[:-size]
    if rest.startswith("'"):
        return Type(tuple(word.strip("'") for word in rest.split()), tuple(suffixes))
    if not rest.isalpha():
        raise TableError(f"answers.def: {where} has the type {text!r}, which is none")
    return Type(rest, tuple(suffixes))


def member_of(row):
    if row["need"] not in ("ALWAYS", "OPTIONAL"):
        raise TableError(f"answers.def: {row['answer']}.{row['name']} has the need {row['need']}, expected ALWAYS or OPTIONAL")
    return Member(row["name"], parse(row["type"], f"{row['answer']}.{row['name']}"), row["need"] == "ALWAYS", row["doc"])


def is_media_type(name):
    return "/" in name


def read(tables):
    """Return the answers by name; each name that is used must have a row, and each row a use."""
    own, found = {}, {}
    for row in tables["ANSWER_MEMBER"]:
        own.setdefault(row["answer"], []).append(member_of(row))
    for row in tables["ANSWER"]:
        if row["base"] and row["base"] not in found:
            raise TableError(f"answers.def: {row['name']} has the base {row['base']}, which has no row above it")
        if row["name"] in found:
            raise TableError(f"answers.def: {row['name']} has two rows")
        members = (*(found[row["base"]].members if row["base"] else ()), *own.pop(row["name"], ()))
        found[row["name"]] = Answer(row["name"], row["doc"], members)
    used = {row["base"] for row in tables["ANSWER"]} | {row["about"] for row in tables["ANSWER_EVENT"]} | set(own)
    used |= {row["answer"] for row in operations(tables) if not is_media_type(row["answer"])}
    used |= {member.type.base for answer in found.values() for member in answer.members if member.type.is_answer}
    if used - {""} != set(found):
        raise TableError(f"answers.def: without a row or without a use: {', '.join(sorted((used - {''}) ^ set(found)))}")
    return found


def operations(tables):
    """All operations, those of sandboxes with their whole path."""
    sandbox = [{**row, "path": "/v1" + row["path"], "is_sandbox": True} for row in tables["SANDBOX_OPERATION"]]
    return [{**row, "kind": "PLAIN", "is_sandbox": False} for row in tables["DAEMON_OPERATION"]] + sandbox


def events(tables, method):
    """The names of an operation's events, with the answers that describe them."""
    return [(row["event"], row["about"]) for row in tables["ANSWER_EVENT"] if method and method in row["operations"].split()]
