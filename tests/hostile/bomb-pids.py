"""Cases 1-3, 32: processes and threads multiply; the pids limit holds and the box dies whole."""
from cloche import HostStaysWell, equal, guest, guest_value, limit_hit, one_of, run

PIDS = 40


def test_fork_bomb_meets_eagain():
    with HostStaysWell():
        answer = guest_value("""
            made = 0
            while made < 10000:
                answer = attempt_fork()
                if answer != 'ok':
                    return [made, answer]
                made += 1
        """.replace("attempt_fork()", "attempt(lambda: os.fork() or time.sleep(1000))"), pids=PIDS)
    equal(answer[1], "EAGAIN")
    assert answer[0] < PIDS, answer


def test_exponential_fork_bomb_ends_with_its_box():
    with HostStaysWell():
        result = guest("while True: attempt(os.fork)", pids=PIDS, timeout=2)
    limit_hit(result, "timeout", "WallTimeLimit")


def test_shell_fork_bomb():
    with HostStaysWell():
        result = guest("subprocess.run(['/bin/bash', '-c', ':(){ :|:& };:'], stderr=subprocess.DEVNULL); time.sleep(1000)",
                       pids=PIDS, timeout=2)
    limit_hit(result, "timeout", "WallTimeLimit")


def test_bomb_that_leaves_its_session_and_parent():
    """setsid and double fork: killing a process group or a tree would miss these, killing the box does not."""
    with HostStaysWell():
        result = guest("""
            def away():
                os.setsid()
                if attempt(lambda: os.fork() and os._exit(0)) == 'ok':
                    away()
            while True:
                attempt(lambda: os.fork() or away())
                try:
                    os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    pass
        """, pids=PIDS, timeout=2)
    limit_hit(result, "timeout", "WallTimeLimit")


def test_orphans_die_when_the_call_returns():
    equal(guest_value("""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
            os._exit(0)
        os.wait()
        return 'back'
    """), "back")


def test_thread_bomb_meets_the_same_limit():
    with HostStaysWell():
        made = guest_value("""
            threads = []
            try:
                while len(threads) < 10000:
                    thread = threading.Thread(target=time.sleep, args=[1000], daemon=True)
                    thread.start()
                    threads.append(thread)
            except RuntimeError as e:
                return [len(threads), str(e)]
        """, pids=PIDS)
    equal(made[1], "can't start new thread")
    assert made[0] < PIDS, made


def test_processes_below_the_limit_work():
    equal(guest_value("""
        results = [subprocess.run(['/bin/echo', str(i)], capture_output=True, text=True).stdout for i in range(30)]
        threads = [threading.Thread(target=int) for _ in range(10)]
        [t.start() for t in threads], [t.join() for t in threads]
        return results[-1]
    """, pids=PIDS), "29\n")


def test_clone_parent_is_counted():
    """CLONE_PARENT makes siblings, not children: they meet the same limit."""
    answer = guest_value("""
        CLONE, CLONE_PARENT = 56, 0x8000
        for made in range(1000):
            answer = syscall(CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
            if answer == 0:
                time.sleep(1000)
            if isinstance(answer, str):
                return [made, answer]
    """, pids=PIDS)
    one_of(answer[1], "EAGAIN", "EPERM", "EINVAL")
    assert answer[0] < PIDS, answer


def test_clone3_is_unknown_and_clone_works():
    """clone3 hides its flags behind a pointer; without it the C library falls back to clone."""
    equal(guest_value("return [syscall(435, 0, 0), in_child(lambda: os._exit(3))]"), ["ENOSYS", ["exit", 3]])


def test_vfork_works():
    equal(guest_value("return subprocess.run(['/bin/true']).returncode"), 0)


def test_zombie_flood_is_reaped():
    """Case 22: orphans are adopted by PID 1, which reaps them; unreaped ones would use up the limit three times."""
    equal(guest_value("""
        for i in range(120):
            pid = os.fork()
            if pid == 0:
                attempt(lambda: os.fork())
                os._exit(0)
            os.waitpid(pid, 0)
        return 'all reaped'
    """, pids=PIDS), "all reaped")


def test_background_child_does_not_hold_the_call():
    """Case 21: it keeps stdout open, and the call returns all the same."""
    result = guest("subprocess.Popen(['/bin/sleep', '1000']); print('first'); return 'back'", timeout=20)
    equal((result.status, result.value, result.stdout), ("success", "back", "first\n"), result)


def test_background_child_does_not_hold_a_script():
    finished = run("python", "import subprocess; subprocess.Popen(['/bin/sleep', '1000']); print('done')", timeout=20)
    equal((finished.code, finished.stdout), (0, b"done\n"), finished)
