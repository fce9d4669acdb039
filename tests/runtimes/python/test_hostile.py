"""Code that, meaning to or not, gets in the way of the agent."""
import pathlib
import unittest

from harness import AgentCase


class Hostile(AgentCase):
    def test_text_that_looks_like_a_frame_is_only_text(self):
        self.assertEqual(self.call("import sys\ndef f():\n sys.stdout.buffer.write(b'\\x08\\0\\0\\0\\4\\0\\0\\0null')\n return 1"), 1)

    def test_replaced_streams(self):
        self.assertEqual(self.call("import sys\ndef f():\n sys.stdout = sys.stderr = None\n return 1"), 1)
        code = ("import sys\nclass S:\n def write(self, t): return len(t)\n def flush(self): raise SystemExit\n"
                "def f():\n sys.stdout = S()\n print('x')\n return 2")
        self.assertEqual(self.call(code), 2)

    def test_closed_streams(self):
        self.assertEqual(self.call("import os, sys\ndef f():\n sys.stdout.close()\n os.close(0)\n os.close(2)\n return 3"), 3)
        self.assertAlive()

    def test_descriptor_3_is_free(self):
        code = "import os\ndef f():\n r, w = os.pipe()\n os.write(w, b'a')\n return [r, os.read(r, 1) == b'a']"
        self.assertEqual(self.call(code), [3, True])

    def test_children_do_not_inherit_the_channel(self):
        code = ("import subprocess, sys\ndef f():\n return subprocess.run([sys.executable, '-c', 'import os\\n"
                "print([n for n in range(3, 1024) if os.path.exists(\"/proc/self/fd/%d\" % n)])'],"
                " close_fds=False, capture_output=True, text=True).stdout.strip()")
        self.assertEqual(self.call(code), "[]")

    def test_os_exit_closes_the_channel(self):
        self.assertIsNone(self.agent.request(code="import os\ndef f(): os._exit(7)"))
        self.assertEqual(self.end()[0], 7)

    def test_all_descriptors_closed(self):
        self.assertIsNone(self.agent.request(code="import os\ndef f(): os.closerange(3, 4096)"))
        self.assertEqual(self.end()[0], 1)

    def test_number_of_the_channel_taken_by_another_file(self):
        code = ("import os\ndef f():\n n = os.open('victim', os.O_RDWR | os.O_CREAT)\n"
                " for i in range(10, 1024):\n  if os.path.exists('/proc/self/fd/%d' % i): os.dup2(n, i)\n")
        self.assertIsNone(self.agent.request(code=code))
        with open(self.agent.workdir + "/victim") as file:
            victim = file.read()
        self.assertEqual((victim, self.end()[0]), ("", 1))

    def test_forked_child_that_returns(self):
        code = "import os\ndef f():\n pid = os.fork()\n if pid: os.waitpid(pid, 0)\n print('in', 'parent' if pid else 'child')\n return 'parent' if pid else 'child'"
        self.assertEqual(self.call(code), "parent")
        self.assertAlive()
        status, out, _ = self.end()
        self.assertEqual((status, sorted(out.splitlines())), (0, ["in child", "in parent"]))

    def test_forked_child_that_throws(self):
        code = "import os\ndef f():\n pid = os.fork()\n if not pid: raise ValueError('child')\n return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        self.assertEqual(self.call(code), 1)
        self.assertIn("ValueError: child", self.end()[2])

    def test_channel_closes_although_a_child_lives_on(self):
        alive = pathlib.Path(self.agent.workdir, "alive")
        alive.touch()
        self.addCleanup(alive.unlink)  # before the agent's end, which may wait for the child
        code = "import os, time\ndef f():\n if os.fork() == 0:\n  os.close(1), os.close(2)\n" \
               "  while os.path.exists(%r): time.sleep(0.01)\n os._exit(0)" % str(alive)
        self.assertIsNone(self.agent.request(code=code))

    def test_threads_left_running(self):
        code = "import threading, time\ndef f():\n threading.Thread(target=time.sleep, args=(60,)).start()\n return 1"
        self.assertEqual(self.call(code), 1)
        self.assertEqual(self.end()[0], 0)

    def test_exit_functions_run_at_the_end(self):
        self.assertEqual(self.call("import atexit\ndef f():\n atexit.register(print, 'bye')\n return 1"), 1)
        self.assertEqual(self.end()[1], "bye\n")

    def test_exit_function_that_throws(self):
        self.call("import atexit, sys\ndef f():\n atexit.register(sys.exit, 4)")
        self.assertIsInstance(self.end()[0], int)

    def test_deep_recursion(self):
        error = self.error("def f(): return f()")
        self.assertEqual(error["type"], "RecursionError")
        self.assertLess(len(error["stack"]), 300000)
        self.assertAlive()

    def test_recursion_limit_of_the_user(self):
        code = "import sys\ndef f():\n sys.setrecursionlimit(40)\n x = 1\n for i in range(100): x = [x]\n return len(str(x))"
        self.assertIn("result", self.answer(code.replace("return len(str(x))", "return x")))
        self.assertAlive()

    def test_deep_recursion_in_encoding(self):
        code = ("import dataclasses\n@dataclasses.dataclass\nclass P:\n x: int\nclass Q(P):\n"
                " @property\n def x(self): return self.x\n @x.setter\n def x(self, v): pass\ndef f(): return Q(1)")
        self.assertEqual(self.error(code)["type"], "RecursionError")
        self.assertAlive()

    def test_memory_error_in_encoding(self):
        code = "class M(dict):\n pass\nimport dataclasses\n@dataclasses.dataclass\nclass P:\n x: int = 0\n def __getattribute__(self, n):\n  raise MemoryError('m')\ndef f(): return P()"
        self.assertEqual(self.error(code)["type"], "MemoryError")

    def test_excepthook_and_tracing(self):
        code = ("import sys\ndef bad(*a): raise RuntimeError('hook')\ndef f():\n sys.excepthook = bad\n"
                " sys.settrace(bad) if X else sys.setprofile(bad)\n return 1")
        for kind in ("True", "False"):
            answer = self.answer(code.replace("X", kind), function="f")
            self.assertTrue("result" in answer or answer["error"]["data"]["message"] == "hook")
            self.assertAlive()

    def test_builtins_changed(self):
        code = ("import builtins\ndef f():\n for n in ('len', 'isinstance', 'type', 'dict', 'list', 'str', 'max', 'sorted',"
                " 'getattr', 'compile', 'exec', 'bytes', 'memoryview', 'ValueError', 'map', 'all', 'any'): setattr(builtins, n, None)\n"
                " return {'a': [1, 2.5, b'x'], 's': {1}}")
        self.assertEqual(self.call(code)["a"][:2], [1, 2.5])
        self.assertEqual(self.call("def f(x): return x", {"a": {"$": "set", "v": [1]}}), {"a": {"$": "set", "v": [1]}})
        self.assertIn("error", self.answer("def f(): return 1 / 0"))
        self.assertIn("result", self.answer("x = 1\nx"))

    def test_modules_changed(self):
        code = ("import os, json, struct, sys, socket\ndef f():\n"
                " os.write = os.read = os.readv = os.getpid = os.fstat = os._exit = None\n"
                " json.dumps = json.loads = struct.pack = sys.settrace = sys.setrecursionlimit = None\n"
                " import _json; _json.make_scanner = _json.make_encoder = None\n return 1")
        self.assertEqual(self.call(code), 1)
        self.assertAlive()

    def test_modules_deleted(self):
        self.assertEqual(self.call("import sys\ndef f():\n sys.modules.clear()\n return 1"), 1)
        self.assertAlive()
        self.assertEqual(self.error("def f(): return 1 / 0")["type"], "ZeroDivisionError")

    def test_traceback_module_destroyed(self):
        code = "import traceback, linecache\ndef f():\n traceback.format_exception = None\n linecache.cache = None\n return 1 / 0"
        error = self.error(code)
        self.assertEqual(error["type"], "ZeroDivisionError")
        self.assertIn('File "main.py", line 5, in f', error["stack"])

    def test_timers_left_armed(self):
        code = ("import signal\ndef ring(*a): raise RuntimeError('late')\ndef f():\n signal.signal(signal.SIGALRM, ring)\n"
                " signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)\n return 'x' * 3000000")
        for _ in range(20):
            answer = self.answer(code, function="f")
            if "result" in answer:
                self.assertEqual(len(answer["result"]["value"]), 3000000)
            else:
                self.assertEqual(answer["error"]["data"]["message"], "late")

    def test_handlers_of_the_user_stay_for_the_next_call(self):
        self.call("import signal\ndef f(): signal.signal(signal.SIGUSR1, lambda *a: print('usr1'))")
        self.call("import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGUSR1)")
        self.assertEqual(self.end()[1], "usr1\n")

    def test_interrupt_from_a_thread(self):
        # Not one long sleep: the thread does not wake the main one, which looks for signals between its steps.
        code = "import _thread, time\ndef f():\n _thread.start_new_thread(_thread.interrupt_main, ())\n for _ in range(500): time.sleep(0.01)"
        self.assertEqual(self.error(code)["type"], "KeyboardInterrupt")
        self.assertAlive()

    def test_exception_class_that_fights(self):
        code = ("class M(type):\n def __getattribute__(c, n): raise SystemExit('meta')\n"
                "class E(Exception, metaclass=M): pass\ndef f(): raise E('x')")
        self.assertEqual(self.error(code, function="f")["type"], "E")
        self.assertAlive()

    def test_chdir_and_argv(self):
        self.assertEqual(self.call("import os, sys\ndef f():\n os.chdir('/')\n sys.argv = sys.path = None\n return 1"), 1)
        self.assertEqual(self.error("import datetime\ndef f(): return object()")["type"], "TypeError")

    def test_working_directory_gone(self):
        self.assertEqual(self.call("import os\ndef f():\n os.rmdir(os.getcwd())\n return 1"), 1)
        self.assertAlive()


if __name__ == "__main__":
    unittest.main()
