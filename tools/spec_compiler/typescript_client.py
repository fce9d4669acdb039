"""Write src/generated of the TypeScript client, which is committed: npm alone builds the client."""

FOLDER = "clients/typescript/src/generated/"

FIELD_TYPES = {
    "TEXT": "string",
    "TEXTS": "readonly string[]",
    "TEXT_BY_NAME": "Record<string, string>",
    "TEXT_OR_BYTES": "string | Uint8Array",
    "COUNT": "number",
    "BOOLEAN": "boolean",
    "LIMITS": "Limits",
    "LIST": "readonly [first: number, last: number]",
    "OBJECT": "Record<string, unknown>",
}
LIST_TYPES = {"volumes": "readonly SandboxVolume[]", "names": "readonly string[]"}
OBJECT_TYPES = {"network": "NetworkPolicy", "addNetwork": "Omit<NetworkPolicy, 'dns'>", "env": "Record<string, string | null>", "terminal": "TerminalSize"}

ERROR = """/** {text} */
export class {cls} extends ClocheError {{
  static readonly code = '{name}'
  override readonly name = '{cls}'
  override readonly code = '{name}'
  override readonly fault = '{fault}'
  override readonly status = {http}
}}
export const is{cls} = (value: unknown): value is {cls} => value instanceof {cls}
"""


def head(name):
    return f"// Written by tools/spec from spec/{name}: change that.\n"


def capitalized(word):
    return word[:1].upper() + word[1:]


def class_name(name):
    return "StateError" if name == "invalid_state" else "".join(map(capitalized, name.split("_"))) + "Error"


def pascal(method):
    return "".join(map(capitalized, method.split(".")))


def alternatives(names):
    return " | ".join(f"'{name}'" for name in names)


def errors(rows):
    rows = [{**row, "fault": row["fault"].lower(), "cls": class_name(row["name"])} for row in rows]
    classes = "\n".join(ERROR.format(**row) for row in rows)
    listed = ",\n".join(f"  {row['name']}: {row['cls']}" for row in rows)
    return f"""{head('errors.def')}import {{ ClocheError, type ErrorOptions }} from '../internal/error.js'

{classes}
export type ErrorCode = {alternatives(row['name'] for row in rows)}
export const errorClasses: Record<ErrorCode, new (message: string, options?: ErrorOptions) => ClocheError> = {{
{listed}
}}
"""


def limits(rows):
    members = "\n".join(f"  /** {row['doc']} In {row['unit']}; by default {int(row['default']):,}. */\n  {row['json']}?: number" for row in rows)
    table = ",\n".join(f"  {row['json']}: {{ unit: '{row['unit']}', default: {row['default']}, min: {row['min']}, max: {row['max']} }}" for row in rows)
    return f"""{head('limits.def')}/** Limits of a run. An absent limit has its default; 0: no limit. */
export interface Limits {{
{members}
}}
export type LimitName = keyof Limits

export const limitTable: Record<LimitName, {{ unit: string, default: number, min: number, max: number }}> = {{
{table}
}}
"""


def statuses(rows):
    meanings = "\n".join(f" * - `{row['name']}`: {row['doc']}" for row in rows)
    codes = ", ".join(f"{row['name']}: {row['exit_code']}" for row in rows)
    return f"""{head('statuses.def')}/**
 * How a run can end.
{meanings}
 */
export type Status = {alternatives(row['name'] for row in rows)}
export const exitCodes: Record<Status, number> = {{ {codes} }}
"""


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def backups(rows):
    members = ",\n".join(f"  /** {row['doc']} */\n  {row['name']}: {quoted(row['command'])}" for row in rows)
    return f"""{head('backups.def')}/** Shell commands, run in the sandbox. */
export const backupCommands = {{
{members}
}}
"""


def discovery(tables):
    places = ", ".join(quoted(row["path"]) for row in tables["DISCOVERY_INSTALLED"])
    faults = ",\n".join(f"  {row['symbol']}: {quoted(row['text'])}" for row in tables["DISCOVERY_FAULT"])
    return f"""{head('discovery-places.def and discovery-faults.def')}/** The last directories in which cloched is looked for. */
export const installed = [{places}]

/** Errors of the search for a daemon. */
export const faults = {{
{faults}
}}
"""


# ---- operations of sandboxes ----

def type_of(field):
    if field["type"] == "OBJECT" and field["name"] in OBJECT_TYPES:
        return OBJECT_TYPES[field["name"]]
    if field["type"] == "LIST" and field["name"] in LIST_TYPES:
        return LIST_TYPES[field["name"]]
    return FIELD_TYPES[field["type"]]


def member_of(field):
    optional, undefined = ("?", " | undefined") if field["need"] == "OPTIONAL" else ("", "")
    return f"  /** {field['doc']} */\n  {field['name']}{optional}: {type_of(field)}{undefined}"


def params_of(operation):
    members = "\n".join(map(member_of, operation["fields"]))
    return f"/** Parameters of {operation['method']}. */\nexport interface {pascal(operation['method'])}Params {{\n{members}\n}}\n"


def method_of(operation):
    method, fields = operation["method"], operation["fields"]
    is_stream = operation["kind"] == "STREAM"
    default = " = {}" if all(field["need"] == "OPTIONAL" for field in fields) else ""
    given = f"params: {pascal(method)}Params{default}, " if fields else ""
    passed = "params" if fields else "{}"
    answer = f"Asking<Answers['{method}'], EventsOf<'{method}'>>" if is_stream else f"Promise<Answers['{method}']>"
    return f"""  /** {operation['doc']} */
  {'' if is_stream else 'async '}{method.split('.')[-1]} ({given}options: OperationOptions = {{}}): {answer} {{
    return {'' if is_stream else 'await '}this.ask('{method}', {passed}, options)
  }}
"""


def group_of(operation):
    return operation["method"].split(".")[0] if "." in operation["method"] else "sandbox"


def classes_of(operations):
    groups = {}
    for operation in operations:
        if operation["method"] != "sandbox.list":
            groups.setdefault(group_of(operation), []).append(operation)
    for group, members in groups.items():
        methods = "\n".join(map(method_of, members))
        yield f"export class {pascal(group)}Operations {{\n  constructor (protected readonly ask: Ask) {{}}\n\n{methods}}}\n"


def sandbox(operations, fields):
    operations = [{**row, "fields": [field for field in fields if field["symbol"] == row["symbol"]]} for row in operations]
    params = "\n".join(params_of(operation) for operation in operations if operation["fields"])
    methods = "\n".join(f"  | '{operation['method']}'" for operation in operations)
    streams = alternatives(operation["method"] for operation in operations if operation["kind"] == "STREAM")
    classes = "\n".join(classes_of(operations))
    return f"""{head('sandbox.def')}import type {{ Asking, OperationOptions }} from '../internal/asking.js'
import type {{ Answers, NetworkPolicy, SandboxVolume, StreamEvents, TerminalSize }} from '../sandbox/answers.js'
import type {{ Limits }} from './limits.js'

{params}
export type Method =
{methods}
/** Methods that send events before they are answered. */
export type StreamMethod = {streams}
export type EventsOf<M> = M extends keyof StreamEvents ? StreamEvents[M] : never
export type Ask = <M extends Method>(method: M, params: object, options: OperationOptions) => Asking<Answers[M], EventsOf<M>>

{classes}"""


def files(tables):
    return {
        FOLDER + "backups.ts": backups(tables["BACKUP_COMMAND"]),
        FOLDER + "discovery.ts": discovery(tables),
        FOLDER + "errors.ts": errors(tables["CLOCHE_ERROR"]),
        FOLDER + "limits.ts": limits(tables["CLOCHE_LIMIT"]),
        FOLDER + "statuses.ts": statuses(tables["CLOCHE_STATUS"]),
        FOLDER + "sandbox.ts": sandbox(tables["SANDBOX_OPERATION"], tables["SANDBOX_FIELD"]),
    }
