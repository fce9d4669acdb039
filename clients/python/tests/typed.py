"""Not a test: what mypy is to find nothing in, and beneath it what it is to find."""
from typing import assert_type

import cloche


def blocking(client: cloche.Cloche) -> None:
    assert_type(client.call("python", "1", args=[1], limits=cloche.Limits(wall_ms=5)), cloche.Result)
    assert_type(client.start_call("python", "1").wait(), cloche.Result)
    assert_type(client.script("bash", "ls", ["-l"], stdin=b""), cloche.Result)
    assert_type(client.languages(), list[cloche.Language])
    assert_type(client.sync("c1", before_sync=lambda change: cloche.Skip(change.path)), cloche.SyncReport)
    with client.prefix("python", "x = 1") as prefix:
        assert_type(prefix, cloche.Prefix)
        assert_type(prefix.call("return x", timeout=1.5), cloche.Result)


async def waiting(client: cloche.AsyncCloche) -> None:
    assert_type(await client.call("python", "1"), cloche.Result)
    assert_type(await client.plan_sync("c1"), cloche.SyncPlan)
    async with client.prefix("python", "x = 1") as prefix:
        assert_type(await prefix.call("return x"), cloche.Result)
    assert_type(await client.prefix("python"), cloche.AsyncPrefix)


def wrong(client: cloche.Cloche) -> None:
    client.call("python")  # wrong: no code
    client.call("python", "1", tiemout=3)  # wrong: no such option
    client.call("python", "1", timeout="3")  # wrong: text
    client.sync("c1", on_error="retry")  # wrong: no such choice
    client.call("python", "1").valeu  # wrong: no such field
