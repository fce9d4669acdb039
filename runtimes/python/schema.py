"""Signatures given by the caller: both forms of the executor contract, and the subset of JSON-Schema they use."""

ANNOTATIONS = {"title", "description", "examples", "$comment", "$schema", "$id", "format", "deprecated", "readOnly",
               "writeOnly", "default", "name", "index"}
NONE = object()


class Rule:
    """One parameter."""

    def __init__(self, name, schema, required):
        self.name, self.schema, self.required = name, schema, required
        self.default = schema.get("default", NONE)
        check_schema(schema, "schema of %r" % name)


class Rules:
    def __init__(self, schema):
        self.output = schema.get("output")
        if "params" in schema:
            self.rules = [old_rule(item, index) for index, item in enumerate(listed(schema["params"], "params"))]
            self.variadic, self.any_keyword = bool(schema.get("variadic")), bool(schema.get("acceptsKwargs"))
        else:
            self.rules = new_rules(schema.get("input", []))
            self.variadic = self.any_keyword = not schema.get("strict")
        self.by_name = {rule.name: rule for rule in self.rules}
        if len(self.by_name) != len(self.rules):
            raise ValueError("schema: a parameter is named twice")
        if self.output is not None:
            check_schema(self.output, "schema of the output")

    def bind(self, placed, keywords):
        """Checked arguments, defaults filled in by name."""
        keywords = dict(keywords)
        given = {}
        for index, value in placed.items():
            if index < len(self.rules):
                given[self.rules[index].name] = value
            elif not self.variadic:
                raise TypeError("argument %d is too many: the schema has %d (%s)" % (
                    index + 1, len(self.rules), ", ".join(self.by_name)))
        for name, value in keywords.items():
            if name in given:
                raise TypeError("argument %r is given twice" % name)
            if name in self.by_name:
                given[name] = value
            elif not self.any_keyword:
                raise TypeError("unknown argument %r; the schema has: %s" % (name, ", ".join(self.by_name) or "none"))
        for rule in self.rules:
            self.complete(rule, given, keywords)
        return placed, keywords

    def complete(self, rule, given, keywords):
        if rule.name in given:
            check(given[rule.name], rule.schema, "argument %r" % rule.name)
        elif rule.default is not NONE:
            keywords[rule.name] = rule.default
        elif rule.required:
            raise TypeError("missing required argument %r" % rule.name)

    def fit(self, placed, keywords, names):
        """A function that does not take the schema's names gets the values by position."""
        allowed = names[1]
        if allowed is None or all(name in allowed for name in keywords):
            return placed, keywords
        placed = dict(placed)
        rest = {}
        order = [rule.name for rule in self.rules]
        for name, value in keywords.items():
            if name in order and name not in allowed:
                placed[order.index(name)] = value
            else:
                rest[name] = value
        return placed, rest

    def check_output(self, value):
        if self.output is not None:
            check(value, self.output, "result")


def listed(value, name):
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("schema: %s must be an array of objects" % name)
    return value


def old_rule(item, index):
    name = named(item, index)
    schema = {key: value for key, value in item.items() if key not in ("name", "required")}
    return Rule(name, schema, item.get("required") is True)


def named(item, index):
    name = item.get("name", "arg%d" % index)
    if not isinstance(name, str):
        raise ValueError("schema: the name of parameter %d is not a string" % index)
    return name


def new_rules(given):
    if isinstance(given, dict):
        pairs = list(given.items())
        if not all(isinstance(schema, dict) for _, schema in pairs):
            raise ValueError("schema: input must map names to schemas")
        pairs = in_order(pairs)
    else:
        pairs = [(named(item, index), item) for index, item in enumerate(listed(given, "input"))]
    return [new_rule(name, schema) for name, schema in pairs]


def in_order(pairs):
    """Parameters with an index stand at it, the others fill the places between."""
    fixed = {}
    for name, schema in pairs:
        if "index" in schema:
            index = schema["index"]
            if type(index) is not int or not 0 <= index < len(pairs) or index in fixed:
                raise ValueError("schema of %r: index %r is not a free position" % (name, index))
            fixed[index] = (name, schema)
    others = iter([pair for pair in pairs if "index" not in pair[1]])
    return [fixed[index] if index in fixed else next(others) for index in range(len(pairs))]


def new_rule(name, schema):
    flag = schema.get("required")
    if isinstance(flag, bool):
        schema = {key: value for key, value in schema.items() if key != "required"}
    return Rule(name, schema, flag is True)


# ---- JSON-Schema ----

def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": lambda value: is_number(value) and value % 1 == 0,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, (list, tuple)) or type(value).__name__ in ("array", "ndarray"),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
    "bytes": lambda value: isinstance(value, (bytes, bytearray)),
    "any": lambda value: True,
}
NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", tuple: "array",
         dict: "object", type(None): "null", bytes: "bytes", bytearray: "bytes"}


def type_list(schema):
    types = schema.get("type", "any")
    return types if isinstance(types, list) else [types]


def check_schema(schema, where):
    if not isinstance(schema, dict):
        raise ValueError("%s must be an object" % where)
    for key, value in schema.items():
        if key not in KEYWORDS and key not in ANNOTATIONS and key != "type":
            raise ValueError("%s: keyword %r is not supported" % (where, key))
        if key in KEYWORDS and not KEYWORDS[key][0](value):
            raise ValueError("%s: keyword %r has a wrong value" % (where, key))
    for name in type_list(schema):
        if not isinstance(name, str) or name not in TYPES:
            raise ValueError("%s: unknown type %r" % (where, name))
    for name, inner in schema.get("properties", {}).items():
        check_schema(inner, "%s.%s" % (where, name))
    if "items" in schema:
        check_schema(schema["items"], where + "[]")


def check(value, schema, where):
    types = type_list(schema)
    if not any(TYPES[name](value) for name in types):
        raise TypeError("%s: expected %s, got %s" % (
            where, " or ".join(types), NAMES.get(type(value), type(value).__name__)))
    for key, (_, rule) in KEYWORDS.items():
        if key in schema:
            rule(value, schema[key], where, schema)


def same(left, right):
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def check_enum(value, allowed, where, schema):
    if not any(same(value, item) for item in allowed):
        raise ValueError("%s: expected one of %.500r, got %.80r" % (where, allowed, value))


def check_properties(value, properties, where, schema):
    if isinstance(value, dict):
        for name, inner in properties.items():
            if name in value:
                check(value[name], inner, "%s.%s" % (where, name))


def check_required(value, names, where, schema):
    if isinstance(value, dict):
        for name in names:
            if name not in value:
                raise TypeError("%s: property %r is missing" % (where, name))


def check_additional(value, allowed, where, schema):
    if isinstance(value, dict) and not allowed:
        for name in value:
            if name not in schema.get("properties", {}):
                raise TypeError("%s: unknown property %r" % (where, name))


def check_items(value, inner, where, schema):
    if TYPES["array"](value):
        for index, item in enumerate(value):
            check(item, inner, "%s[%d]" % (where, index))


def check_minimum(value, bound, where, schema):
    if is_number(value) and not value >= bound:
        raise ValueError("%s: expected at least %r, got %r" % (where, bound, value))


def check_maximum(value, bound, where, schema):
    if is_number(value) and not value <= bound:
        raise ValueError("%s: expected at most %r, got %r" % (where, bound, value))


def check_min_length(value, bound, where, schema):
    if isinstance(value, str) and len(value) < bound:
        raise ValueError("%s: expected at least %d characters, got %d" % (where, bound, len(value)))


def check_max_length(value, bound, where, schema):
    if isinstance(value, str) and len(value) > bound:
        raise ValueError("%s: expected at most %d characters, got %d" % (where, bound, len(value)))


def check_pattern(value, pattern, where, schema):
    if isinstance(value, str):
        import re
        if not re.search(pattern, value):
            raise ValueError("%s: %.80r does not match %r" % (where, value, pattern))


def is_list(value):
    return isinstance(value, list)


def is_size(value):
    return type(value) is int and value >= 0


KEYWORDS = {
    "enum": (is_list, check_enum),
    "properties": (lambda value: isinstance(value, dict), check_properties),
    "required": (lambda value: is_list(value) and all(isinstance(item, str) for item in value), check_required),
    "additionalProperties": (lambda value: isinstance(value, bool), check_additional),
    "items": (lambda value: isinstance(value, dict), check_items),
    "minimum": (is_number, check_minimum),
    "maximum": (is_number, check_maximum),
    "minLength": (is_size, check_min_length),
    "maxLength": (is_size, check_max_length),
    "pattern": (lambda value: isinstance(value, str), check_pattern),
}
