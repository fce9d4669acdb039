"""Not a test: first code without errors for mypy, then code with errors that it must find."""
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


def staying(client: cloche.Cloche) -> None:
    with client.sandbox(network=cloche.Network(["example.org:443"])) as box:
        assert_type(box, cloche.Sandbox)
        assert_type(box.exec("ls", timeout_ms=5), cloche.Completed)
        for output in box.stream("ls"):
            assert_type(output, cloche.Output)
        assert_type(box.stream("ls").result, cloche.Completed)
        assert_type(box.start("ls", terminal=(80, 24)), cloche.Process)
        assert_type(box.session("s").exec("ls"), cloche.Completed)
        assert_type(box.read_file("f").data, bytes)
        assert_type(box.upload("f", "g"), int)
        assert_type([change.type for change in box.watch("d")][0] == "create", bool)
        assert_type(box.run_code("1", language="ruby").text, str | None)
        with box.context("c", forkable=True) as context:
            assert_type(context, cloche.Context)
            assert_type(context.run("1", on_display=lambda display: display.png, on_input=lambda prompt, password: None), cloche.CellResult)
            assert_type(context.fork(2), list[cloche.Context])
            assert_type(context.stream("1").result.displays, list[cloche.Display])


async def waiting(client: cloche.AsyncCloche) -> None:
    assert_type(await client.call("python", "1"), cloche.Result)
    assert_type(await client.plan_sync("c1"), cloche.SyncPlan)
    async with client.prefix("python", "x = 1") as prefix:
        assert_type(await prefix.call("return x"), cloche.Result)
    assert_type(await client.prefix("python"), cloche.AsyncPrefix)
    async with client.sandbox("s") as box:
        assert_type(box, cloche.AsyncSandbox)
        assert_type((await box.exec("ls")).exit_code, int)
        assert_type(await box.start("ls"), cloche.AsyncProcess)
        async for output in box.process("p").follow(replay=False):
            assert_type(output, cloche.Output)
        assert_type(await box.walk("d"), list[cloche.FileEntry])
        async with box.context() as context:
            assert_type(context, cloche.AsyncContext)
            assert_type((await context.run("1")).unwrap(), cloche.CellResult)
            assert_type(await context.fork(), list[cloche.AsyncContext])


def wrong(client: cloche.Cloche) -> None:
    client.call("python")  # wrong: no code
    client.call("python", "1", tiemout=3)  # wrong: no such option
    client.call("python", "1", timeout="3")  # wrong: text
    client.sync("c1", on_error="retry")  # wrong: no such choice
    client.call("python", "1").valeu  # wrong: no such field
    client.sandbox("s").exec(["ls"])  # wrong: a list
    client.sandbox("s").process("p").follow(replya=False)  # wrong: no such option
    client.sandbox("s").run_code("1", language="cobol")  # wrong: no such language
