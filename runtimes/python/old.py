"""Replaces the agent if the image's Python is too old: the response to every request is an error with the reason."""
import json
import socket
import struct
import sys

THREW = -32000


def read(channel, size):
    data = b""
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data


def main():
    channel = socket.socket(fileno=3)
    message = "this image has Python %s, and the agent needs Python %s or later: use an image with one (Debian 11 or later)" % (
        sys.version.split()[0], ".".join(map(str, LEAST)))
    while True:
        length, size = struct.unpack("<II", read(channel, 8))
        request = json.loads(read(channel, length - 4)[:size].decode())
        if request.get("id") is None:
            continue
        data = {"type": "UnsupportedVersion", "message": message, "stack": ""}
        text = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": {"code": THREW, "message": message, "data": data}}).encode()
        channel.sendall(struct.pack("<II", len(text) + 4, len(text)) + text)
