"""Write the types of answers and events for the TypeScript client."""
from . import answers

PATH = "clients/typescript/src/generated/answers.ts"
TYPES = {"text": "string", "data": "TextOrBytes", "bytes": "Uint8Array", "count": "number", "integer": "number", "number": "number",
         "boolean": "boolean", "time": "string", "value": "unknown", "limits": "Limits"}
HEAD = """// Written by tools/spec from spec/answers.def: change that.
import type { SandboxEvent } from '../internal/asking.js'
import type { Limits } from './limits.js'

/** Text if the bytes are UTF-8 without NUL, and at most 64 KiB. */
export type TextOrBytes = string | Uint8Array

"""


def type_of(kind):
    if isinstance(kind.base, tuple):
        text, is_union = " | ".join(f"'{word}'" for word in kind.base), len(kind.base) > 1
    else:
        text, is_union = (kind.base, False) if kind.is_answer else (TYPES[kind.base], False)
    for suffix in kind.suffixes:
        inner = f"({text})" if is_union else text
        text, is_union = {"[]": (f"{inner}[]", False), "{}": (f"Record<string, {text}>", False), "?": (f"{text} | null", True)}[suffix]
    return text


def member_of(member):
    return f"  /** {member.doc} */\n  {member.name}{'' if member.is_required else '?'}: {type_of(member.type)}\n"


def interface(answer):
    if not answer.members:
        return f"/** {answer.doc} */\nexport type {answer.name} = Record<string, never>\n"
    members = "".join(map(member_of, answer.named)) + ("  [name: string]: unknown\n" if answer.is_open else "")
    return f"/** {answer.doc} */\nexport interface {answer.name} {{\n{members}}}\n"


def answers_of(operations):
    rows = "".join(f"  '{row['method']}': {row['answer']}\n" for row in operations if row["is_sandbox"])
    return f"/** The answers of sandboxes' operations. */\nexport interface Answers {{\n{rows}}}\n"


def events_of(tables, operations):
    rows = ""
    for row in operations:
        events = answers.events(tables, row["method"])
        if row["is_sandbox"] and events:
            rows += f"  '{row['method']}': {' | '.join(f'SandboxEvent<{name!r}, {about}>' for name, about in events)}\n"
    return f"/** The events before them. */\nexport interface StreamEvents {{\n{rows}}}\n"


def files(tables):
    operations = answers.operations(tables)
    parts = [*map(interface, answers.read(tables).values()), answers_of(operations), events_of(tables, operations)]
    return {PATH: HEAD + "\n".join(parts)}
