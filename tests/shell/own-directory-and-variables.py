"""cwd and env of one command."""
import os

from shell import Shell


def test_variables_of_one_command():
    with Shell() as s:
        s.out("x=1; export y=2 z=3; a=(1 2 3); declare -i n=4")
        env = {"x": "10", "y": "20", "new": "é ü\n", "a": "plain", "n": "text", "z": None, "nothing": None}
        assert s.out("printenv x y new a n; echo ${z-unset}; printenv z || echo none", env=env) == "10\n20\né ü\n\nplain\ntext\nunset\nnone\n"
        assert s.run(":").env is None
        assert s.out("echo $x $y $z ${new-gone} ${a[2]}; printenv x || echo hidden; n=2+3; echo $n; printenv y") == "1 2 3 gone 3\nhidden\n5\n2\n"


def test_what_the_command_does_to_them_is_gone():
    with Shell() as s:
        s.out("x=1; export y=2")
        env = {"x": "10", "y": "20", "z": "30"}
        assert s.out("x=11; unset y; echo ${y-unset}; unset y; export -n z; readonly z; declare -A w=([a]=1)", env=env) == "unset\n"
        assert s.out("echo $x $y ${z-gone} ${w[a]}; z=9; printenv y") == "1 2 gone 1\n2\n"
        s.run("x=12; set -e; false", env=env)
        s.run("f() { local x=13; x=14; y=5; return 1; }; f; echo ${nothing?stop}", env=env)
        assert s.out("set +e; echo $x $y ${z-gone}") == "1 2 9\n"


def test_variables_that_mean_something_to_the_shell():
    with Shell() as s:
        os.mkdir(s.top + "/bin")
        with open(s.top + "/bin/tool", "w") as file:
            os.chmod(file.fileno(), 0o755)
            file.write("#!/bin/sh\necho tool\n")
        assert s.out("tool", env={"PATH": s.top + "/bin:/usr/bin:/bin"}) == "tool\n"
        assert s.run("tool").code == 127
        assert s.out("v=a:b; printf '<%s>' $v", env={"IFS": ":"}) == "<a><b>"
        assert s.out("v='a:b c'; printf '<%s>' $v") == "<a:b><c>"
        assert s.out("echo ${#v}", env={"v": "é", "LC_ALL": "C"}) == "2\n" and s.out("v=é; echo ${#v}") == "1\n"
        assert s.out("date -d @0 +%H; printf '%(%H)T\\n' 0", env={"TZ": "UTC-5"}) == "05\n05\n"
        assert s.out("cd; pwd", env={"HOME": "/usr"}) == "/usr\n"


def test_conflicts():
    with Shell() as s:
        s.out("readonly r=1")
        for env, words in [({"r": "2"}, "r: readonly variable"), ({"r": None}, "r: readonly variable"), ({"UID": "0"}, "UID: readonly variable"),
                           ({"a-b": "1"}, "a-b: not a valid identifier"), ({"": "1"}, ": not a valid identifier")]:
            answer = s.run("echo ran", env={"before": "1", **env})
            assert (answer.code, answer.out) == (1, "") and words in answer.err, vars(answer)
        assert s.out("echo $r ${before-gone}") == "1 gone\n"


def test_directory_of_one_command():
    with Shell() as s:
        s.out("cd /usr; cd /etc")
        assert s.out("pwd; echo $PWD $OLDPWD; cd /; /bin/pwd", cwd="/dev") == "/dev\n/dev /etc\n/\n"
        answer = s.run("pwd; /bin/pwd; echo $OLDPWD")
        assert (answer.out, answer.cwd) == ("/etc\n/etc\n/usr\n", "/etc")
        os.makedirs(s.top + "/a b/c")
        s.out(f"cd {s.top}")
        assert s.out("pwd", cwd="a b/c", env={"CDPATH": "/usr:/etc"}) == f"{s.top}/a b/c\n"
        os.makedirs(s.top + "/-")
        assert s.out("pwd", cwd="-") == f"{s.top}/-\n"


def test_a_directory_that_is_not_there():
    with Shell() as s:
        for where, why in [("/nope", "No such file or directory"), ("/etc/hostname", "Not a directory"), ("no/pe", "No such file or directory")]:
            answer = s.run("echo ran", cwd=where)
            assert (answer.code, answer.out, answer.cwd) == (1, "", s.top) and f"cd: {'' if where[0] == '/' else './'}{where}: {why}" in answer.err, vars(answer)
        assert s.out("pwd; echo ${OLDPWD-none}") == f"{s.top}\nnone\n"


def test_the_sessions_directory_is_removed():
    with Shell() as s:
        s.out("mkdir gone; cd gone; rmdir ../gone")
        assert s.out("/bin/pwd", cwd="/usr") == "/usr\n"
        assert s.out("echo on") == "on\n"
        assert s.run("cd ..; cd /usr").cwd == "/usr"


def test_interrupted_and_failed_ones_are_undone_too():
    with Shell() as s:
        files = s.begin("touch began; cd /; x=2; while :; do :; done", env={"x": "1"}, cwd=s.top)
        while not os.path.exists(s.top + "/began"):
            pass
        s.interrupt()
        assert s.end(files).interrupted
        s.run("if", env={"x": "1"}, cwd="/")
        assert s.out("pwd; echo ${x-gone}") == f"{s.top}\ngone\n"
