"""Cells of Jupyter kernels, besides those of Debian's package: interrupts, questions, queues, magics, and the ends of interpreters and daemons."""
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal, wait_for
from front_end import HANG, environment, install, kernel, printed, run
from rpc import Daemon

TIMEOUT = 120


def send(client, channel, kind, **content):
    """The id of the message."""
    message = client.session.msg(kind, content)
    getattr(client, f"{channel}_channel").send(message)
    return message["header"]["msg_id"]


def reply_to(client, channel, request):
    while True:
        message = getattr(client, f"get_{channel}_msg")(timeout=HANG)
        if message["parent_header"].get("msg_id") == request:
            return message


def published(client, request, until):
    """Messages on iopub for the request, up to the first that the function is true for."""
    messages = []
    while not messages or not until(messages[-1]):
        message = client.get_iopub_msg(timeout=HANG)
        if message["parent_header"].get("msg_id") == request:
            messages.append(message)
    return messages


def is_idle(message):
    return message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"


def execute(client, code, **options):
    return send(client, "shell", "execute_request", **{"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True, **options})


def check_order_of_messages(client):
    request = execute(client, "import sys\nprint('a')\nsys.stderr.write('b')\n7")
    messages = published(client, request, is_idle)
    equal([message["msg_type"] for message in messages][:2] + [messages[-1]["msg_type"]], ["status", "execute_input", "status"])
    equal({(m["msg_type"], m["content"].get("name")) for m in messages[2:-1]}, {("stream", "stdout"), ("stream", "stderr"), ("execute_result", None)})
    reply = reply_to(client, "shell", request)
    equal(sorted(reply["metadata"]["cloche"]), ["context", "denials", "duration_ms", "sandbox"])
    assert reply["content"]["execution_count"] == messages[1]["content"]["execution_count"], reply
    assert all(message["header"]["session"] == reply["header"]["session"] for message in messages)


def check_control_during_a_cell(client):
    """It is served while a cell runs, and an interrupt ends the cell; the state stays."""
    run(client, "kept = 5")
    request = execute(client, "print('begun')\nimport time\ntime.sleep(600)")
    published(client, request, lambda message: message["msg_type"] == "stream")
    info = send(client, "control", "kernel_info_request")
    equal(reply_to(client, "control", info)["content"]["implementation"], "cloche")
    stop = send(client, "control", "interrupt_request")
    equal(reply_to(client, "control", stop)["content"], {"status": "ok"})
    equal(reply_to(client, "shell", request)["content"]["ename"], "KeyboardInterrupt")
    equal(run(client, "kept")[1], [("execute_result", {"data": {"text/plain": "5"}, "metadata": {}, "execution_count": run_count(client), "transient": {}})])


def run_count(client):
    """The number of the last cell."""
    return run(client, "", silent=True)[0]["content"]["execution_count"]


def check_cells_that_wait(client):
    """After an error those that wait are aborted; without stop_on_error they run."""
    first = execute(client, "import time\nwhile not __import__('os').path.exists('/workspace/go'): time.sleep(0.01)\n1/0")
    others = [execute(client, "print('no')"), send(client, "shell", "kernel_info_request"), execute(client, "print('no')")]
    probe = send(client, "control", "kernel_info_request")  # comes after them
    reply_to(client, "control", probe)
    client.touch("/workspace/go")
    replies = {message["parent_header"]["msg_id"]: message["content"]["status"] for message in (client.get_shell_msg(timeout=HANG) for _ in range(4))}
    equal([replies[request] for request in (first, *others)], ["error", "aborted", "ok", "aborted"])
    first = execute(client, "1/0", stop_on_error=False)
    second = execute(client, "print('yes')")
    equal(reply_to(client, "shell", first)["content"]["status"], "error")
    equal(reply_to(client, "shell", second)["content"]["status"], "ok")
    equal(printed([(m["msg_type"], m["content"]) for m in published(client, second, is_idle)]), "yes\n")


def check_questions(client):
    request = execute(client, "import getpass\n(input('name? '), getpass.getpass('word? '))", allow_stdin=True)
    for prompt, password, value in (("name? ", False, "Ada"), ("word? ", True, "secret")):
        question = client.get_stdin_msg(timeout=HANG)
        equal((question["content"], question["parent_header"]["msg_id"]), ({"prompt": prompt, "password": password}, request))
        client.input(value)
    equal([m["content"]["data"]["text/plain"] for m in published(client, request, is_idle) if m["msg_type"] == "execute_result"], ["('Ada', 'secret')"])
    reply, messages = run(client, "input()")  # not allowed
    equal(reply["content"]["status"], "error")
    client.input("to nobody")
    equal(printed(run(client, "print('well')")[1]), "well\n")


def check_other_requests(client):
    reply = run(client, "x = 6", user_expressions={"good": "x * 7", "bad": "nope"})[0]["content"]["user_expressions"]
    equal((reply["good"]["data"], reply["bad"]["status"], reply["bad"]["ename"]), ({"text/plain": "42"}, "error", "NameError"))
    before = run_count(client)
    equal(run(client, "print('loud')\n9", silent=True)[1], [("stream", {"name": "stdout", "text": "loud\n"})])
    equal(run_count(client), before)
    equal(client.comm_info(reply=True, timeout=HANG)["content"], {"status": "ok", "comms": {}})
    request = send(client, "shell", "comm_open", comm_id="c1", target_name="widget", data={})
    equal([m["content"] for m in published(client, request, is_idle) if m["msg_type"] == "comm_close"], [{"comm_id": "c1", "data": {}}])
    send(client, "shell", "no_such_request")
    reply, messages = run(client, "from IPython.display import display, clear_output\nh = display('one', display_id=True)\nh.update('two')\nclear_output(wait=True)\ndisplay(b'\\x00\\x01')")
    kinds = [kind for kind, _ in messages]
    equal(kinds, ["display_data", "update_display_data", "clear_output", "display_data"])
    equal((messages[0][1]["transient"], messages[2][1]), (messages[1][1]["transient"], {"wait": True}))
    assert all("text/plain" in content["data"] for kind, content in messages if "display" in kind), messages
    equal(printed(run(client, "import os\nfor b in 'añb€'.encode(): os.write(1, bytes([b]))\n0")[1]), "añb€")


def history(client, kind, **options):
    return [entry[2] for entry in client.history(hist_access_type=kind, reply=True, timeout=HANG, **options)["content"]["history"]]


def check_completeness(client):
    """The language's parser does not get the line of a magic."""
    found = [reply_to(client, "shell", client.is_complete(code))["content"]["status"] for code in ("%cloche denials", "%cloche denials\nx = 1", "%cloche denials\nx = [", "%cloched\n1")]
    equal(found, ["complete", "complete", "incomplete", "invalid"])


def check_history(client, frames):
    """It is the context's: cells of other clients are there, and none that the front end keeps out of it."""
    context = run(client, "first = 1", user_expressions={"e": "1 + 1"})[0]["metadata"]["cloche"]["context"]
    for code, options in (("no = 2", {"store_history": False}), ("no = 3", {"silent": True}), ("%cloche denials", {}), ("%cloche denials\nsecond = 4", {})):
        equal(run(client, code, **options)[0]["content"]["status"], "ok")
    frames.call("context.run", sandbox="jupyter", context=context, code="third = 5")
    equal(history(client, "tail", n=3), ["first = 1", "\nsecond = 4", "third = 5"])
    equal([history(client, "search", pattern=pattern, n=1) for pattern in ("*ir*", "fir?t*", "no*")], [["third = 5"], ["first = 1"], []])
    large = "#" + "x" * 50000
    run(client, large)
    equal([history(client, "search", pattern=pattern, n=1) for pattern in ("*", "*" * 100)], [[large], []])  # it has a bound


def test_cells_of_a_kernel():
    with tempfile.TemporaryDirectory() as directory, Daemon() as daemon:
        install(directory)
        with daemon.frames() as frames, kernel("cloche-python", environment(directory, daemon.path)) as (manager, client):
            client.touch = lambda path: frames.call("file.write", sandbox="jupyter", path=path, content="")
            for check in (check_order_of_messages, check_control_during_a_cell, check_cells_that_wait, check_questions, check_other_requests):
                check(client)
            check_history(client, frames)
            with kernel("cloche-ruby", environment(directory, daemon.path)) as (_, other):
                check_completeness(other)
            with kernel("cloche-python", environment(directory, daemon.path), transport="ipc") as (_, other):  # another context of the same sandbox
                equal(run(other, "kept")[0]["content"]["ename"], "NameError")
                equal(run(other, "__import__('os').path.exists('/workspace/go')")[1][0][1]["data"]["text/plain"], "True")
        assert daemon.stop() == 0, daemon.log_text()


def check_magics(client, frames):
    equal(printed(run(client, "v = 1")[1]), "")
    name = printed(run(client, "%cloche checkpoint before")[1])
    equal(name, "checkpoint before\n")
    run(client, "v = 2")
    assert "is as it was" in printed(run(client, "%cloche rollback before")[1])
    equal(run(client, "%cloche checkpoint\nv")[1][-1][1]["data"]["text/plain"], "1")  # the rest of the cell runs
    equal(printed(run(client, "%cloche fork copy")[1]), "sandbox copy is a copy of mine\n")
    assert "copy" in [box["sandbox"] for box in frames.call("sandbox.list")["sandboxes"]]
    equal(printed(run(client, "%cloche denials")[1]), "no connection was refused\n")
    reply, _ = run(client, "import urllib.request\nurllib.request.urlopen('http://other.example/')")
    equal([denial["host"] for denial in reply["metadata"]["cloche"]["denials"]], ["other.example"])
    assert " denied other.example" in printed(run(client, "%cloche denials")[1])
    equal(printed(run(client, "%cloche net allow good.example")[1]), "sandbox mine has a new rule\n")
    assert "good.example" in json.dumps(frames.call("sandbox.get", sandbox="mine")["network"]), "the rule is not there"
    for bad in ("%cloche", "%cloche fork", "%cloche fly", "%cloche net allow", "%cloche denials x", "%cloche " + "x " * 2000):
        equal(run(client, bad)[0]["content"]["ename"], "UsageError")
    reply, messages = run(client, "1 +\\\n%cloche denials")  # only the first line is ours
    equal(reply["content"]["ename"], "SyntaxError")
    equal(run(client, "%cloche fork copy")[0]["content"]["status"], "error")


def check_death(manager, client):
    request = execute(client, "__import__('os')._exit(3)")
    equal(reply_to(client, "shell", request)["content"]["ename"], "ContextEnded")
    published(client, request, is_idle)
    equal(manager.provisioner.process.wait(HANG), 1)  # so that front ends offer a restart


def contexts_of(frames, sandbox):
    return [context["context"] for context in frames.call("context.list", sandbox=sandbox)["contexts"]]


def test_magics_and_the_death_of_an_interpreter():
    with tempfile.TemporaryDirectory() as directory, Daemon() as daemon:
        install(directory, "--language", "python", "--sandbox", "mine", "--forkable", "--socket", daemon.path)
        with daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="mine", network={"allow": ["only.example"]})
            with kernel("cloche-python-mine", environment(directory)) as (manager, client):
                check_magics(client, frames)
                check_death(manager, client)
            equal(contexts_of(frames, "mine"), [])
        assert daemon.stop() == 0, daemon.log_text()


def descendants(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        for child in open(f"/proc/{pid}/task/{task}/children").read().split():
            yield int(child)
            yield from descendants(int(child))


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def daemon_of(pid):
    return next(child for child in descendants(pid) if os.path.basename(os.readlink(f"/proc/{child}/exe")) == "cloched")


def test_a_daemon_that_is_killed_under_its_kernel():
    with tempfile.TemporaryDirectory() as directory:
        install(directory, "--language", "python")
        with kernel("cloche-python", environment(directory)) as (manager, client):  # a private one
            run(client, "kept = 1")
            request = execute(client, "print('begun')\nimport time\ntime.sleep(600)")
            published(client, request, lambda message: message["msg_type"] == "stream")
            os.kill(daemon_of(manager.provisioner.pid), signal.SIGKILL)
            lost = reply_to(client, "shell", request)["content"]
            assert lost["status"] == "error" and "connection to the daemon ended" in lost["evalue"], lost
            published(client, request, is_idle)
            equal(run(client, "kept")[0]["content"]["ename"], "NameError")  # a new one
            equal(run(client, "6 * 7")[1][0][1]["data"]["text/plain"], "42")
            rest = list(descendants(manager.provisioner.pid))
            os.kill(manager.provisioner.pid, signal.SIGKILL)  # as a front end does that gives up
            wait_for(lambda: not any(is_running(pid) for pid in rest), "the end of its other processes")


def test_a_kernel_that_fails_leaves_no_interpreter():
    """Its second process is killed, as by libzmq's abort(3); the first one deletes the context, also when a cell runs."""
    with tempfile.TemporaryDirectory() as directory, Daemon() as daemon:
        install(directory, "--language", "bash")
        with daemon.frames() as frames, kernel("cloche-bash", environment(directory, daemon.path)) as (manager, client):
            request = execute(client, "echo begun; sleep 600")
            published(client, request, lambda message: message["msg_type"] == "stream")
            equal(len(contexts_of(frames, "jupyter")), 1)
            os.kill(next(descendants(manager.provisioner.pid)), signal.SIGKILL)
            equal(manager.provisioner.process.wait(HANG), 128 + signal.SIGKILL)
            equal(contexts_of(frames, "jupyter"), [])
        assert daemon.stop() == 0, daemon.log_text()


def test_kernels_that_do_not_start():
    with tempfile.TemporaryDirectory() as directory:
        env = environment(directory, os.path.join(directory, "none"))
        file = os.path.join(directory, "c.json")
        ports = {name + "_port": 1 for name in ("shell", "iopub", "stdin", "control", "hb")}
        good = {"transport": "ipc", "ip": os.path.join(directory, "k"), "key": "k", "signature_scheme": "hmac-sha256", **{name: n for n, name in enumerate(ports)}}
        for change, words in (({}, "no daemon answers"), ({"transport": "tcp", "ip": "0.0.0.0", **{name: 40000 for name in ports}}, "only addresses of loopback"), ({"transport": "udp"}, "expected tcp or ipc"),
                              ({"signature_scheme": "hmac-md5"}, "expected hmac-sha256"), ({"key": 1}, "lacks ip or key"), ({"ip": "x" * 200}, "too long"), ({"transport": "tcp", "ip": "127.0.0.1", "shell_port": 70000}, "and a port")):
            with open(file, "w") as out:
                json.dump({**good, **change}, out)
            done = subprocess.run(["cloche-kernel", "-f", file], env=env, capture_output=True, text=True, timeout=HANG)
            assert done.returncode in (1, 2) and done.stderr.count("\n") == 1 and words in done.stderr, (change, done)
        equal([name for name in os.listdir(directory) if name.startswith("k")], [])  # no sockets are left
        for words, text in (((), "expected -f"), (("-f", file, "--language", "cobol"), "called cobol"), (("-f", file + "2"), "No such file")):
            done = subprocess.run(["cloche-kernel", *words], env=env, capture_output=True, text=True, timeout=HANG)
            assert done.returncode == 2 and text in done.stderr, done
