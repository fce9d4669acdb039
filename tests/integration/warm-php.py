"""PHP as a template: state of the set-up in its runs, state that siblings must not share, host
functions, and ends of runs."""
import os
from cloche import call, cli, equal, run
from warm import Failed, Warm

SETUP = """
    const LIMIT = 10;
    $seen = [1];
    class Counter { public static int $n = 0; }
    function helper($x) { Counter::$n++; return $x * LIMIT; }
    mt_srand(1);
    $drawn = [mt_rand(), lcg_value(), uniqid('', true), random_int(0, 9), openssl_random_pseudo_bytes(8), session_create_id(), file_exists('mine')];
"""


def both(check, setup=SETUP):
    for spares in (0, 2):
        with Warm("php", setup, spares=spares) as warm:
            check(warm)


def test_what_the_set_up_made_is_there_and_as_it_was():
    def check(warm):
        for _ in range(3):
            equal(warm.value("$seen[] = 2; Counter::$n += 5; define('MINE', 1); return [helper(2), count($seen), Counter::$n, __FILE__];", pause=50), [20, 2, 6, "main.php"])
            equal(warm.value("function f($x) { global $seen; return [$x, $seen, defined('MINE')]; }", function="f", args=["a"], pause=50), ["a", [1], False])
    both(check)


def test_files_and_processes():
    def check(warm):
        for _ in range(2):
            equal(warm.value("$there = [file_exists('mine'), glob('/tmp/*'), getcwd(), count(glob('/proc/[0-9]*')) <= 3]; touch('mine'); touch('/tmp/mine');"
                             " chdir('/tmp'); if (pcntl_fork() === 0) { posix_setsid(); sleep(100); } return $there;", pause=50), [False, [], "/workspace", True])
    both(check)


def test_chance_differs():
    def check(warm):
        code = ("return [mt_rand(), rand(), lcg_value(), random_int(0, PHP_INT_MAX), bin2hex(openssl_random_pseudo_bytes(8)), bin2hex(random_bytes(8)),"
                " implode(' ', (function () { $a = range(1, 30); shuffle($a); return $a; })()), session_create_id(), basename(tempnam('/tmp', 'x')),"
                " (new Random\\Randomizer)->getInt(0, PHP_INT_MAX), uniqid('', true), password_hash('a', PASSWORD_BCRYPT, ['cost' => 4])];")
        rows = [warm.value(code, pause=50) for _ in range(3)] + [r.value for r in warm.runs(code, 3)]
        for column in zip(*rows):
            equal(len(set(map(str, column))), len(rows), column)
    both(check)


def test_time_of_a_run_is_its_own():
    with Warm("php", "$then = $_SERVER['REQUEST_TIME_FLOAT'];") as warm:
        equal(warm.value("return [$_SERVER['REQUEST_TIME_FLOAT'] > $then, abs(microtime(true) - $_SERVER['REQUEST_TIME_FLOAT']) < 30];", pause=20), [True, True])


def test_host_functions():
    def check(warm):
        equal(warm.value("return [$echo(1, ['a' => 2.5, 'b' => new Cloche\\Bytes('x')]), ANSWER, $ANSWER, hostmodule\\deep->echo('y')];"),
              [[1, {"a": 2.5, "b": b"x"}], 42, 42, ["y"]])
        equal(warm.value("function f() { global $echo; for ($i = 0; $i < 50; $i++) $all[] = $echo($i)[0]; return array_sum($all); }", function="f"), 1225)
        equal(warm.value("try { fail('x'); } catch (Cloche\\HostError $e) { return [$e->name, $e->getMessage(), $e->fields, $e->getLine(), basename($e->getFile())]; }"),
              ["ValueError", "no such thing", {"status": 404}, 1, "main.php"])
        error = warm.run("function f() {\n fail(); }", function="f").error
        equal((error["type"], error["message"], error["stack"]),
              ("ValueError", "no such thing", "Cloche\\HostError: no such thing in main.php:2\nStack trace:\n#0 main.php(2): fail()\n#1 [internal function]: f()\n#2 {main}"))
        error = warm.run("return $echo(['f' => fn () => 1]);").error
        equal((error["type"], error["message"]), ("TypeError", "echo: $[0].f: Closure cannot be sent: return its data, or let its class be JsonSerializable"))
        equal(warm.value("try { return hostmodule\\deep->nothing(); } catch (Error $e) { return $e->getMessage(); }"), "The host's object has no nothing()")
    both(check)


def test_host_cannot_be_asked_by_the_set_up():
    with Warm("php", "try { fail(); } catch (Error $e) { $told = $e->getMessage(); }") as warm:
        equal(warm.value("return $told;"), "the host cannot be called while the set-up runs")


def test_ends_of_runs():
    def check(warm):
        code = "class D { function __destruct() { echo 'destroyed '; } } $d = new D; register_shutdown_function(function () { echo 'bye '; }); ob_start(); echo 'x ';"
        result = warm.run(code + " return 1;")
        equal((result.value, result.stdout), (1, "x "))
        result = warm.run(code + " exit(3);")
        equal((result.status, result.error["type"], result.stdout[:6]), ("error", "ExitException", "x bye "))
        equal(warm.run("function helper() {}").error["message"], "Cannot redeclare helper() (previously declared in prefix.php:5)")
        equal(warm.run("posix_kill(getmypid(), 9);").status, "crash")
        equal(warm.run("str_repeat('x', 400 << 20);", limits={"memoryBytes": 64 << 20}).status, "crash")
        equal(warm.run("while (true);", limits={"wallMs": 300}).status, "timeout")
        equal(warm.value("return Counter::$n;"), 0)
    both(check)


def test_set_ups_that_fail():
    for setup, why in {
        "\n\nintdiv(1, 0);": "DivisionByZeroError: Division by zero",
        "$x = ;": "syntax error",
        "exit;": "exit() was called before the set-up ended",
        "$kept = fopen('/tmp/left', 'w');": "/tmp/left",
        "if (pcntl_fork() === 0) sleep(100);": "child",
    }.items():
        try:
            with Warm("php", setup) as warm:
                warm.run("return 1;")
            raise AssertionError(setup)
        except Failed as failure:
            assert why in failure.message, failure.message


def test_prefix_on_the_command_line():
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    equal(cli("prefix", "create", "p", "php", "-c", "function twice($x) { return 2 * $x; }").code, 0)
    equal(call("php", "return twice($args[0]);", args=[21], prefix="p").value, 42)
    finished = run("php", "echo twice(4), ' ', $argv[1]; fwrite(STDERR, 'err'); exit(3);", "word", prefix="p")
    equal((finished.code, finished.stdout, finished.stderr), (3, b"8 word", b"err"))
    finished = run("php", "\nthrow new Exception('no');", prefix="p")
    equal(finished.code, 255)
    assert b"Uncaught Exception: no in /workspace/main.php:2\nStack trace:\n#0 {main}" in finished.stderr, finished
