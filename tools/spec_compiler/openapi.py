"""Make the OpenAPI document, which cloched serves."""
import json

from . import answers

COUNT_MAX, DURATION_MAX = 9007199254740991, 86400000
GROUPS = {  # of spec/daemon.def
    "IN_RUN": "IN_CALL | IN_SCRIPT | IN_EVALUATE",
    "IN_PIECES": "IN_RAW_GET | IN_RAW_PUT | IN_TREE_GET | IN_TREE_PUT",
    "IN_IMAGE": "IN_IMAGE_GET | IN_IMAGE_DELETE | IN_IMAGE_VERIFY | IN_IMAGE_WARM",
    "IN_IMAGE_PIECE": "IN_IMAGE_UPLOAD | IN_IMAGE_IMPORT",
    "IN_PATH_OF_SANDBOX": "IN_PIECES | IN_TERMINAL | IN_EXEC_SOCKET | IN_FOLLOW_SOCKET",
}
BY_MESSAGE = {"EXEC_SOCKET", "FOLLOW_SOCKET"}  # WebSockets whose parameters arrive in a message


def reference(name):
    return {"$ref": f"#/components/schemas/{name}"}


def integer(low, high=None):
    return {"type": "integer", "minimum": low, **({} if high is None else {"maximum": high})}


def closed(properties, required=()):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {}), "additionalProperties": False}


TEXT, BOOLEAN, TEXTS = {"type": "string"}, {"type": "boolean"}, {"type": "array", "items": {"type": "string"}}
MODE = integer(1, 0o7777)
FIELD_TYPES = {
    "TEXT": TEXT,
    "TEXT_OR_BYTES": reference("TextOrBytes"),
    "TEXTS": TEXTS,
    "TEXT_BY_NAME": {"type": "object", "additionalProperties": TEXT},
    "BOOLEAN": BOOLEAN,
    "COUNT": integer(0, COUNT_MAX),
    "DURATION": integer(0, DURATION_MAX),
    "ID": {"type": ["string", "integer"]},
    "PROTOCOL": {"const": 1},
    "OBJECT": {"type": "object"},
    "LIST": {"type": "array"},
    "ARGUMENTS": {"type": ["array", "object"]},
    "LIMITS": reference("Limits"),
    "SANDBOX_LIMITS": reference("SandboxLimits"),
    "FILES": {"type": "object", "additionalProperties": reference("File")},
    "RESULT_OPTIONS": closed({name: BOOLEAN for name in ("includeChanges", "includeContents", "includeDenied")}),
}
ANSWER_TYPES = {
    "text": TEXT,
    "data": reference("TextOrBytes"),
    "bytes": reference("TextOrBytes"),
    "count": integer(0),
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": BOOLEAN,
    "time": {"type": "string", "format": "date-time"},
    "value": {},
    "limits": reference("LimitsInForce"),
}
BYTES = {"type": "object", "properties": {"$": {"enum": ["bytes", "buffer"]}, "b64": TEXT}, "required": ["$", "b64"]}
FILE = {"anyOf": [
    reference("TextOrBytes"),
    closed({"content": reference("TextOrBytes"), "mode": MODE}, ["content"]),
    closed({"directory": {"const": True}, "mode": MODE}, ["directory"]),
    closed({"symlink": TEXT}, ["symlink"]),
]}
INFO = "Run untrusted code, each piece in its own Linux box. Values that JSON lacks are tagged: spec/values.md."


# ---- schemas ----

def limits_schema(rows, column="default"):
    def one(row):
        numbers = {**integer(int(row["min"]), int(row["max"]))}
        default = 0 if row[column] == "NO_LIMIT" else int(row[column])
        return {"anyOf": [{"const": 0}, numbers], "default": default, "description": row["doc"]}
    return closed({row["json"]: one(row) for row in rows})


def sandbox_limits_schema(rows):
    return limits_schema([row for row in rows if row["scope"] == "BOX"], "sandbox")


def type_schema(kind):
    schema = {"enum": list(kind.base)} if isinstance(kind.base, tuple) else reference(kind.base) if kind.is_answer else ANSWER_TYPES[kind.base]
    for suffix in kind.suffixes:
        schema = {"[]": {"type": "array", "items": schema}, "{}": {"type": "object", "additionalProperties": schema},
                  "?": {"anyOf": [schema, {"type": "null"}]}}[suffix]
    return schema


def answer_schema(answer):
    properties = {member.name: {**type_schema(member.type), "description": member.doc} for member in answer.named}
    schema = closed(properties, [member.name for member in answer.named if member.is_required])
    return {**schema, "description": answer.doc, "additionalProperties": answer.is_open}


def error_schema(rows):
    names = {"enum": [row["name"] for row in rows]}
    faults = {"enum": ["caller", "guest", "host", "bug"]}
    error = {"type": "object", "required": ["name", "fault", "message"], "properties": {"name": names, "fault": faults, "message": TEXT}}
    return {"type": "object", "required": ["error"], "properties": {"error": error}}


# ---- requests ----

def symbols(text):
    """The operations that a cell of DAEMON_FIELD names."""
    words = {word.strip() for word in text.split("|")} - {"0"}
    return set().union(*(symbols(GROUPS[word]) if word in GROUPS else {word[3:]} for word in words)) if words else set()


def fields_of(tables, operation):
    """(name, schema, is required, doc) of each parameter."""
    if not operation["is_sandbox"]:
        for row in tables["DAEMON_FIELD"]:
            if operation["symbol"] in symbols(row["required"]) | symbols(row["optional"]):
                yield row["name"], FIELD_TYPES[row["type"]], operation["symbol"] in symbols(row["required"]), row["doc"]
        return
    if operation["needs"] != "NO_SANDBOX":
        is_new = operation["symbol"] == "CREATE"
        yield "sandbox", TEXT, not is_new, "Its name; absent: one is made up." if is_new else "Its name."
    for row in tables["SANDBOX_FIELD"]:
        if row["symbol"] == operation["symbol"]:
            kind = "DURATION" if row["type"] == "COUNT" and row["name"].endswith("Ms") and row["name"] != "lifetimeMs" else row["type"]
            kind = "SANDBOX_LIMITS" if kind == "LIMITS" else kind
            yield row["name"], FIELD_TYPES[kind], row["need"] == "REQUIRED", row["doc"]


def has_json(operation):
    return operation["verb"] in ("POST", "PATCH")


def is_in_path(operation, name):
    return "{" + name + "}" in operation["path"]


def parameters(tables, operation):
    for name, schema, is_required, doc in fields_of(tables, operation):
        in_path = is_in_path(operation, name)
        if in_path or not (has_json(operation) or operation["symbol"] in BY_MESSAGE and not operation["is_sandbox"]):
            yield {"name": name, "in": "path" if in_path else "query", "required": is_required, "description": doc, "schema": schema}


def request_body(tables, operation):
    if operation["verb"] == "PUT":
        return {"requestBody": {"required": True, "content": {"application/octet-stream": {}}}}
    if not has_json(operation):
        return {}
    fields = [field for field in fields_of(tables, operation) if not is_in_path(operation, field[0])]
    schema = closed({name: {**schema, "description": doc} for name, schema, _, doc in fields}, [name for name, _, needed, _ in fields if needed])
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


# ---- the document ----

def responses(tables, operation):
    answer = {"description": operation["doc"]}
    if answers.is_media_type(operation["answer"]):
        answer["content"] = {operation["answer"]: {"schema": TEXT}}
    elif operation["answer"]:
        answer["content"] = {"application/json": {"schema": reference(operation["answer"])}}
    events = answers.events(tables, operation["method"])
    if events:
        answer["content"]["text/event-stream"] = {"schema": TEXT, "x-events": {name: reference(about) for name, about in events}}
    return {operation["success"]: answer, "default": {"$ref": "#/components/responses/Error"}}


def id_of(operation):
    if operation["method"]:
        return operation["method"]
    return f"{operation['verb']} {operation['path']}" if "{" in operation["path"] else operation["path"][1:]


def operation_object(tables, operation):
    made = {"operationId": id_of(operation), "summary": operation["doc"], "responses": responses(tables, operation),
            "parameters": list(parameters(tables, operation)), **request_body(tables, operation)}
    return {**made, "security": []} if operation["symbol"] == "HEALTH" else made


def document(tables, version):
    paths = {}
    for operation in answers.operations(tables):
        if operation["path"]:
            paths.setdefault(operation["path"], {})[operation["verb"].lower()] = operation_object(tables, operation)
    errors = tables["CLOCHE_ERROR"]
    described = "".join(f"\n- {row['name']} ({row['http']}): {row['text']}" for row in errors)
    schemas = {
        "Bytes": BYTES, "TextOrBytes": {"anyOf": [TEXT, reference("Bytes")]}, "File": FILE, "Limits": limits_schema(tables["CLOCHE_LIMIT"]),
        "SandboxLimits": sandbox_limits_schema(tables["CLOCHE_LIMIT"]),
        "LimitsInForce": closed({row["json"]: integer(0) for row in tables["CLOCHE_LIMIT"]}), "Error": error_schema(errors),
        **{name: answer_schema(answer) for name, answer in answers.read(tables).items() if name not in unreachable(tables)},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "cloched", "version": version, "description": INFO, "license": {"name": "MIT", "identifier": "MIT"}},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": {"description": "By errors' names:" + described, "content": {"application/json": {"schema": reference("Error")}}}},
        },
        "security": [{"token": []}],
    }


def unreachable(tables):
    """Answers of operations without HTTP."""
    every = answers.operations(tables)
    return {row["answer"] for row in every if not row["path"]} - {row["answer"] for row in every if row["path"]}


def c_source(text):
    """The document as a C string, in pieces that every compiler takes."""
    escaped = [text[at:at + 1000].replace("\\", "\\\\").replace('"', '\\"') for at in range(0, len(text), 1000)]
    pieces = "\n".join(f'        "{piece}"' for piece in escaped)
    return f'/* Written by tools/spec. */\n#include "daemon/http/openapi.h"\n\nconst char openapi_document[] =\n{pieces};\n'


def write(tables, version, is_c):
    text = json.dumps(document(tables, version), ensure_ascii=False, **({"separators": (",", ":")} if is_c else {"indent": 1}))
    return c_source(text) if is_c else text + "\n"
