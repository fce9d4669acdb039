"""A mount is within the run's limits, and nothing of it stays: no process, mount, control group, or connection."""
import concurrent.futures
import json
import os
import signal
import time
from cloche import HostStaysWell, cli, descendants, equal, start, wait_for
from mounts import at, bash, call, make, state, tree, value_of

state()
TIMEOUT = 120


def mounts():
    with open("/proc/self/mounts") as file:
        return [line for line in file if " fuse" in line]


def servers():
    """Cloche processes that serve a directory; other tests have some as well."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
            with open(f"/proc/{pid}/cgroup") as file:
                if name in ("cloche-fs", "cloche-sync") and "test-" + os.environ["CLOCHE_TEST_GROUPS"].split("test-")[1].split(":")[0] in file.read():
                    found.add(pid)
        except (OSError, IndexError, KeyError):
            pass
    return found


class NothingStays:
    def __enter__(self):
        self.mounts = mounts()

    def __exit__(self, kind, *_):
        if kind:
            return
        wait_for(lambda: not servers(), "servers to end")
        equal(mounts(), self.mounts)
        equal(descendants(os.getpid()), [])


def test_disk_space_of_a_mount_is_bounded():
    make({"a": "a"})
    with HostStaysWell(), NothingStays():
        result = call("""
            try:
                with open("/data/large", "wb") as file:
                    for _ in range(64):
                        file.write(bytes(1 << 20))
            except OSError as e:
                return [errno.errorcode[e.errno], os.path.getsize("/data/large") <= 8 << 20, attempt(put, "/tmp/well", "x")]
        """, rule="**=*", disk=8, sync="manual")
        equal(result.value, ["ENOSPC", True, "ok"], result)
        equal(len(value_of("put('/data/x', 'x' * (4 << 20)); return get('/data/x')", rule="**=*", disk=8)), 4 << 20)
    equal(sorted(tree()), ["a", "x"])


def test_the_number_of_files_in_a_mount_is_bounded():
    make({"a": "a"})
    code = """
        for i in range(args[0]):
            try:
                put(f"/data/n{i}", "x")
            except OSError as e:
                return [errno.errorcode[e.errno], i <= 64]
        return "ok"
    """
    with NothingStays():
        equal(value_of(code, args=[1000], rule="**=*", inodes=64, sync="manual"), ["ENOSPC", True])
        equal(value_of(code, args=[32], rule="**=*", inodes=64, sync="manual"), "ok")


def test_what_is_written_counts_as_memory():
    make({"a": "a"})
    with HostStaysWell(), NothingStays():
        result = call("""
            with open("/data/large", "wb") as file:
                for _ in range(200):
                    file.write(bytes(1 << 20))
        """, rule="**=*", memory=64, disk=0)
        assert result.status in ("crash", "error"), result
        assert "memoryBytes" in result.limits_hit, result
    equal(tree(), {"a": b"a"})


def test_memory_verdict_of_the_code():
    make({"a": "a"})
    with NothingStays():
        result = call("x = bytearray(500 << 20)\nreturn len(x)", memory=64)
        assert result.status in ("crash", "error"), result
        assert bash("x=$(head -c 300M /dev/zero | tr '\\0' x); echo ${#x}", memory=64).code != 0


def test_many_names_do_not_cost_the_host():
    make({"a": "a"})
    with HostStaysWell(), NothingStays():
        result = call("""
            made = 0
            try:
                for i in range(1000000):
                    os.mkdir(f"/data/{i}"); made += 1
            except OSError as e:
                return errno.errorcode[e.errno]
        """, rule="**=*", memory=96, inodes=0, timeout=4)
        assert result.status in ("timeout", "crash") or result.value in ("ENOSPC", "ENOMEM"), result
    equal(tree(), {"a": b"a"})


def test_a_timeout_leaves_nothing():
    make({"a": "a"})
    for code in ("while :; do cat /data/a > /data/b; done", "exec 3> /data/b; sleep 1000", "while :; do ls -R /data; done > /dev/null"):
        with NothingStays():
            equal(bash(code, rule="**=*", timeout=1).code, 124)
    equal(tree(), {"a": b"a"})


def test_a_cancelled_run_leaves_nothing_but_its_changes():
    make({"a": "a"})
    with NothingStays():
        process = start("run", "bash", "-c", "echo x > /data/b; echo ready; sleep 1000", "--mount", at(), "--rule", "**=*")
        equal(process.stdout.readline(), b"ready\n")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
        equal(process.returncode, 143, said)
        assert b"1 change kept" in said, said
    equal(tree(), {"a": b"a"})


def test_a_signal_to_all_in_the_foreground_still_keeps_them():
    make({"a": "a"})
    process = start("run", "bash", "-c", "echo x > /data/b; echo ready; sleep 1000", "--mount", at(), "--rule", "**=*")
    equal(process.stdout.readline(), b"ready\n")
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    equal((process.returncode, b"1 change kept" in said), (-signal.SIGINT, True), said)


def test_a_killed_cli_leaves_nothing():
    make({"a": "a"})
    for after_s in (0, 0.01, 0.05, 0.1, 0.2):
        with NothingStays():
            process = start("run", "bash", "-c", "echo x > /data/b; sleep 1000", "--mount", at(), "--rule", "**=*", "--sync", "manual")
            time.sleep(after_s)
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()
            wait_for(lambda: not descendants(os.getpid()), "orphans to end")
    equal(tree(), {"a": b"a"})
    assert not os.path.exists("state/cloche/changes") or not os.listdir("state/cloche/changes")


def test_a_killed_server_is_said_and_ends_the_run():
    make({"a": "a"})
    process = start("run", "bash", "-c", "echo ready; while cat /data/a > /dev/null; do sleep 0.05; done; sleep 1000", "--mount", at())
    equal(process.stdout.readline(), b"ready\n")
    wait_for(servers, "the server")
    for pid in servers():
        os.kill(int(pid), signal.SIGKILL)
    _, said = process.communicate(timeout=30)
    equal(process.returncode, 1, said)
    assert b"cloche-fs of the mount /data" in said, said


def test_twenty_at_once():
    make({"a": "a"})

    def one(i):
        return cli("call", "python", "-c", f"open('/data/n{i}', 'w').write('{i}'); return open('/data/a').read()", "--mount", at(), "--rule", "**=*", "--json")
    with NothingStays():
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            results = [json.loads(f.stdout) for f in pool.map(one, range(20))]
        equal([r["result"] for r in results], ["a"] * 20)
    # One directory is synced by one transaction at a time: the second one gets an error, and its changes are kept.
    synced = {f"n{i}": str(i).encode() for i, r in enumerate(results) if r["sync"]["synced"]}
    equal({**synced, "a": b"a"}, tree())
    for i, r in enumerate(results):
        equal("changeset" in r, f"n{i}" not in synced, r.get("sync"))
        if "changeset" in r:
            equal(cli("sync", r["changeset"]).code, 0)
    equal(len(tree()), 21)


def test_twenty_directories_at_once():
    def one(i):
        make({"own": str(i)}, f"host{i}")
        return bash("cat /data/own; cp /data/own /data/new", at(source=f"host{i}"), rule="**=*")
    with NothingStays():
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            equal([f.stdout for f in pool.map(one, range(20))], [str(i).encode() for i in range(20)])
    equal([tree(f"host{i}") for i in range(20)], [{"own": str(i).encode(), "new": str(i).encode()} for i in range(20)])


def test_guests_that_stall_the_server_are_ended_in_time():
    make({"a": "a" * 1000})
    code = """
        import threading
        def read():
            while True:
                with open("/data/a") as file: file.read()
        [threading.Thread(target=read, daemon=True).start() for _ in range(20)]
        while True:
            fd = os.open("/data/x", os.O_CREAT | os.O_RDWR); os.ftruncate(fd, 1 << 20)
            with mmap.mmap(fd, 1 << 20) as view: view[:] = bytes(1 << 20)
            os.close(fd)
    """
    with NothingStays():
        equal(call(code, rule="**=*", timeout=2).status, "timeout")
