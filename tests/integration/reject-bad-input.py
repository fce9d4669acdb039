"""Bad input is one clear line on stderr and exit 2; nothing runs and nothing is left."""
from cloche import bad_input, cli, equal, write_file

F = "def f(): return 1"


def test_no_arguments():
    equal(cli().code, 2)


def test_unknown_verb():
    bad_input("frobnicate", says="frobnicate")


def test_unknown_language():
    bad_input("call", "klingon", "-c", F, says="klingon")


def test_unknown_language_of_run():
    bad_input("run", "klingon", "-c", F, says="klingon")


def test_missing_language():
    bad_input("call", says="language")


def test_missing_code():
    bad_input("call", "python", says="code|-c")


def test_two_sources_of_code():
    bad_input("call", "python", "-c", F, "-f", write_file("x.py", F), says="-c|-f|code")


def test_unknown_option():
    bad_input("call", "python", "-c", F, "--frobnicate", says="frobnicate")


def test_option_without_its_value():
    bad_input("call", "python", "-c", F, "--timeout", says="timeout")


def test_args_that_are_not_json():
    bad_input("call", "python", "-c", F, "--args", "[1,", says="--args: invalid JSON: ")


def test_args_that_are_a_number():
    bad_input("call", "python", "-c", F, "--args", "3", says="--args: expected a JSON array or object")


def test_kwargs_that_are_an_array():
    bad_input("call", "python", "-c", F, "--kwargs", "[1]", says="--kwargs: expected a JSON object")


def test_schema_that_is_not_json():
    bad_input("call", "python", "-c", F, "--schema", "{", says="schema|json")


def test_args_with_an_unknown_tag():
    bad_input("call", "python", "-c", F, "--args", '[{"$":"gizmo"}]', says="gizmo|args|tag|json")
    for value in '{"$":"gizmo"}', '{"$":1}', '{"$":"date","when":1}':
        way_out = r'a key "\$" of your own: \{"\$":"object","v":\[\["\$",VALUE\]\]\}'
        bad_input("call", "python", "-c", F, "--args", f"[{value}]", says=way_out)
    equal(cli("call", "python", "-c", "def f(x): return x['$']", "--args", '[{"$":"object","v":[["$","price"]]}]').stdout, b'"price"\n')


def test_args_nested_too_deep():
    bad_input("call", "python", "-c", F, "--args", "[" * 5000 + "]" * 5000, says="deep|depth|nest|json")


def test_unreadable_code_file():
    bad_input("call", "python", "-f", "/nonexistent/code.py", says="/nonexistent/code.py")


def test_code_file_that_is_a_directory():
    bad_input("call", "python", "-f", "/tmp", says="/tmp")


def test_unreadable_virtual_file():
    bad_input("call", "python", "-c", F, "--file", "a=/nonexistent/a", says="/nonexistent/a")


def test_virtual_directory_that_is_none_of_a_box():
    bad_input("call", "python", "-c", F, "--file", "/etc/x=/usr/share/doc/base-files", says="/workspace")


def test_virtual_file_that_is_a_device():
    bad_input("call", "python", "-c", F, "--file", "a=/dev/zero", says="/dev/zero")


def test_build_options_of_a_language_that_is_not_compiled():
    bad_input("call", "python", "-c", F, "--build", "{}", says="compiled languages, not for python")
    bad_input("prefix", "create", "name", "javascript", "-c", "1", "--build", "{}", says="compiled languages, not for javascript")


def test_virtual_file_without_equals():
    bad_input("call", "python", "-c", F, "--file", "justaname", says="justaname|file")


def test_virtual_path_that_climbs_out():
    path = write_file("x", "x")
    for virtual in ("../../etc/passwd", "/proc/1/mem", "/etc/passwd"):
        finished = cli("call", "python", "-c", F, "--file", f"{virtual}={path}")
        assert finished.code != 0 and len(finished.stderr.splitlines()) == 1, finished


def test_timeout_that_is_no_number():
    bad_input("call", "python", "-c", F, "--timeout", "soon", says="timeout")


def test_limits_out_of_range():
    for option, value in [("timeout", "-1"), ("timeout", "1e30"), ("timeout", "nan"), ("memory", "1"),
                          ("memory", "99999999999999999999"), ("pids", "1"), ("pids", "-5"), ("disk", "-1"),
                          ("output-limit", "-1"), ("cpu-time", "-2")]:
        bad_input("call", "python", "-c", F, "--" + option, value, says=option)


def test_image_that_is_not_a_directory():
    bad_input("call", "python", "-c", F, "--image", "/nonexistent/image", says="/nonexistent/image")


def test_environment_without_equals():
    bad_input("run", "python", "-c", "", "--env", "NOVALUE", says="NOVALUE|env")


def test_unknown_guard():
    bad_input("call", "python", "-c", F, "--optional", "moat", says="moat")


def test_the_same_call_in_order_works():
    equal(cli("call", "python", "-c", F).stdout.strip(), b"1")


def test_help_is_not_an_error():
    finished = cli("--help")
    equal((finished.code, finished.stderr), (0, b""))
    assert b"call" in finished.stdout and b"run" in finished.stdout and b"selftest" in finished.stdout
