"""Ruby as a template: state that siblings must not share, features that a forked Ruby could lose, fork blockers."""
from cloche import SHIPPED, equal
from warm import Failed, Warm

SETUP = """
    require 'set'
    LIMIT = 10
    limit = 5
    $list = [1]
    def helper(x) = x * LIMIT
    DRAWN = [rand, SecureRandom.hex, Dir::Tmpname.create('x') { |n| n }]
"""


def test_a_prefix_and_clean_siblings():
    with Warm("ruby", SETUP, env=SHIPPED) as warm:
        equal(warm.value("$list << 2\nLIMIT + limit + helper(args[0]) + $list.sum", args=[2]), 38)
        equal(warm.value("[$list, defined?(other), helper(1)]"), [[1], None, 10])
        equal(warm.value("def other(a, k: 2) = a + k\n", args=[1]), 3)
        result = warm.run("def f\n 1 / 0\nend")
        equal((result.error["type"], "/run/cloche" in result.error["stack"]), ("ZeroDivisionError", False))
        result = warm.run("print 1\nwarn 2\nnil")
        equal((result.stdout, result.stderr), ("1", "2\n"))


def test_numbers_of_siblings():
    code = "[rand, Random.rand(1 << 60), Random.new.rand, SecureRandom.hex, SecureRandom.uuid, Random.urandom(8).unpack1('H*'), Dir::Tmpname.create('x') { |n| n }, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16].shuffle.join(',')]"
    for setup in ("", SETUP + "\nrequire 'openssl'\n", "srand(1)\nrequire 'openssl'\nOpenSSL::Random.random_bytes(1)"):
        for spares in (0, 2):
            with Warm("ruby", setup, spares=spares, env=SHIPPED) as warm:
                rows = [warm.value(code) for _ in range(4)]
                for column in zip(*rows):
                    equal(len(set(column)), 4, column)
    with Warm("ruby", "require 'openssl'\nOpenSSL::Random.random_bytes(1)") as warm:
        equal(len({warm.value("OpenSSL::Random.random_bytes(8).unpack1('H*')") for _ in range(4)}), 4)


def test_what_a_forked_ruby_still_does():
    with Warm("ruby", "trap('USR1') { $got = true }") as warm:
        equal(warm.value("[`echo hi`, system('exit 3'), $?.exitstatus, (pid = fork { exit!(4) }; Process.wait(pid); $?.exitstatus)]"), ["hi\n", False, 3, 4])
        equal(warm.value("q = Queue.new\n4.times { |i| Thread.new { sleep 0.01; q << i } }\n4.times.map { q.pop }.sum"), 6)
        equal(warm.value("require 'timeout'\nbegin\n Timeout.timeout(0.05) { sleep 5 }\nrescue Timeout::Error\n 'late'\nend"), "late")
        equal(warm.value("Process.kill('USR1', $$)\nsleep 0.01\n$got"), True)
        equal(warm.value("r, w = IO.pipe\nt = Thread.new { r.read }\nw.write 'x'\nw.close\nt.value"), "x")
        equal(warm.value("GC.start\nGC.compact\nArray.new(300_000) { |i| [i] }.sum { |a| a[0] }"), 44999850000)
        equal(warm.value("[$$ == Process.pid, Dir.pwd, File.writable?('/workspace'), Process.uid]"), [True, "/workspace", True, 1000])
        equal(warm.value("Dir.children('/proc/self/fd').map { |n| File.readlink(\"/proc/self/fd/#{n}\") rescue nil }.compact.grep(/socket/).size"), 1)


def test_gems_and_libraries_are_there():
    with Warm("ruby", env=SHIPPED) as warm:
        equal(warm.value("before = $LOADED_FEATURES.size\nrequire 'json'\nrequire 'set'\nrequire 'csv'\nrequire 'time'\n[$LOADED_FEATURES.size - before, Gem::Version.new('1.10') > Gem::Version.new('1.9')]"), [0, True])
        equal(warm.run("require 'no/such'").error["type"], "LoadError")
        # RubyGems keeps Ruby's own require, which is in C, and none of the agent's.
        equal(warm.value("gem 'json'\n[Kernel.instance_method(:gem_original_require).source_location, Kernel.instance_method(:gem).source_location[0][/rubygems/]]"),
              [None, "rubygems"])
        equal(warm.value("defined?(ClocheRehearsal_).inspect + Object.private_method_defined?(:f_).to_s"), "nilfalse")


def test_changed_operators_of_a_set_up_stay():
    with Warm("ruby", "class Integer\n def +(other) = 7\nend\nclass String\n def size = -1\nend") as warm:
        equal(warm.value("[1 + 1, 'x'.size, {a: ['y']}]"), [7, -1, {"a": ["y"]}])


def test_a_refused_result_is_not_said_to_be_of_the_rehearsal():
    with Warm("ruby", "X = 1") as warm:
        message = warm.run("$stdout").error["message"]
        assert message.endswith("; returned by main.rb"), message


def test_errors_in_a_set_up():
    for setup, what in (("raise KeyError, 'k'", "k"), ("def f(", "syntax error"), ("exit 3", "exit 3")):
        try:
            with Warm("ruby", setup) as warm:
                warm.run("1")
            raise AssertionError(setup)
        except Failed as failure:
            assert what in failure.message, failure.message


def test_what_cannot_be_forked():
    for setup, why in {"Thread.new { sleep }": "1 thread is alive", "$p = IO.popen('sleep 60')": "child processes are alive",
                       "$f = File.open('/etc/passwd')": "descriptors are open", "r, w = IO.pipe\n$r = r; $w = w": "descriptors are open"}.items():
        try:
            with Warm("ruby", setup) as warm:
                warm.run("1")
            raise AssertionError(setup)
        except Failed as failure:
            assert why in failure.message, (setup, failure.message)
    with Warm("ruby", "Thread.new { 1 }.join\n`true`\nFile.read('/etc/passwd')\nIO.pipe.each(&:close)\nfork { exit! }.then { |p| Process.wait(p) }") as warm:
        equal(warm.value("2"), 2)


def test_the_host():
    with Warm("ruby", "def through(x) = echo(x)\nrequire 'hostmodule'") as warm:
        equal(warm.value("[echo(1), through([2]), ANSWER, Hostmodule.deep.echo('x'), require('hostmodule')]"), [[1], [[2]], 42, ["x"], False])
        equal(warm.value("begin\n fail('x')\nrescue => e\n [e.class.name, e.message]\nend"), ["HostError", "no such thing"])
        equal(warm.run("fail(1)").error["type"], "ValueError")
        equal(warm.value("begin\n self.fail('x')\nrescue => e\n [e.name, e.status, e.fields]\nend"), ["ValueError", 404, {"status": 404}])
        equal(warm.value("(1..8).map { |i| Thread.new { echo(i)[0] } }.map(&:value)"), list(range(1, 9)))
        equal(warm.value("require 'timeout'\n[(Timeout.timeout(0.05) { hang } rescue $!.class.name), echo(2)]"), ["Timeout::Error", [2]])
