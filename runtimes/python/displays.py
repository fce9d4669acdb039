"""Displays in wire format: bytes as bytes, and large values kept in a file."""
import os
import sys

values = part("values")
encode, write_json, Refused = values["encode"], values["write_json"], values["Refused"]
FOLDER_OF_LARGE = "/tmp/.cloche-display"
SHORT = 1000
BASE64_KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
ENDINGS = {"text/plain": "txt", "text/html": "html", "text/markdown": "md", "text/latex": "tex", "image/svg+xml": "svg",
           "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "application/pdf": "pdf",
           "application/javascript": "js"}


def packed(data, metadata, is_result, display_id, is_update, store_bytes):
    """The params as text, attachments and their size."""
    data = {str(mime): plain(mime, value) for mime, value in data.items()}
    metadata = dict(metadata or {})
    params = {"data": data, "metadata": metadata, "isResult": is_result}
    if display_id is not None:
        params["displayId"] = str(display_id)
    if is_update:
        params["isUpdate"] = True
    if rough_size(data) <= store_bytes:
        drop_refused(data, metadata)
        drop_refused(metadata, {})
        text, parts, size = encode(params)
        if len(text) + size <= store_bytes:
            return text, parts, size
    params["data"], params["metadata"] = stored(data)
    return encode(params)


def plain(mime, value):
    """IPython encodes pictures as base64 for its own wire; and text may hold lone surrogates, which
    UTF-8 cannot encode."""
    if type(value) is str:
        if mime in BASE64_KINDS:
            return from_base64(value)
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def from_base64(text):
    from binascii import a2b_base64
    text = text.replace("\n", "")
    try:
        return a2b_base64(text, strict_mode=True) if sys.version_info >= (3, 11) else a2b_base64(text)
    except ValueError:
        return text


def rough_size(data):
    return sum(len(value) for value in data.values() if isinstance(value, (str, bytes, bytearray)))


def drop_refused(tree, metadata):
    """The metadata of an unsendable kind holds the reason; the other kinds are sent."""
    for key, value in list(tree.items()):
        if type(value) is str or type(value) is bytes:
            continue
        try:
            encode(value)
        except Refused as refusal:
            del tree[key]
            metadata[key] = {"error": str(refusal)}


def stored(data):
    """(data, metadata): the largest of the kinds is kept as a file, the others are dropped."""
    content = {mime: as_bytes(value) for mime, value in data.items()}
    mime = max(content, key=lambda name: len(content[name]))
    short = data.get("text/plain")
    short = short if type(short) is str else "<%s of %d bytes>" % (mime, len(content[mime]))
    if len(short) > SHORT:
        short = "%s... (%d characters in all)" % (short[:SHORT], len(short))
    try:
        path = write_file(mime, content[mime])
    except OSError as error:
        return {"text/plain": short}, {"error": "%s of %d bytes could not be kept in %s: %s" % (
            mime, len(content[mime]), FOLDER_OF_LARGE, error.strerror)}
    return {"text/plain": short}, {"stored": {"mime": mime, "path": path, "bytes": len(content[mime])}}


def as_bytes(value):
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace")
    try:
        return write_json(value)
    except (TypeError, ValueError, RecursionError):
        return b""


def write_file(mime, content):
    os.makedirs(FOLDER_OF_LARGE, exist_ok=True)
    path = "%s/%s.%s" % (FOLDER_OF_LARGE, os.urandom(8).hex(), ENDINGS.get(mime, "json" if "json" in mime else "bin"))
    with open(path, "xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            os.unlink(path)
            raise
    return path
