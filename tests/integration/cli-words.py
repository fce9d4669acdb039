"""The command line accepts usual spellings: sizes and times with units, files for code, environment
by name, JSON from files."""
import json
import os
import re
import subprocess
from cloche import BUILD, cli, equal, run, write_file

F = "def f(*a, **k): return [a, k]"


def plain(*words, **more):
    """The value that a call prints."""
    finished = cli(*words, **more)
    equal(finished.code, 0, finished)
    return json.loads(finished.stdout)


def refused(*words, says, **more):
    finished = cli(*words, **more)
    equal(finished.code, 2, finished)
    text = finished.stderr.decode()
    equal(len(text.splitlines()), 1, finished)
    for word in [says] if isinstance(says, str) else says:
        assert word in text, (word, finished)


# ---- sizes and times ------------------------------------------------------------------------------------------

MEMORY = "import resource; return resource.getrlimit(resource.RLIMIT_FSIZE)[0]"


def test_sizes_with_units():
    for text, size in [("1G", 1 << 30), ("1.5G", 3 << 29), ("512M", 512 << 20), ("64MiB", 64 << 20), ("2048k", 2 << 20), ("3", 3 << 20),
                       ("1gb", 1 << 30)]:
        equal(plain("call", "python", "-c", MEMORY, "--file-size", text), size, text)


def test_a_size_that_is_none_says_the_range_and_the_form():
    refused("call", "python", "-c", F, "--memory", "much", says=["--memory", "'much'", "8M", "1T", "512M"])
    for text in ("1X", "1G2", "-1G", "", ".", "1e9", "0x10M", "inf", "nan", " 1G", "1M", "2T"):
        refused("call", "python", "-c", F, "--memory", text, says="--memory")


def test_times_with_units():
    for text in ("5s", "5", "5000ms", "5.0", "0.5m"):
        equal(cli("call", "python", "-c", "return 1", "--timeout", text, "--cpu-time", "1h30m").code, 0, text)
    equal(cli("run", "python", "-c", "while True: pass", "--timeout", "300ms").code, 124)


def test_a_time_that_is_none_says_the_range_and_the_form():
    refused("call", "python", "-c", F, "--timeout", "soon", says=["--timeout", "'soon'", "1ms", "1d", "1m30s"])
    for text in ("5x", "1m30", "-5s", "", "ms", "1e3", "25h", "2d"):
        refused("call", "python", "-c", F, "--timeout", text, says="--timeout")


# ---- code ---------------------------------------------------------------------------------------------------------

ECHO = "import sys; print(sys.argv[1:])"


def test_a_file_says_its_language():
    equal(cli("run", write_file("a.py", "print('py')")).stdout, b"py\n")
    equal(cli("run", write_file("a.mjs", "import path from 'path'; console.log(path.join('a', 'b'))")).stdout, b"a/b\n")
    equal(cli("run", write_file("a.bash", "echo sh")).stdout, b"sh\n")
    equal(cli("call", write_file("b.py", "def f(): return 7\ndef g(): return 8"), "g").stdout, b"8\n")


def test_a_language_and_a_file():
    path = write_file("noextension", ECHO)
    equal(cli("run", "python", path).stdout, b"[]\n")
    equal(cli("run", "py", path, "a", "b").stdout, b"['a', 'b']\n")
    equal(cli("call", "python", write_file("c", "def f(): return 7\ndef g(): return 8"), "f").stdout, b"7\n")
    equal(cli("call", "python", write_file("d.py", "def f(): return 9")).stdout, b"9\n")
    equal(cli("prefix", "create", "filed", write_file("d.py", "x = 5"), env={"XDG_DATA_HOME": os.path.abspath("data")}).code, 0)


def test_words_behind_the_file_are_the_scripts():
    path = write_file("a.py", ECHO)
    equal(cli("run", path, "one", "two").stdout, b"['one', 'two']\n")
    equal(cli("run", path, "one", "--timeout", "20s", "--", "--two", "three").stdout, b"['one', '--two', 'three']\n")
    equal(cli("run", "python", "-c", ECHO, "x").stdout, b"['x']\n")
    equal(cli("run", path, *map(str, range(300))).stdout, (str(list(map(str, range(300)))) + "\n").encode())


def test_a_file_of_no_language():
    refused("run", write_file("a.xyz", "x"), says="a.xyz")
    refused("run", "python", "absent.py", says=["absent.py", "No such file"])
    refused("run", "absent.py", says=["absent.py", "No such file"])
    refused("run", "python", says="FILE")
    refused("call", write_file("a.py", "1"), "f", "more", says=["unexpected word", """--args '["more"]'"""])
    refused("call", write_file("add.py", "def add(a, b): return a + b"), "add", "1", "2", "x", '{"y": 3}', says="""--args '[1, 2, "x", {"y": 3}]'""")
    refused("call", write_file("a.py", "1"), "f", "it's", says="usage: cloche call")


# ---- environment --------------------------------------------------------------------------------------------------

SHOW = "import os; print(os.environ.get('COLOUR'), os.environ.get('EMPTY'))"


def test_environment_by_name_and_by_its_short_option():
    env = {"COLOUR": "blue=green", "EMPTY": ""}
    equal(cli("run", "python", "-c", SHOW, "--env", "COLOUR", "-e", "EMPTY", env=env).stdout, b"blue=green \n")
    equal(cli("run", "python", "-c", SHOW, "-e", "COLOUR=x", env=env).stdout, b"x None\n")
    equal(plain("call", "python", "-c", "import os; return os.environ['COLOUR']", "-e", "COLOUR=red"), "red")


def test_environment_that_is_not_set_here():
    refused("run", "python", "-c", SHOW, "-e", "CLOCHE_TEST_NOT_SET", says=["CLOCHE_TEST_NOT_SET", "not set"])


def test_environment_with_wrong_names():
    for wrong in ("1A=2", "a-b=c", "A B=1", "é=1", "1A"):
        for command in ("call", "run"):
            refused(command, "python", "-c", "1", "-e", wrong, says=f'--env: "{wrong.split("=")[0]}" is not a valid name')
    equal(plain("call", "python", "-c", "import os; return os.environ['_a1']", "-e", "_a1=b=c d"), "b=c d")


# ---- values from files --------------------------------------------------------------------------------------------

def test_arguments_from_a_file_and_from_standard_input():
    path = write_file("args.json", '[1, "two"]\n')
    equal(plain("call", "python", "-c", F, "--args", "@" + path), [[1, "two"], {}])
    equal(plain("call", "python", "-c", F, "--args", "-", stdin=b'[3]\n'), [[3], {}])
    equal(plain("call", "python", "-c", F, "--args=@" + path, "--kwargs", "-", stdin=b'{"k": 4}'), [[1, "two"], {"k": 4}])


def test_arguments_that_cannot_be_read():
    refused("call", "python", "-c", F, "--args", "@absent.json", says=["--args", "absent.json", "No such file"])
    refused("call", "python", "-c", F, "--args", "-", "--kwargs", "-", stdin=b"[]", says=["standard input", "--args"])
    refused("call", "python", "-", "--args", "-", stdin=b"[]", says="standard input")
    refused("call", "python", "-c", F, "--args", "@" + write_file("bad.json", "[1,"), says="args")


# ---- directories --------------------------------------------------------------------------------------------------

TREE = """
import os
import re
return sorted((os.path.join(top, n), os.path.islink(os.path.join(top, n)), os.access(os.path.join(top, n), os.X_OK))
              for top, names, files in os.walk('src') for n in names + files)
"""


def make_tree(root):
    os.makedirs(f"{root}/empty")
    os.makedirs(f"{root}/deep/er")
    for name in ("a.txt", "deep/er/b.txt"):
        write_file(f"{root}/{name}", name)
    os.chmod(write_file(f"{root}/deep/run", "#!/bin/sh\necho ran\n"), 0o755)
    os.symlink("a.txt", f"{root}/link")
    os.symlink("/nowhere", f"{root}/dangling")


def test_a_directory_with_all_below_it():
    make_tree("tree")
    expected = [["src/a.txt", False, False], ["src/dangling", True, False], ["src/deep", False, True], ["src/deep/er", False, True],
                ["src/deep/er/b.txt", False, False], ["src/deep/run", False, True], ["src/empty", False, True], ["src/link", True, False]]
    for said in ("src=tree", "src/=tree/", "/workspace/src=./tree"):
        equal(plain("call", "python", "-c", TREE, "--file", said), expected, said)
    equal(cli("run", "bash", "-c", "src/deep/run; cat src/link", "--file", "src=tree").stdout, b"ran\na.txt")


def test_a_directory_in_a_prefix():
    make_tree("tree")
    env = {"XDG_DATA_HOME": os.path.abspath("data")}
    equal(cli("prefix", "create", "treed", "python", "-c", "text = open('src/link').read()", "--file", "src=tree", env=env).code, 0)
    equal(plain("call", "python", "-c", "return text + open('src/deep/er/b.txt').read()", "--prefix", "treed", env=env), "a.txtdeep/er/b.txt")


def test_a_directory_with_what_cannot_be_copied():
    os.makedirs("pipes")
    os.mkfifo("pipes/fifo")
    refused("call", "python", "-c", F, "--file", "p=pipes", says=["pipes/fifo", "not a regular file"])
    refused("call", "python", "-c", F, "--file", "/etc/p=/usr/share/doc/base-files", says="/etc")


def test_errors_of_places_in_the_box_name_the_option():
    write_file("one", "1")
    refused("call", "python", "-c", F, "--file", "/etc/one=one", says="--file: the path '/etc/one' must be below")
    refused("run", "python", "-c", "1", "--file", "../one=one", says="--file: the path '../one' must name")
    refused("call", "python", "-c", F, "--mount", "/etc=/tmp", says="--mount: a mount at /etc would cover")
    refused("call", "python", "-c", F, "--mount", "/a/../b=/tmp", says="--mount: the place must be")


# ---- values that are printed ----------------------------------------------------------------------------------------

def test_values_are_printed_as_plain_json():
    code = """
import datetime, collections
return {"big": 2 ** 70, "bytes": b"\\x00\\x01", "set": {1}, 'numbers': {1: "a", 2: "b"}, "count": collections.Counter("aab"),
        "date": datetime.date(2026, 11, 21), "nan": float("nan"), "tuple": (1, 2), "text": "é\\n"}
"""
    finished = cli("call", "python", "-c", code)
    equal(json.loads(finished.stdout), {"big": 2 ** 70, "bytes": "AAE=", "set": [1], "numbers": {"1": "a", "2": "b"}, "count": {"a": 2, "b": 1},
                                        "date": "2026-11-21", "nan": None, "tuple": [1, 2], "text": "é\n"}, finished)
    equal(cli("call", "javascript", "-c", "return new Map([[1, 2n ** 64n], ['u', undefined]])").stdout, b'{"1":18446744073709551616,"u":null}\n')


def test_json_keeps_the_tagged_forms():
    whole = json.loads(cli("call", "python", "-c", "return {1: b'a', 2: 2 ** 70}", "--json").stdout)
    equal(whole["result"], {"$": "map", "v": [[1, {"$": "bytes", "b64": "YQ=="}], [2, {"$": "bigint", "v": str(2 ** 70)}]]})


# ---- words that are like others -------------------------------------------------------------------------------------

def test_what_was_meant():
    refused("cal", "python", says="did you mean 'call'")
    refused("sandbx", "ls", says="did you mean 'sandbox'")
    refused("sandbox", "lst", says="did you mean 'ls'")
    refused("image", "verfy", "x", says="did you mean 'verify'")
    for typed, meant in (("hlep", "help"), ("hepl", "help"), ("verison", "version"), ("imges", "cloche image ls"), ("imag", "image")):
        refused(typed, says=f"did you mean '{meant}'?")
    for words, meant in ((["python"], "run python FILE"), (["js", "-c", "1"], "run js FILE"), (["some/tool.py", "--flag"], "run some/tool.py"), (["sandbox", "list"], "sandbox ls"),
                         (["prefix", "rm", "a"], "prefix drop"), (["context", "rm", "a", "b"], "context delete"), (["ls"], "sandbox ls"), (["ssh", "box"], "shell"),
                         (["eval", "python"], "call"), (["status"], "daemon status"), (["networks"], "net"), (["help", "netwrok"], "net"), (["sandbox", "lsit"], "sandbox ls"),
                         (["sandbox", "exec", "box", "--", "ls"], "exec"), (["sandbox", "net", "box"], "net"), (["image", "show", "a"], "image inspect"),
                         (["image", "pull", "debian"], "image import"), (["images"], "image ls"), (["volumes"], "volume ls")):
        refused(*words, says=f"did you mean 'cloche {meant}'?")
    refused("start", "box", "ls", says="the command goes after --")
    refused("call", "python", "-c", F, "--tiemout", "5", says="did you mean '--timeout'")
    refused("run", "python", "-c", F, "--verbose", says="words after --")
    for command, typed, meant in (("call", "-v", "--mount"), ("run", "--volume", "--mount"), ("run", "--net", "--network"), ("call", "--mem", "--memory"), ("run", "-m", "--memory")):
        refused(command, "python", "-c", F, typed, "x", says=f"did you mean '{meant}'?")
    refused("exec", "box", "--cwd", "/x", "--", "ls", says="did you mean '-C'?")
    refused("call", "python", "-c", F, "--function", "f", says="the function is a word behind the code")
    refused("sandbox", "create", "--name", "box", says="the name is a word of its own (usage: cloche sandbox create [NAME]")
    refused("sandbox", "create", "--timeout", "5m", says="did you mean '--lifetime'")
    refused("run", "python", "-c", F, "--socket", "/run/s", says="without a daemon; cloche call --socket, exec and context run use one")
    refused("call", "pyhton", "-c", F, says="did you mean 'python'")
    refused("run", "javscript", "a.js", says="did you mean 'javascript'")


def test_nothing_is_meant_by_what_is_like_nothing():
    for words in (("frobnicate",), ("call", "python", "-c", F, "--zzzzzzzz", "5"), ("call", "x" * 500, "-c", F), ("call", "cobol", "-c", F)):
        finished = cli(*words)
        equal((finished.code, b"did you mean" in finished.stderr), (2, False), finished)


# ---- the network ----------------------------------------------------------------------------------------------

NO_NETWORK = b"cloche: the code of this run used the network, which it does not have: rules permit connections (network; --network HOST:PORT on the command line)\n"


def test_a_rule_that_is_a_url_or_the_boxs_own_loopback_is_refused_with_the_way_out():
    refused("call", "python", "-c", "1", "--network", "https://example.org/x?y", says="'https://example.org/x?y': a rule has no scheme and no path; expected 'example.org:443'")
    refused("run", "python", "-c", "1", "--network", "ftp://example.org:2121", says="expected 'example.org:2121'")
    refused("run", "python", "-c", "1", "--network", "a,b c", says="--network: 'b c': ")
    refused("run", "python", "-c", "1", "--network", "a,!b c", says="--network: 'b c': ")
    for rule in ("127.0.0.1:80", "localhost", "localhost:5432", "127.0.0.0/8", "10.0.0.1,127.0.0.1"):
        refused("call", "python", "-c", "1", "--network", rule, says=["names the box's own loopback", "the rule host:NAME and the option --host-port NAME=PORT"])
    # A name may lead to this machine: then both are needed.
    for rule in ("127.0.0.1:80,name.example", "localhost.example", "10.0.0.1", "127.0.0.1:80,*"):
        equal(cli("call", "python", "-c", "1", "--network", rule).code, 0, rule)


def test_code_that_wants_a_network_where_there_is_none_is_told_so():
    for words in (("call", "python", "-c", "import socket\nreturn socket.create_connection(('name.example', 80))"),
                  ("run", "python", "-c", "import socket\nsocket.create_connection(('93.184.216.34', 80))"),
                  ("run", "bash", "-c", "curl -sS http://name.example"),
                  ("run", "python", "-c", "import sys\nprint('a' * 70000 + 'EAI_', end='', file=sys.stderr, flush=True)\nsys.exit('AGAIN')")):
        finished = cli(*words)
        assert finished.code != 0 and finished.stderr.endswith(NO_NETWORK), finished
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    equal(cli("prefix", "create", "set", "python", "-c", "import socket").code, 0)
    finished = cli("call", "python", "--prefix", "set", "-c", "return socket.create_connection(('93.184.216.34', 80))")
    assert finished.code != 0 and b"leave out the prefix" in finished.stderr and b"--network HOST:PORT instead of --prefix" in finished.stderr, finished
    for words in (("run", "python", "-c", "print('ENOTFOUND', file=__import__('sys').stderr)"), ("run", "bash", "-c", "exit 3"),
                  ("run", "python", "-c", "import sys\nsys.exit('ENOTFOUND')", "--network", "name.example")):
        assert NO_NETWORK not in cli(*words).stderr, words


def test_an_option_of_a_call_that_is_given_twice_is_refused():
    for option, value in (("--args", "[1]"), ("--kwargs", "{}"), ("--schema", "{}")):
        refused("call", "python", "-c", F, option, value, option, value, says=[option, "given twice"])


def test_output_that_cannot_be_written_is_an_error():
    for words in (["languages"], ["help"], ["--version"], ["call", "bash", "-c", "echo 1"], ["prefix", "list", "--json"], ["call", "--help"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([os.path.join(BUILD, "cloche"), *words], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and done.stderr == "cloche: cannot write standard output: No space left on device\n", (words, done)


def test_help_names_the_instructions_of_builds():
    os.mkdir("app")
    write_file("app/Dockerfile", "FROM scratch\nNONE\n")
    refusal = cli("image", "build", "app").stderr.decode()
    words = re.findall(r"\b[A-Z]{3,}\b", refusal.split("expected", 1)[1])
    shown = cli("help", "image", "build").stdout.decode()
    assert len(words) > 10 and all(word in shown for word in words), (words, shown)
