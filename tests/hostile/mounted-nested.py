"""Mounts that lie in other mounts, against a guest that tries to reach the files beneath the inner
one's mount point, or the inner one elsewhere, and a host that removes the mount point meanwhile.
Each has a permitted twin."""
import json
import os
import shutil
import subprocess

from cloche import equal, guest, guest_value, start

ALL = "**=*"
RENAMEAT2, EXCHANGE = 316, 2


def make(files, root):
    for name, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
        with open(os.path.join(root, name), "w") as file:
            file.write(text)
    return os.path.abspath(root)


def two(**options):
    """Options to mount outer at /workspace, and inner in it, three levels down; with a file mounted beside."""
    outer = make({"way/on/place/secret": "the host's", "way/on/beside": "x", "way/on/file": "the host's", "other/x": "x", "free/x": "x"}, "outer")
    inner = make({"own": "inner", "d/x": "x"}, "inner")
    file = make({"f": "file"}, "single")
    return {"mount": [f"/workspace={outer}", f"/workspace/way/on/place={inner}", f"/workspace/way/on/file={file}/f"], "rule": ALL, **options}


def tree(root):
    return sorted(os.path.relpath(os.path.join(d, n), root) for d, ds, fs in os.walk(root) for n in ds + fs)


MOVE_AWAY = """
    os.chdir('/workspace')
    def exchange(a, b):
        return syscall(RENAMEAT2, -100, a.encode(), -100, b.encode(), EXCHANGE)
    os.mkdir('empty')
    tried = [attempt(os.rename, path, 'moved') for path in ('way/on/place', 'way/on/file', 'way/on', 'way')]
    tried += [attempt(os.rename, 'empty', path) for path in ('way/on/place', 'way/on', 'way')]
    tried += [exchange(path, 'empty') for path in ('way/on/place', 'way/on', 'way')] + [exchange('free/x', 'way/on/file')]
    tried += [attempt(os.rename, 'free/x', 'way/on/file'), attempt(os.unlink, 'way/on/file'), attempt(os.rmdir, 'way/on/place'),
              attempt(os.unlink, 'way/on/place'), attempt(os.rmdir, 'way/on'), attempt(os.rmdir, 'way')]
    there = [open('way/on/place/own').read(), open('way/on/file').read(), sorted(os.listdir('way/on/place')), os.path.exists('moved')]
    free = [attempt(os.rename, 'free', 'freed'), attempt(os.rename, 'way/on/beside', 'way/beside'), exchange('freed', 'empty') == 0, attempt(os.rmdir, 'freed')]
    return [tried, there, free]
""".replace("RENAMEAT2", str(RENAMEAT2)).replace("EXCHANGE", str(EXCHANGE))
HELD = {"EBUSY", "ENOTEMPTY", "EISDIR", "EEXIST"}


def test_the_place_and_what_leads_to_it_cannot_be_moved_or_replaced():
    tried, there, free = guest_value(MOVE_AWAY, **two())
    assert set(tried) <= HELD, tried
    equal(there, ["inner", "file", ["d", "own"], False])
    equal(free, ["ok", "ok", True, "ok"])
    equal((open("outer/way/on/place/secret").read(), open("outer/way/on/file").read(), tree("inner"), open("single/f").read()),
          ("the host's", "the host's", ["d", "d/x", "own"], "file"))


def test_nor_where_what_is_not_permitted_is_pretended():
    for policy in ("ignore", "virtual", "throw"):
        for rules in (["**=-create,-modify,-delete"], [ALL]):
            shutil.rmtree("outer", ignore_errors=True)
            answers = guest_value("""
                os.chdir('/workspace')
                tried = [attempt(os.rename, path, 'moved') for path in ('way/on/place', 'way/on', 'way')]
                tried += [attempt(os.unlink, 'way/on/file'), attempt(os.rmdir, 'way/on'), attempt(os.rmdir, 'way')]
                return [tried, open('way/on/place/own').read(), sorted(os.listdir('way/on/place')), open('way/on/file').read()]
            """, **{**two(on_denied=policy, sync="manual"), "rule": rules})
            assert set(answers[0]) <= HELD | {"EACCES"}, (policy, rules, answers)
            equal(answers[1:], ["inner", ["d", "own"], "file"], (policy, rules))


def test_what_the_host_has_beneath_the_place_is_in_nobodys_sight():
    answers = guest_value("""
        os.chdir('/workspace/way/on/place')
        fd = os.open('..', os.O_RDONLY)
        names = ['place/secret', 'place/../place/secret', './place//secret']
        found = [attempt(lambda: open(f'/workspace/way/on/{name}').read()) for name in names]
        found += [attempt(lambda: os.open(name, os.O_RDONLY, dir_fd=fd)) for name in names] + [attempt(lambda: open('secret').read())]
        AT_NO_AUTOMOUNT, O_PATH = 0x800, 0o10000000
        place = os.open('place', O_PATH | os.O_DIRECTORY, dir_fd=fd)
        found += [attempt(lambda: os.open('secret', os.O_RDONLY, dir_fd=place)), syscall(332, fd, b'place/secret', AT_NO_AUTOMOUNT, 0, ctypes.create_string_buffer(256))]
        calls = [syscall(428, -100, b'/workspace/way/on', 1), syscall(165, b'/workspace/way/on', b'/tmp', None, 4096, None), syscall(272, 0x10020000), syscall(166, b'/workspace/way/on/place', 2)]
        return [found, calls, open('own').read(), open('../beside').read(), sorted(os.listdir('..'))]
    """, **two())
    equal(set(answers[0]), {"ENOENT"}, answers)
    assert set(answers[1]) <= {"EPERM", "ENOSYS", "EINVAL"}, answers
    equal(answers[2:], ["inner", "x", ["beside", "file", "place"]])


def test_nothing_goes_from_one_into_the_other_but_copies():
    answers = guest_value("""
        os.chdir('/workspace')
        i = 'way/on/place/'
        over = [attempt(os.rename, 'other/x', i + 'x'), attempt(os.rename, i + 'own', 'own'), attempt(os.rename, 'other', i + 'other'), attempt(os.rename, i + 'd', 'd'),
                attempt(os.link, 'other/x', i + 'x'), attempt(os.link, i + 'own', 'own'), attempt(os.link, 'way/on/file', 'twin'), attempt(os.link, 'way/on/file', i + 'twin')]
        inside = [attempt(os.rename, i + 'own', i + 'd/own'), attempt(os.link, i + 'd/own', i + 'twin'), attempt(os.link, 'other/x', 'other/twin')]
        open(i + 'copy', 'w').write(open('other/x').read())
        return [over, inside, os.stat('other').st_dev != os.stat(i).st_dev]
    """, **two())
    equal(answers, [["EXDEV"] * 8, ["ok"] * 3, True])
    equal((tree("inner"), sorted(os.listdir("outer/other"))), (["copy", "d", "d/own", "d/x", "twin"], ["twin", "x"]))


def test_links_and_dots_lead_through_the_box_only():
    options = two()
    for name, target in (("up", "../../../other/x"), ("outside", os.path.abspath("outer/way/on/place/secret")), ("far", "../" * 20 + os.path.abspath("outer")[1:])):
        os.symlink(target, os.path.join("inner", name))
    answers = guest_value("""
        os.chdir('/workspace/way/on/place')
        os.symlink('/workspace/way/on/place/secret', 'mine')
        return [attempt(lambda: open('outside').read()), attempt(lambda: os.listdir('far')), attempt(lambda: open('mine').read()), open('up').read(),
                sorted(os.listdir('../../..')), open('../../../other/x').read()]
    """, **options)
    equal(answers, ["ENOENT", "ENOENT", "ENOENT", "x", ["free", "other", "way"], "x"])


def test_rules_of_the_outer_mount_decide_nothing_in_the_inner_one_and_the_other_way_round():
    rules = {name: os.path.abspath(name + ".json") for name in ("closed", "open")}
    with open(rules["closed"], "w") as file:
        json.dump({"permissions": {"exclude": ["own", "place"], "rules": [{"pattern": "way/**", "deny": "*"}]}}, file)
    with open(rules["open"], "w") as file:
        json.dump({"permissions": {"rules": [{"pattern": "**", "allow": "*"}]}}, file)
    options = two()
    outer, inner, file = options["mount"]
    body = """
        os.chdir('/workspace')
        return [attempt(lambda: open('way/on/place/own', 'a').write('!')), attempt(lambda: open('way/on/beside').read()), attempt(lambda: open('other/x', 'a').write('!'))]
    """
    equal(guest_value(body, mount=[f"{outer}:{rules['closed']}", f"{inner}:{rules['open']}"]), ["ok", "EACCES", "EACCES"])
    equal(guest_value(body, mount=[f"{outer}:{rules['open']}", f"{inner}:{rules['closed']}"]), ["EACCES", "ok", "ok"])


WATCH = """
import os, sys
def look():
    def read(path):
        try: return open(path).read()
        except OSError as e: return os.strerror(e.errno)
    open('/workspace/way/on/place/written', 'a').write('x')
    print(sorted(os.listdir('/workspace/way/on/place')), read('/workspace/way/on/place/own'), read('/workspace/way/on/place/secret'), read('/workspace/way/on/file'), flush=True)
look()
for line in sys.stdin:
    look()
"""


def test_the_host_takes_the_place_away_and_puts_something_else_there():
    options = two()
    words = [w for m in options["mount"] for w in ("--mount", m)]
    cloche = start("run", "python", "-c", WATCH, *words, "--rule", ALL, stdin=subprocess.PIPE)

    def look():
        return cloche.stdout.readline().decode().strip()

    expected = "['d', 'own', 'written'] inner No such file or directory file"
    equal(look(), expected)

    def rename_the_way():
        os.rename("outer/way", "outer/elsewhere")

    def put_a_link():
        os.symlink(os.path.abspath("outer/elsewhere"), "outer/way")

    def put_a_file():
        os.unlink("outer/way")
        make({"way": "a file"}, "outer")

    def put_another_way():
        os.unlink("outer/way")
        make({"way/on/place/secret": "another", "way/on/file/x": "now a directory"}, "outer")

    for change in (rename_the_way, put_a_link, put_a_file, put_another_way):
        change()
        cloche.stdin.write(b"\n")
        cloche.stdin.flush()
        equal(look(), expected, change.__name__)
    cloche.stdin.close()
    equal(cloche.wait(60), 0)
    equal((open("inner/written").read(), open("outer/way/on/place/secret").read(), open("outer/elsewhere/on/place/secret").read()), ("x" * 5, "another", "the host's"))


def test_the_host_replaces_the_one_file():
    directory = make({"f": "old", "other": "other"}, "single")
    code = "import sys\nprint(open('/x').read(), flush=True)\nfor line in sys.stdin:\n  try: print(open('/x').read(), flush=True)\n  except OSError as e: print(e.strerror, flush=True)"
    cloche = start("run", "python", "-c", code, "--mount", f"/x={directory}/f", stdin=subprocess.PIPE)
    equal(cloche.stdout.readline(), b"old\n")

    def swap(what):
        what()
        cloche.stdin.write(b"\n")
        cloche.stdin.flush()
        return cloche.stdout.readline().decode().strip()

    def put_a_new_one():
        make({"new": "new"}, "single")
        os.rename("single/new", "single/f")

    def put_a_link():
        os.unlink("single/f")
        os.symlink("other", "single/f")

    equal(swap(put_a_new_one), "new")
    equal(swap(put_a_link), "Stale file handle", "a link is not followed")
    cloche.stdin.close()
    equal(cloche.wait(60), 0)


def test_processes_of_the_box_alone_are_left_when_the_guest_begins():
    """The process that attached the mount has the rights of the box's namespace: it is gone before the guest starts."""
    result = guest("""
        left = [pid for pid in os.listdir('/proc') if pid.isdigit()]
        status = [line for pid in left for line in open(f'/proc/{pid}/status') if line.startswith('CapEff')]
        return [sorted(map(int, left)) == sorted([1, os.getpid()]), sorted(set(line.split()[1] for line in status))]
    """, **two())
    equal(result.value, [True, ["0000000000000000"]], result)
