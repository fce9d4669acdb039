"""Completion comes from the same tables as help and parsing, and the scripts for shells hand it over."""
import os
import subprocess
from cloche import CLI, SOURCE, cli, equal

os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
# Root's store has one place, where the machine may have images: here it is one that is refused.
ROOTS_STORE = ["unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none /var/lib; mkdir -pm 755 /var/lib/cloche/images/trees; exec "$@"', "sh"] * (os.geteuid() == 0)


def offered(*words):
    finished = cli("__complete", *words)
    equal(finished.code, 0, finished)
    return [line.split("\t")[0] for line in finished.stdout.decode().splitlines()]


def test_nothing_lands_in_the_line_that_is_typed():
    os.makedirs("store/trees", mode=0o755)  # refused: its user's alone
    for libexec, data in (("/nonexistent", "data"), (os.path.dirname(CLI), "/dev/null"), (os.path.dirname(CLI), "store")):
        under = [*ROOTS_STORE, "env", f"CLOCHE_LIBEXEC={libexec}", f"XDG_DATA_HOME={data}", "HOME=/dev/null"]
        for words in (("image", "rm", ""), ("call", "--image", "")):
            finished = cli("__complete", *words, under=under)
            equal((finished.code, finished.stdout, finished.stderr), (0, b"", b""), finished)


def test_commands_once_each():
    words = offered("")
    assert {"call", "run", "prefix", "languages", "help"} <= set(words), words
    equal(len(words), len(set(words)))


def test_second_word_of_a_command():
    equal(offered("prefix", ""), ["create", "list", "drop"])
    equal(offered("prefix", "d"), ["drop"])


def test_languages():
    equal(offered("call", "pyth"), ["python"])
    assert "javascript" in offered("bench", ""), offered("bench", "")
    assert {"c", "cpp", "perl"} <= set(offered("call", "")), offered("call", "")


def test_languages_of_contexts():
    contexts = ["bash", "javascript", "php", "python", "ruby", "typescript"]
    equal(offered("repl", ""), contexts)
    equal(offered("context", "create", "box", "--language", ""), contexts)
    equal(offered("context", "create", "box", "--language", "p"), ["php", "python"])


def test_options_of_a_command():
    assert "--args" in offered("call", "python", "--a")
    assert "--args" not in offered("run", "python", "--a")


def test_a_value_is_completed_by_its_kind():
    equal(cli("prefix", "create", "geo", "python", "-c", "x = 1").code, 0)
    equal(offered("call", "python", "--prefix", "g"), ["geo"])
    equal(offered("prefix", "drop", ""), ["geo"])
    equal(offered("selftest", "--optional", "cpu,fr"), ["cpu,freezer"])


def test_files_and_free_text_are_left_to_the_shell():
    equal(offered("call", "python", "-f", ""), [])
    equal(offered("call", "python", "--args", ""), [])
    equal(offered("run", "python", "-c", "1", "--", ""), [])
    equal(offered("no-such-command", "x"), [])


def by_bash(*words):
    script = f"""
source {SOURCE}/completions/cloche.bash
COMP_WORDS=({CLI} "$@") COMP_CWORD=$# COMPREPLY=()
_cloche
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p cloche
"""
    finished = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True, text=True,
                              env={**os.environ, "PATH": "/usr/bin:/bin"})
    *offered, last = finished.stdout.splitlines()
    equal(last, "complete -o default -F _cloche cloche", finished)
    return [word for word in offered if word]


def test_bash():
    equal(by_bash("call", "java"), ["javascript"])


def test_bash_divides_words_at_equals_signs():
    equal(by_bash("call", "--sync", "=", "b"), ["batch"])
    equal(by_bash("call", "--sync", "="), ["batch", "manual"])
    equal(by_bash("call", "python", "--file", "a", "="), [])


def test_every_option_of_help_is_offered():
    for command in ("call", "run", "bench", "selftest"):
        told = cli("help", command).stdout.decode()
        for option in [word for line in told.splitlines() if line.startswith("  --") for word in line.split()[:1]]:
            assert option in offered(command, "python", option), (command, option)


def test_a_value_of_a_short_option_is_free_text():
    equal(offered("run", "-e", ""), [])
    assert "python" in offered("run", "-e", "A=1", ""), offered("run", "-e", "A=1", "")
