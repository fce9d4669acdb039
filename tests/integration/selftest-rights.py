"""cloche selftest tries the rights of set-up code and forkable contexts (spec/rights.def), and the
rules of programs that confine themselves with Landlock (spec/landlocked.def). It reports a right
that is open although it must be refused, and rules that are not in force, with its exit code too."""
import json
import re

import pretend
from cloche import ORDINARY_USER, cli, equal, need_ordinary_user, need_root, spec_rows

SILENT_SECCOMP = pretend.where((pretend.SECCOMP, pretend.DONE))
SILENT_LANDLOCK = pretend.where((pretend.LANDLOCK_ENTER, pretend.DONE))
NO_LANDLOCK = pretend.where((pretend.LANDLOCK_MAKE, pretend.MISSING))


def rights_table():
    """name -> True if set-up code and a context may."""
    return {row["name"]: [row["set_up"] == "MAY", row["context"] == "MAY"] for row in spec_rows("CLOCHE_RIGHT")}


def programs():
    return [row["program"] for row in spec_rows("CLOCHE_LANDLOCKED")]


def report(*words, **keywords):
    finished = cli("selftest", "--json", *words, **keywords)
    assert finished.stdout, finished
    whole = json.loads(finished.stdout)
    return finished.code, {part: {row["name"]: row for row in rows} for part, rows in whole.items()}


def found(rights):
    return {name: [row["setUp"]["open"], row["context"]["open"]] for name, row in rights.items()}


def check_all_held(**keywords):
    code, parts = report(**keywords)
    equal([code, found(parts["rights"])], [0, rights_table()])
    for name, row in parts["rights"].items():
        equal([row["held"], row["setUp"]["may"], row["context"]["may"]], [True, *rights_table()[name]], row)
        assert row["setUp"]["tried"] and row["context"]["tried"] and row["about"], row
    equal({name: row["state"] for name, row in parts["landlock"].items()}, dict.fromkeys(programs(), "enforced"))


def test_set_up_code_and_contexts_have_the_rights_of_the_table():
    check_all_held()


def test_so_they_have_for_an_ordinary_user():
    need_ordinary_user()
    check_all_held(under=ORDINARY_USER)


def test_each_has_a_line():
    lines = cli("selftest").stdout.decode().splitlines()
    for name, (set_up, context) in rights_table().items():
        [line] = [line for line in lines if line.split()[:1] == [name]]
        assert re.fullmatch(rf"{name} +may{'' if set_up else ' not'} +may{'' if context else ' not'} +tried: \S.*", line), line
    for name in programs():
        [line] = [line for line in lines if line.split()[:1] == [name]]
        assert re.fullmatch(rf"{name} +enforced +tried: ABI \d+: refused .+", line), line


def test_landlock_is_what_the_host_has():
    _, parts = report()
    abi = parts["host"]["landlock"]["detail"].split(":")[0]
    assert abi.startswith("ABI "), parts["host"]["landlock"]
    for row in parts["landlock"].values():
        equal(row["tried"].split(":")[0], abi)


def check_open_without_a_filter(*words, **keywords):
    """Every capability is there, and nothing refuses to use it."""
    code, parts = report(*words, **keywords)
    equal([code, parts["guards"]["seccomp"]["state"]], [1, "absent"])
    for name in ("mount", "change-root", "make-namespaces", "kernel-code", "answer-calls"):
        row = parts["rights"][name]
        equal([row["held"], *found({name: row})[name]], [False, True, True], row)
    row = parts["rights"]["list-network"]
    equal([row["held"], *found({"": row})[""]], [False, True, True], row)
    for name in ("join-box", "rule-box", "signal-above", "kernel-settings", "namespaces-above", "raw-sockets"):  # others refuse these
        equal(parts["rights"][name]["held"], True, parts["rights"][name])


def test_a_filter_that_is_not_in_force_shows():
    need_root()
    check_open_without_a_filter(under=SILENT_SECCOMP)
    done = cli("selftest", under=SILENT_SECCOMP)
    text = done.stdout.decode()
    assert re.search(r"^mount +may +may +open, and must be refused to both: mount\(2\)", text, re.M), text
    assert re.search(r"^list-network +may +may +open, and must be refused to contexts: netlink", text, re.M), text
    assert re.search(r"^rights are open that must be refused: .*\bmount, ", text, re.M), text


def test_it_shows_to_an_ordinary_user():
    need_ordinary_user()
    check_open_without_a_filter(under=[*ORDINARY_USER, *SILENT_SECCOMP])


def test_an_optional_guard_does_not_permit_the_rights():
    need_root()
    check_open_without_a_filter("--optional", "seccomp", under=SILENT_SECCOMP)


def test_landlock_rules_that_are_not_in_force_show():
    code, parts = report(under=SILENT_LANDLOCK)
    equal([code, parts["host"]["landlock"]["present"]], [1, True])
    equal({row["state"] for row in parts["landlock"].values()}, {"absent"})
    for row in parts["landlock"].values():
        assert row["tried"].endswith("is open"), row
    assert b"the rules of cloche-egress are not in force" in cli("selftest", under=SILENT_LANDLOCK).stdout


def test_a_kernel_without_landlock_is_no_fault():
    """Programs that need it refuse to start there, according to the host's line."""
    code, parts = report(under=NO_LANDLOCK)
    equal([code, parts["host"]["landlock"]["present"]], [0, False])
    equal({row["state"] for row in parts["landlock"].values()}, {"absent"})
    text = cli("selftest", under=NO_LANDLOCK).stdout.decode()
    assert re.search(r"^cloche-fs +absent +landlock: ", text, re.M), text
