"""Virtual files in, changes out."""
import hashlib
from cloche import call, equal, untag, write_file

LIST = "import os\ndef f(): return sorted(os.listdir('.'))"


def change(result, kind, name):
    found = [c for c in result.files[kind] if c["path"].endswith("/" + name) or c["path"] == name]
    equal(len(found), 1, result)
    return found[0]


def test_a_file_lands_below_the_working_directory():
    path = write_file("host.csv", "a,b\n1,2\n")
    result = call("python", "def f(): return open('in/data.csv').read()", "f", file=f"in/data.csv={path}")
    equal(result.value, "a,b\n1,2\n", result)


def test_a_file_at_an_absolute_path():
    path = write_file("host", "text")
    equal(call("python", "def f(): return open('/tmp/given').read()", "f", file=f"/tmp/given={path}").value, "text")


def test_files_are_exact_bytes():
    data = bytes(range(256)) * 4000
    path = write_file("host", data)
    result = call("javascript", "function f() { return require('crypto').createHash('sha256')"
                  ".update(require('fs').readFileSync('blob')).digest('hex'); }", "f", file=f"blob={path}")
    equal(result.value, hashlib.sha256(data).hexdigest(), result)


def test_many_files():
    files = [f"d/{i}.txt={write_file(str(i), str(i))}" for i in range(30)]
    equal(call("python", "import os\ndef f(): return len(os.listdir('d'))", "f", file=files).value, 30)


def test_the_host_file_is_not_touched():
    path = write_file("host", "before")
    result = call("python", "def f(): open('x', 'w').write('after')", "f", file=f"x={path}")
    equal(change(result, "modified", "x")["content"], "after")
    equal(open(path).read(), "before")


def test_created():
    result = call("python", "import os\ndef f():\n    os.makedirs('a/b')\n    open('a/b/new.txt', 'w').write('hello')", "f")
    made = change(result, "created", "new.txt")
    equal((made["content"], made["size"]), ("hello", 5))


def test_modified():
    path = write_file("host", "old")
    result = call("python", "def f(): open('given', 'a').write(' and new')", "f", file=f"given={path}")
    equal(change(result, "modified", "given")["content"], "old and new")
    equal(result.files["created"], [])


def test_deleted():
    path = write_file("host", "old")
    result = call("python", "import os\ndef f(): os.unlink('given')", "f", file=f"given={path}")
    change(result, "deleted", "given")


def test_untouched_files_are_no_changes():
    path = write_file("host", "old")
    result = call("javascript", "function f() { return require('fs').readFileSync('given', 'utf8'); }", "f",
                  file=f"given={path}")
    equal((result.value, result.files["created"], result.files["modified"], result.files["deleted"]), ("old", [], [], []))


def test_binary_content_comes_back():
    result = call("python", "def f(): open('b', 'wb').write(b'\\x00\\xff\\x80')", "f")
    equal(untag(change(result, "created", "b")["content"]), b"\x00\xff\x80")


def test_changes_survive_an_exception():
    result = call("python", "def f():\n    open('partial', 'w').write('x')\n    raise ValueError", "f")
    equal(result.status, "error")
    change(result, "created", "partial")


def test_a_symlink_is_not_followed_when_changes_are_read():
    result = call("python", "import os\ndef f():\n    os.symlink('/etc/passwd', 'link')\n"
                  "    os.symlink('/proc/self', 'l2')\n    open('real', 'w').write('text')", "f")
    equal(change(result, "created", "real")["content"], "text")
    for made in result.files["created"]:
        if not made["path"].endswith("real"):
            assert "cloche:x" not in str(made.get("content")) and "/l2/" not in made["path"], made


def test_the_working_directory_is_writable_and_the_root_is_not():
    result = call("python", "import os, errno\ndef f():\n    out = []\n    for d in ('/workspace', '/tmp', '/home/cloche', "
                  "'/dev/shm', '/', '/usr', '/etc', '/usr/bin', '/run/cloche'):\n        try:\n"
                  "            open(d + '/probe', 'w').close()\n            out.append('ok')\n"
                  "        except OSError as e:\n            out.append(errno.errorcode[e.errno])\n    return out", "f")
    equal(result.value[:4], ["ok"] * 4, result)
    for answer in result.value[4:]:
        assert answer in ("EROFS", "EACCES"), result.value
