"""Values on the wire (spec/values.md), as the agent sends and receives them. wire.py has their forms."""
from _json import encode_basestring, make_encoder, make_scanner

wire = part("wire")
Refused = wire["Refused"]
SPACE = " \t\r\n"


# ---- JSON text ----

def refuse_constant(name):
    raise ValueError(name + " is not JSON")


class Strict:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(refuse_constant)
    memo = {}


scan = make_scanner(Strict())
write_chunks = make_encoder(None, None, encode_basestring, None, ":", ",", False, False, False)


def parse_json(data):
    text = data.decode("utf-8")
    start = len(text) - len(text.lstrip(SPACE))
    try:
        value, end = scan(text, start)
    except StopIteration:
        raise ValueError("not JSON") from None
    if text[end:].strip(SPACE):
        raise ValueError("text after the JSON")
    return value


def write_json(tree):
    return "".join(write_chunks(tree, 0)).encode("utf-8")


# ---- Python to wire ----

class TooLarge(Exception):
    pass


def check_size(size, limit):
    if limit and size > limit:
        raise TooLarge("the result is %d bytes or more, over the limit of %d (resultBytes)" % (size, limit))


class Encoder(wire["Encoder"]):
    verb = "return"
    is_bounded = True
    numpy_kinds = "mMcV"

    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def attach(self, tag, data):
        super().attach(tag, data)
        check_size(self.size, self.limit)
        return tag

    def other(self, value, depth):
        return part("evident")["encode"](self, value, depth)

    def numpy(self, value, depth):
        return part("evident")["encode_numpy"](self, value, depth)


class Numbered(wire["Numbering"], Encoder):
    pass


def encode(value, limit=0, references=False):
    """The value's JSON text, its attachments, and their size."""
    encoder = Numbered(limit) if references else Encoder(limit)
    text = write_json(encoder.whole(value))
    check_size(len(text) + encoder.size, limit)
    return text, encoder.parts, encoder.size


# ---- wire to Python ----

class Decoder(wire["Decoder"]):
    is_bounded = True
