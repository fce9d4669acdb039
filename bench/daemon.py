#!/usr/bin/python3
"""daemon.py [--build BUILD] [--runs N] [--idle N]: the time that the daemon adds to a run, and the cost of a connection.

Warm calls of an empty Python function: latency (p50, p99) and throughput at 1, 8 and 64 in flight, over frames, HTTP and WebSocket, all
on one unix socket and on as few connections as the carrier permits (HTTP: one request per connection at a time). Then a request that
does nothing (the face's own cost), and the daemon's memory with idle connections. Ratios hold between machines; milliseconds do not."""
import argparse
import asyncio
import base64
import json
import os
import statistics
import struct
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CALL = {"language": "python", "code": "return 1", "resultOptions": {"includeChanges": False}}


def frame(message):
    text = json.dumps(message).encode()
    return struct.pack("<II", 4 + len(text), len(text)) + text


class Frames:
    name = "frames"
    connections = 1

    async def open(self, path):
        self.reader, self.writer = await asyncio.open_unix_connection(path, limit=1 << 20)
        await self.greet(path)
        self.waiting, self.next_id = {}, 0
        self.task = asyncio.create_task(self.read())
        await self.ask("hello", {"protocol": 1})

    async def greet(self, path):
        self.writer.write(b"CLOCHE1\n")

    async def read_frame(self):
        return await self.reader.readexactly(struct.unpack("<I", await self.reader.readexactly(4))[0])

    async def read(self):
        while True:
            data = await self.read_frame()
            size = struct.unpack("<I", data[:4])[0]
            message = json.loads(data[4:4 + size])
            self.waiting.pop(message["id"]).set_result(message)

    def write(self, data):
        self.writer.write(data)

    async def ask(self, method, params):
        self.next_id += 1
        future = self.waiting[self.next_id] = asyncio.get_running_loop().create_future()
        self.write(frame({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}))
        message = await future
        assert "result" in message, message
        return message["result"]

    async def close(self):
        self.task.cancel()
        self.writer.close()


class WebSocket(Frames):
    name = "WebSocket"

    async def greet(self, path):
        key = base64.b64encode(os.urandom(16)).decode()
        self.writer.write((f"GET /v1/rpc HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                           f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert b" 101 " in head, head

    async def read_frame(self):
        head = await self.reader.readexactly(2)
        size = head[1]
        if size == 126:
            size = struct.unpack(">H", await self.reader.readexactly(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", await self.reader.readexactly(8))[0]
        return (await self.reader.readexactly(size))[4:]

    def write(self, data):
        size = len(data)
        length = bytes([0x80 | size]) if size < 126 else bytes([0xfe]) + struct.pack(">H", size)
        self.writer.write(b"\x82" + length + bytes(4) + data)  # masked with zeros


class Http:
    name = "HTTP"
    connections = 64

    async def open(self, path):
        self.reader, self.writer = await asyncio.open_unix_connection(path, limit=1 << 20)

    async def ask(self, method, params):
        body = json.dumps(params).encode()
        if method == "languages":
            self.writer.write(b"GET /v1/languages HTTP/1.1\r\nHost: localhost\r\n\r\n")
        else:
            self.writer.write(f"POST /v1/{method} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.split(b"\r\n")[0], head
        size = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")).split(b":")[1])
        return json.loads(await self.reader.readexactly(size))

    async def close(self):
        self.writer.close()


async def measure(carrier, path, in_flight, count, method, params):
    """Latencies in ms, sorted, and calls per second."""
    clients = []
    for _ in range(min(in_flight, carrier.connections)):
        clients.append(carrier())
        await clients[-1].open(path)
    latencies, left = [], [count]

    async def worker(client):
        while left[0] > 0:
            left[0] -= 1
            begun = time.perf_counter()
            await client.ask(method, params)
            latencies.append((time.perf_counter() - begun) * 1e3)

    for client in clients:
        await client.ask(method, params)
    begun = time.perf_counter()
    await asyncio.gather(*(worker(clients[i % len(clients)]) for i in range(in_flight)))
    seconds = time.perf_counter() - begun
    for client in clients:
        await client.close()
    return sorted(latencies), len(latencies) / seconds


async def table(path, title, count, method, params):
    print(f"{title}\n{'':12}{'in flight':>10}{'p50 ms':>10}{'p99 ms':>10}{'per second':>12}{'to frames':>11}")
    for in_flight in (1, 8, 64):
        floor = None
        for carrier in (Frames, WebSocket, Http):
            latencies, rate = await measure(carrier, path, in_flight, count, method, params)
            p50, p99 = statistics.median(latencies), latencies[int(len(latencies) * 0.99)]
            floor = floor or p50
            print(f"{carrier.name:12}{in_flight:10}{p50:10.3f}{p99:10.3f}{rate:12.0f}{p50 / floor:11.2f}")


async def idle(daemon, carrier, count):
    before, clients = daemon.memory(), []
    for _ in range(count):
        client = carrier()
        await client.open(daemon.path)
        await client.ask("languages", {})
        clients.append(client)
    print(f"{count} idle connections of {carrier.name}: {(daemon.memory() - before) / count / 1024:.1f} KiB each")
    for client in clients:
        await client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--idle", type=int, default=1000)
    options = parser.parse_args()
    os.environ["CLOCHE_BUILD"] = os.path.abspath(options.build)
    os.environ["CLOCHE_SOURCE"] = SOURCE
    sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
    from rpc import Daemon
    with Daemon() as daemon:
        asyncio.run(table(daemon.path, "warm call of an empty Python function", options.runs, "call", CALL))
        asyncio.run(table(daemon.path, "a request that does nothing (languages)", options.runs, "languages", {}))
    for carrier in (Frames, WebSocket, Http):
        with Daemon() as daemon:
            asyncio.run(idle(daemon, carrier, options.idle))


if __name__ == "__main__":
    main()
