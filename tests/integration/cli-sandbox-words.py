"""Requests that the sandbox commands refuse without a daemon, and messages if there is no daemon."""
import os
import socket

from cloche import bad_input, cli, equal

COMMANDS = ("sandbox create", "sandbox ls", "sandbox get", "sandbox set", "sandbox stop", "sandbox save", "sandbox rm", "exec", "shell", "start", "ps",
            "logs", "kill", "cp", "ports", "net", "git", "watch", "events")


def test_help_of_every_command():
    listed = cli("--help").stdout.decode()
    for command in COMMANDS:
        finished = cli("help", *command.split())
        equal(finished.code, 0, command)
        said = finished.stdout.decode()
        assert said.startswith(f"cloche {command}: ") and "--socket PATH" in said, said
        assert f"  {command} " in listed, listed


def test_help_of_a_change_names_no_defaults():
    created, changed = (cli("help", "sandbox", command).stdout.decode() for command in ("create", "set"))
    for line in created.splitlines():
        if line.startswith("  --") and "; default" in line and not line.startswith(("  --socket", "  --images")):
            assert line.partition("; default")[0] in changed.splitlines(), (line, changed)
    equal(changed.count("; default"), 1, changed)


def test_no_daemon_says_how_to_have_one():
    os.environ["CLOCHE_SOCKET"] = os.path.abspath("nobody")
    for words in (["sandbox", "ls"], ["ps", "box"], ["exec", "box", "--", "true"], ["cp", "box:x", "-"], ["events", "box"]):
        finished = cli(*words)
        equal((finished.code, finished.stdout), (1, b""), words)
        said = finished.stderr.decode()
        assert os.environ["CLOCHE_SOCKET"] in said and "cloched --socket" in said and len(said.splitlines()) == 1, said


def test_the_option_goes_before_the_variable():
    os.environ["CLOCHE_SOCKET"] = "/from/the/variable"
    assert b"/from/the/option" in cli("sandbox", "ls", "--socket", "/from/the/option").stderr
    assert b"/from/the/variable" in cli("sandbox", "ls").stderr


def test_a_peer_that_is_no_daemon():
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("peer")
        listener.listen()
        import threading

        def speak():
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                while peer.recv(4096):
                    pass

        thread = threading.Thread(target=speak)
        thread.start()
        finished = cli("sandbox", "ls", "--socket", "peer")
        thread.join()
    assert finished.code in (1, 2) and len(finished.stderr.splitlines()) == 1, finished


def test_words_that_are_missing():
    bad_input("exec", says="sandbox")
    bad_input("exec", "box", says="command after '--'")
    bad_input("start", "box", says="command after '--'")
    bad_input("logs", "box", says="process")
    bad_input("cp", "box:x", says="target")
    bad_input("git", "box", says="URL")
    bad_input("sandbox", says="create, ls")
    bad_input("sandbox", "frobnicate", says="frobnicate")
    bad_input("sandbox", "rm", says="sandboxes")


def test_words_that_do_not_fit():
    bad_input("start", "box", "ls", says="unexpected word")
    bad_input("context", "run", "box", "c1", "-c", "1", says="unexpected word 'c1': a context is named by --context ")
    bad_input("context", "run", "box", "ruby", "-c", "1", says="unexpected word 'ruby': a language is named by --language ")
    bad_input("context", "run", "box", "print(1)", says=r"unexpected word 'print\(1\)': code is given by -c ")
    bad_input("exec", "box", "-e", "novalue", "--", "ls", says="not set")
    bad_input("exec", "box", "--timeout", "soon", "--", "ls", says="timeout")
    bad_input("exec", "box", "--json", "-i", "--", "ls", says="--json")
    bad_input("exec", "box", "-t", "--", "ls", says="terminal")
    bad_input("shell", "box", says="terminal")
    bad_input("cp", "a", "b", says="SANDBOX:PATH")
    bad_input("cp", "a:b", "c:d", says="SANDBOX:PATH")
    bad_input("cp", "-", "-", says="SANDBOX:PATH")
    bad_input("cp", "box:a", "-", "-", says="unexpected word")
    bad_input("ports", "box", "--expose", "0", says="1 to 65535")
    bad_input("ports", "box", "--name", "web", says="--expose")
    bad_input("ports", "box", "--expose", "8080", "--unexpose", "8080", says="two commands")
    bad_input("net", "box", "--none", "--allow", "a", says="exclude")
    bad_input("net", "box", "--log", "--allow", "a", says="--log")
    bad_input("sandbox", "set", "box", says="change")
    bad_input("sandbox", "create", "box", "--idle", "-1", says="1m30s")
    bad_input("sandbox", "create", "box", "--label", "x", says="NAME=VALUE")
    bad_input("sandbox", "create", "box", "--memory", "1", says="MiB")
    bad_input("git", "box", "https://x/y", "--password-file", "/nonexistent", says="nonexistent")


def test_completion_knows_them():
    os.environ["CLOCHE_SOCKET"] = "/nobody"
    words = [line.split("\t")[0] for line in cli("__complete", "").stdout.decode().splitlines()]
    assert {"sandbox", "exec", "shell", "cp", "watch"} <= set(words), words
    equal([line.split("\t")[0] for line in cli("__complete", "sandbox", "s").stdout.decode().splitlines()], ["set", "stop", "save", "snapshot"])
    assert b"--expose" in cli("__complete", "ports", "box", "--e").stdout
    # Without an answer nothing is offered, and completion does not wait.
    equal(cli("__complete", "exec", "").stdout, b"")
