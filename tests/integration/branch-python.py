"""Contexts of Python that are forked while they live: state in a fork, renewed state, and fork blockers."""
from keeper_boxes import Keeper, notebook, opened
from cloche import equal


def forks(keeper, prefix):
    sandbox, box, context = opened(keeper, prefix, "python")
    context.cell("import os, random, tempfile, uuid\nimport numpy as np, pandas as pd, matplotlib.pyplot as plt\n"
                 "random.seed(1)\nframe = pd.DataFrame({'a': range(1000)})\nnote = ['first']")
    same, elsewhere = sandbox.forkable(box), keeper.box(parent=box.name)
    branch, pid = context.fork(same)
    equal(branch.cell("os.getpid()"), str(pid))
    equal(branch.cell("os.getcwd(), os.environ['OWN'], frame.a.sum(), note"), "('/workspace/here', 'set', 499500, ['first'])")
    equal(branch.cell("len(In), In[1][:9], _2"), f"(5, 'import os', {pid})")
    # A directory that the fork has not is /workspace; the original goes on as it was.
    alone, _ = context.fork(elsewhere)
    equal(alone.cell("os.getcwd(), os.listdir()"), "('/workspace', [])")
    context.cell("note.append('original')")
    branch.cell("note.append('fork')")
    equal([c.cell("note") for c in (context, branch, alone)], ["['first', 'original']", "['first', 'fork']", "['first']"])
    # Streams of its own, printing, errors, displays, a new loop for await.
    branch.cell("print('on its own')\nimport sys; print('here too', file=sys.stderr)")
    assert "on its own\nhere too\n" in branch.read("here too\n")
    equal(branch.cell("import asyncio\nawait asyncio.sleep(0, 'awaited')"), "'awaited'")
    equal(branch.done("cell", code="1/0", count=9)["error"]["name"], "ZeroDivisionError")
    assert [row["name"] for row in branch.done("describe")["variables"]].count("frame") == 1
    # Random numbers are unique to each.
    code = "random.random(), np.random.random(), next(tempfile._get_candidate_names()), uuid.uuid4().hex, os.urandom(4)"
    assert len({c.cell(code) for c in (context, branch, alone)}) == 3
    # A fork of the fork, and a second request to enter.
    again, _ = branch.fork(sandbox.context(same))
    equal(again.cell("note, await asyncio.sleep(0, 1)"), "(['first', 'fork'], 1)")
    equal(again.told("enter")["error"]["code"], -32600)
    equal(again.hindrance(), "the context was not made to be forked")
    equal(alone.hindrance(), "the context was not made to be forked")
    equal(context.told("enter")["error"]["code"], -32600)


def what_libraries_leave_does_not_stand_in_the_way(keeper, prefix):
    sandbox, box, context = opened(keeper, prefix, "python")
    context.cell("import asyncio, numpy as np, pandas as pd, matplotlib.pyplot as plt\n"
                 "a = np.random.rand(400, 400); b = (a @ a).sum(); np.linalg.eigvals(a[:50, :50])")
    context.cell("frame = pd.DataFrame({'a': range(200000), 'b': np.random.rand(200000)})\n"
                 "frame.groupby(frame.a % 7).b.mean(), frame.eval('a + b').sum(), frame.to_csv('/tmp/f.csv'), len(pd.read_csv('/tmp/f.csv'))")
    context.cell("plt.plot([1, 2]); plt.title('$x^2$ and text'); plt.xlabel('label'); plt.show()")
    context.cell("await asyncio.sleep(0)\nloop = asyncio.get_running_loop()\nawait loop.run_in_executor(None, len, 'abc')")
    context.cell("import subprocess, sqlite3\nsubprocess.run(['true']); p = subprocess.Popen(['true'])\n%timeit -n1 -r1 1\n%pwd\n"
                 "database = sqlite3.connect(':memory:'); database.execute('create table t (a)')")
    context.told("cell", code="1/0", count=20)
    context.told("complete", code="pd.Da", at=5)
    branch, _ = context.fork(sandbox.context(box))
    equal(branch.cell("round(float(frame.b.mean()), 1), (a @ a).sum() == b, database.execute('select count(*) from t').fetchall()"), "(0.5, True, [(0,)])")
    equal(branch.cell("plt.plot([1, 2]); plt.title('$x^2$'); plt.show()\n'drawn'"), "'drawn'")
    equal(context.cell("await asyncio.sleep(0, 'goes on')"), "'goes on'")
    equal(context.cell("(a @ a).sum() == b"), "True")


def what_stands_in_the_way(keeper, prefix):
    sandbox, box, context = opened(keeper, prefix, "python")
    context.cell("import asyncio, os, subprocess, threading, time, sqlite3, socket")
    for make, unmake, says in [
            ("t = asyncio.create_task(asyncio.sleep(1000), name='sleeper'); await asyncio.sleep(0)", "t.cancel()\nawait asyncio.sleep(0)",
             "tasks of the event loop are not done: sleeper"),
            ("h = asyncio.get_running_loop().call_later(1000, print); await asyncio.sleep(0)", "h.cancel()", "calls are scheduled in the event loop"),
            ("e = threading.Event(); t = threading.Thread(target=e.wait); t.start()", "e.set(); t.join()", "1 thread is alive"),
            ("f = open('/workspace/here/log', 'w')", "f.close()", "(/workspace/here/log)"),
            ("f = open('/etc/passwd')", "f.close()", "(/etc/passwd)"),
            ("s = socket.socket()", "s.close()", "(socket:"),
            ("d = sqlite3.connect('/workspace/here/d.db'); d.execute('create table if not exists t (a)')", "d.close()", "d.db)"),
            ("p = subprocess.Popen(['sleep', '1000'])", "p.kill(); p.wait()", "(sleep)"),
            ("pid = os.fork()\nif not pid: time.sleep(1000)", "os.kill(pid, 9); os.waitpid(pid, 0)", "child processes are alive")]:
        context.cell(make)
        said = context.hindrance()
        assert said and says in said, (make, said)
        context.cell(unmake)
        equal((make, context.hindrance()), (make, None))
    # A cycle of garbage that holds a file is no reason.
    context.cell("class Holder: pass\nh = Holder(); h.me = h; h.file = open('/etc/passwd'); del h")
    equal(context.hindrance(), None)
    # Without the means it cannot be forked, and goes on.
    context.cell("before = {fd: os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if int(fd) >= 900}")
    context.cell("[os.close(int(fd)) for fd, what in before.items() if 'pid:' in what]")
    assert "closed or replaced" in context.hindrance()
    equal(context.cell("1 + 1"), "2")


def test_contexts_of_python_are_forked():
    with Keeper() as keeper:
        prefix = notebook(keeper, "python")
        forks(keeper, prefix)
        what_libraries_leave_does_not_stand_in_the_way(keeper, prefix)
        what_stands_in_the_way(keeper, prefix)
