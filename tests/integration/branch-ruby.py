"""Contexts of Ruby that are forked while they live: what a fork has, what is renewed in it, and what stands in the way."""
import os

from keeper_boxes import Agent, Keeper, RUNTIMES
from cloche import equal

COMMAND = ["ruby", "--disable=gems,did_you_mean,error_highlight", "/run/cloche/agent.rb"]


def notebook(keeper):
    folder = os.path.join(RUNTIMES, "ruby")
    base = keeper.box(template=True, runtime=folder)
    Agent(base, base.spawn(*COMMAND, env=["LANG=C.UTF-8"], template=True).pid).done("freeze")
    prefix = keeper.box(parent=base.name, template=True)
    agent = Agent(prefix, prefix.ask("fork", context=True)["pid"])
    with open(os.path.join(folder, "notebook.rb")) as file:
        agent.done("prepare", code=file.read(), filename="notebook.rb", function=None, globals={}, imports={})
    agent.done("freeze")
    return prefix


def start(keeper):
    prefix, sandbox = notebook(keeper), keeper.sandbox()
    box = sandbox.forkable(prefix)
    context = box.agent()
    assert context.done("open", cwd="/workspace/here", env={"OWN": "set"}, language="ruby")["pid"] > 1
    equal(context.done("describe"), {"variables": []})
    return sandbox, box, context


def fork(context, box):
    equal(context.hindrance(), None)
    child = box.agent()
    child.count = context.count
    return child, child.done("enter")["pid"]


def test_forks():
    with Keeper() as keeper:
        sandbox, box, context = start(keeper)
        context.cell("note = ['first']; class Kept; def n = 3; end; def f = 4; $g = 5")
        same, elsewhere = sandbox.forkable(box), keeper.box(parent=box.name)
        branch, pid = fork(context, same)
        equal(branch.cell("Process.pid"), str(pid))
        equal(branch.cell("[Dir.pwd, ENV['OWN'], note, Kept.new.n, f, $g]"), '["/workspace/here", "set", ["first"], 3, 4, 5]')
        # A directory that the fork has not is /workspace; the original goes on as it was.
        alone, _ = fork(context, elsewhere)
        equal(alone.cell("[Dir.pwd, Dir.children('.')]"), '["/workspace", []]')
        context.cell("note << 'original'")
        branch.cell("note << 'fork'")
        equal([c.cell("note") for c in (context, branch, alone)], ['["first", "original"]', '["first", "fork"]', '["first"]'])
        branch.cell("puts 'on its own'; warn 'here too'")
        assert "on its own\nhere too\n" in branch.read("here too\n")
        equal(branch.done("cell", code="1/0", count=9)["error"]["name"], "ZeroDivisionError")
        equal(branch.cell("[`echo y`, Thread.new { 6 }.value]"), '["y\\n", 6]')
        # Numbers at random are nobody else's.
        code = "[rand, Random.rand, SecureRandom.hex(4), [*1..20].shuffle, Dir::Tmpname.create('x') { }[/[^-]*\\z/]]"
        told = [c.cell(code)[1:-1].split(", ") for c in (context, branch, alone)]
        assert all(len(set(parts)) == 3 for parts in zip(*(row[:3] + row[-1:] for row in told))), told
        # A fork of the fork, and a second request to enter.
        again, _ = fork(branch, sandbox.context(same))
        equal(again.cell("note"), '["first", "fork"]')
        equal(again.told("enter")["error"]["code"], -32600)
        equal(again.hindrance(), "this context was not made to be forked")
        equal(context.told("enter")["error"]["code"], -32600)


def test_what_stands_in_the_way():
    with Keeper() as keeper:
        sandbox, box, context = start(keeper)
        for make, unmake, says in [
                ("t = 2.times.map { Thread.new { sleep } }", "t.each(&:kill).each(&:join)", "2 threads of Ruby are alive"),
                ("f = File.open('/etc/passwd')", "f.close", "(/etc/passwd)"), ("s = IO.pipe", "s.each(&:close)", "(pipe:"),
                ("p = spawn('sleep 1000')", "Process.kill(9, p); Process.wait(p)", "(sleep)")]:
            context.cell(make)
            said = context.hindrance()
            assert said and says in said, (make, said)
            context.cell(unmake)
            equal((make, context.hindrance()), (make, None))
        equal(context.cell("1 + 1"), "2")
