"""cloche bench prints a result for each of its measurements. The values are not tested."""
import json
import os
from cloche import bad_input, cli, equal

WARM = ["run forked on demand", "call of a host function and back", "run forked into a box made ahead", "run from a spare", "runs, 3 at once"]
FLOOR = "fork, exit and wait of this process"


def bench(*words):
    finished = cli("bench", *words, "--json")
    equal((finished.code, finished.stderr), (0, b""), finished)
    answers = json.loads(finished.stdout)
    equal(answers["floor"], answers["rows"][0]["question"])
    equal(answers["rows"][0]["ratio"], 1)
    for row in answers["rows"]:
        assert 0 < row["p50Ms"] <= row["p99Ms"] and row["n"] > 0, row
    return answers


def questions(answers):
    return [row["question"] for row in answers["rows"]]


def test_all_questions():
    answers = bench("--runs", "3", "--concurrency", "3")
    equal((answers["language"], questions(answers)), ("python", [FLOOR, "cold call", *WARM]))
    equal([row["n"] for row in answers["rows"]], [3, 3, 3, 995, 3, 3, 12])
    assert answers["rows"][-1]["perSecond"] > 0, answers
    if os.geteuid() == 0:
        memory = answers["spareMemory"]
        assert memory["boxes"] == 2 and 100 << 10 < memory["bytesEach"] < 100 << 20, memory
        assert memory["source"] == "PSS, smaps_rollup", memory


def test_cold_only():
    answers = bench("javascript", "--cold", "--runs", "2", "--concurrency", "2")
    equal((answers["language"], questions(answers)), ("javascript", [FLOOR, "cold call", "cold calls, 2 at once"]))
    assert "spareMemory" not in answers


def test_without_spares():
    equal(questions(bench("--spares", "0", "--runs", "2", "--concurrency", "1")),
          [FLOOR, "cold call", WARM[0], WARM[1], "runs, 1 at once"])


def test_a_prefix():
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    equal(cli("prefix", "create", "a", "python", "-c", "x = 5").code, 0)
    answers = bench("--prefix", "a", "-c", "return x + 1", "--runs", "2", "--concurrency", "3", "--spares", "3")
    equal((answers["prefix"], questions(answers)), ("a", [FLOOR, *WARM]))
    equal(answers["spareMemory"]["boxes"] if os.geteuid() == 0 else 3, 3)


def test_the_table():
    finished = cli("bench", "--runs", "2")
    lines = finished.stdout.decode().splitlines()
    equal(lines[0].split(), ["question", "n", "p50", "ms", "p99", "ms", "ratio"], finished)
    assert any(line.startswith("memory of an idle spare: ") for line in lines) and FLOOR in lines[-1], lines


def test_runs_that_fail_are_no_answer():
    finished = cli("bench", "-c", "raise ValueError('no')", "--runs", "2")
    equal((finished.code, finished.stdout), (1, b""))
    assert b"ValueError: no" in finished.stderr, finished


def test_bad_input():
    bad_input("bench", "klingon", says="klingon")
    for option, value in [("--runs", "0"), ("--runs", "x"), ("--runs", "-1"), ("--concurrency", "0"), ("--spares", "1e9"), ("--concurrency", "99999999999")]:
        bad_input("bench", option, value, says=option)
    bad_input("bench", "--prefix", "nobody", says="nobody")
    bad_input("bench", "python", "more", says="unexpected word")
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    bad_input("bench", "--prefix", "a", "--cold", says="--cold")
