"""Contexts of Ruby that are forked while they live: state in a fork, renewed state, and fork blockers."""
from keeper_boxes import Keeper, notebook, opened
from cloche import equal


def start(keeper):
    sandbox, box, context = opened(keeper, notebook(keeper, "ruby"), "ruby")
    equal(context.done("describe"), {"variables": []})
    return sandbox, box, context


def test_forks():
    with Keeper() as keeper:
        sandbox, box, context = start(keeper)
        context.cell("note = ['first']; class Kept; def n = 3; end; def f = 4; $g = 5")
        same, elsewhere = sandbox.forkable(box), keeper.box(parent=box.name)
        branch, pid = context.fork(same)
        equal(branch.cell("Process.pid"), str(pid))
        equal(branch.cell("[Dir.pwd, ENV['OWN'], note, Kept.new.n, f, $g]"), '["/workspace/here", "set", ["first"], 3, 4, 5]')
        # A directory that the fork has not is /workspace; the original goes on as it was.
        alone, _ = context.fork(elsewhere)
        equal(alone.cell("[Dir.pwd, Dir.children('.')]"), '["/workspace", []]')
        context.cell("note << 'original'")
        branch.cell("note << 'fork'")
        equal([c.cell("note") for c in (context, branch, alone)], ['["first", "original"]', '["first", "fork"]', '["first"]'])
        branch.cell("puts 'on its own'; warn 'here too'")
        assert "on its own\nhere too\n" in branch.read("here too\n")
        equal(branch.done("cell", code="1/0", count=9)["error"]["name"], "ZeroDivisionError")
        equal(branch.cell("[`echo y`, Thread.new { 6 }.value]"), '["y\\n", 6]')
        # Random numbers are unique to each.
        code = "[rand, Random.rand, SecureRandom.hex(4), [*1..20].shuffle, Dir::Tmpname.create('x') { }[/[^-]*\\z/]]"
        told = [c.cell(code)[1:-1].split(", ") for c in (context, branch, alone)]
        assert all(len(set(parts)) == 3 for parts in zip(*(row[:3] + row[-1:] for row in told))), told
        # A fork of the fork, and a second request to enter.
        again, _ = branch.fork(sandbox.context(same))
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
