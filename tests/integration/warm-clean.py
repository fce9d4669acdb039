"""Each run from a prefix is a new one: it sees nothing of an earlier run, and unique values differ.
From the pool and without."""
import os
from cloche import call, cli, equal
from warm import Failed, Warm

SETUP = "import os, random, secrets, tempfile, time, uuid\nseen = []\nknown = {'a': 1}\nfirst_random = random.random()"


def both(check, **options):
    for spares in (0, 2):
        with Warm(setup=SETUP, spares=spares, **options) as warm:
            check(warm)


def test_globals():
    def check(warm):
        for _ in range(3):
            equal(warm.value("seen.append(1); known['b'] = 2; import builtins; first = not hasattr(builtins, 'mark'); builtins.mark = 1\n"
                             "return [len(seen), len(known), first]", pause=50), [1, 2, True])
    both(check)


def test_modules_of_a_run():
    def check(warm):
        for _ in range(2):
            equal(warm.value("import sys\nthere = 'colorsys' in sys.modules\nimport colorsys\nreturn there", pause=50), False)
    both(check)


def test_files_and_directories():
    def check(warm):
        for _ in range(3):
            equal(warm.value("""
                found = [n for d in ('/workspace', '/tmp', '/home/cloche', '/dev/shm') for n in os.listdir(d)]
                for d in ('/workspace', '/tmp', '/home/cloche', '/dev/shm'):
                    open(d + '/mine', 'w').write('x')
                os.mkdir('/workspace/dir')
                os.environ['LEFT'] = 'x'
                os.chdir('/tmp')
                return found
            """, pause=50), [])
            equal(warm.value("return [os.environ.get('LEFT'), os.getcwd()]", pause=50), [None, "/workspace"])
    both(check)


def test_processes():
    def check(warm):
        for _ in range(3):
            equal(warm.value("""
                count = len([n for n in os.listdir('/proc') if n.isdigit()])
                if os.fork() == 0:
                    os.setsid()
                    time.sleep(100)
                return count <= 3
            """, pause=50), True)
    both(check)


def test_abstract_sockets_and_shared_memory():
    def check(warm):
        for _ in range(2):
            equal(warm.value("""
                import ctypes, socket
                socket.socket(socket.AF_UNIX).bind('\\0meeting')
                return ctypes.CDLL(None).shmget(4711, 4096, 0o3666) >= 0
            """, pause=50), True)
    both(check)


def test_chance_differs():
    def check(warm):
        code = "return [random.random(), str(uuid.uuid4()), str(uuid.uuid1()), next(tempfile._get_candidate_names()), os.urandom(8).hex()," \
               " secrets.token_hex(8), random.getrandbits(64)]"
        rows = [warm.value(code, pause=50) for _ in range(3)] + [r.value for r in warm.runs(code, 3)]
        for column in zip(*rows):
            equal(len(set(map(str, column))), len(rows), column)
    both(check)


def test_a_seed_of_the_set_up_does_not_make_runs_alike():
    with Warm(setup="import random\nrandom.seed(1)\nmine = random.Random(1)") as warm:
        values = [warm.value("return [random.random(), mine.random()]") for _ in range(2)]
    assert values[0][0] != values[1][0], values
    equal(values[0][1], values[1][1], "(a generator of the user's is the user's affair)")


def test_numbers_of_processes_differ_from_the_templates():
    """A run has a pid namespace of its own; the pid remembered by the set-up is not the run's."""
    with Warm(setup="import os\nmine = os.getpid()") as warm:
        here, there, parent = warm.value("return [os.getpid(), mine, os.getppid()]")
    assert here > 1 and parent == 0, (here, there, parent)


def test_runs_at_once_do_not_see_each_other():
    with Warm(setup=SETUP, runs_max=4) as warm:
        code = "open('/tmp/mine', 'x').close(); time.sleep(0.3)\nreturn [os.listdir('/tmp'), len([n for n in os.listdir('/proc') if n.isdigit()])]"
        for result in warm.runs(code, 4):
            equal(result.value[0], ["mine"], result)
            assert result.value[1] <= 3, result


def test_changes_of_files_are_told():
    with Warm(setup=SETUP) as warm:
        for _ in range(2):
            result = warm.run("open('new', 'w').write('n'); open('given', 'w').write('changed'); os.unlink('gone')\nreturn 1",
                              files={"given": "before", "gone": "x", "same": "y"}, changes=True, pause=50)
            equal([result.paths(kind) for kind in ("created", "modified", "deleted")], [["/workspace/new"], ["/workspace/given"], ["/workspace/gone"]], result)


def test_files_of_a_prefix_are_whole_in_every_run():
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    open("host", "w").write("as it was")
    equal(cli("prefix", "create", "a", "python", "-c", "import os", "--file", "dir/given=host").code, 0)
    for _ in range(2):
        result = call("python", "def f():\n    was = open('dir/given').read()\n    os.unlink('dir/given')\n    return was", "f", prefix="a")
        equal((result.value, result.paths("deleted")), ("as it was", ["/workspace/dir/given"]), result)


# ---- a failing run affects no other ------------------------------------------------------------------------------

CHANNEL = "channel = max(map(int, os.listdir('/proc/self/fd')))\n"


def bad_end(code, status, **limits):
    def check(warm):
        for _ in range(2):
            result = warm.run(code, limits=limits, pause=50)
            equal(result.status, status, result)
            equal(warm.value("seen.append(1)\nreturn [len(seen), sorted(known)]", pause=50), [1, ["a"]])
    both(check)


def test_a_run_out_of_memory():
    bad_end("x = bytearray(400 << 20)\nreturn len(x)", "crash", memoryBytes=64 << 20)


def test_a_run_that_crashes():
    bad_end("import ctypes; ctypes.string_at(0)", "crash")


def test_a_run_that_kills_all_it_can():
    bad_end("import subprocess\nsubprocess.Popen(['sleep', '100'])\nos.kill(-1, 9)\nos.kill(os.getpid(), 9)", "crash")


def test_a_run_that_throws():
    bad_end("raise ValueError('no')", "error")


def test_a_run_that_exits():
    bad_end("os._exit(7)", "crash")


def test_a_run_that_never_ends():
    bad_end("while True: pass", "timeout", wallMs=300)


def test_a_run_that_speaks_nonsense_to_the_engine():
    bad_end(CHANNEL + "os.write(channel, b'nonsense' * 1000)\ntime.sleep(100)", "crash", wallMs=5000)


def test_a_run_that_closes_its_channel():
    """Its further messages can reach no one: it is not awaited until its wall limit."""
    bad_end(CHANNEL + "os.close(channel)\ntime.sleep(100)", "crash", wallMs=10000)


# ---- bad input ---------------------------------------------------------------------------------------------------

def test_limits_out_of_range_are_refused():
    with Warm(setup=SETUP) as warm:
        try:
            warm.run("return 1", limits={"memoryBytes": 1})
        except Failed as failed:
            equal(failed.code, "invalid_argument")
        else:
            raise AssertionError("taken")
        equal(warm.value("return 1"), 1)


def test_a_file_that_cannot_be_placed_is_refused():
    with Warm(setup=SETUP) as warm:
        for path in ("/etc/passwd", "../x", "/proc/self/mem"):
            try:
                warm.run("return 1", files={path: "x"})
            except Failed as failed:
                equal(failed.code, "invalid_argument")
            else:
                raise AssertionError(path + " was taken")
        equal(warm.value("return 1"), 1)
