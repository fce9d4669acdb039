"""Env, WorkingDir and User of an image are kept, noted, or refused; lookups never leave the tree."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal
from store import Image, Store, describe, directory, file, link, tar

BASE = [directory("./"), directory("etc"), file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbroken\napp:x:1001:1002:,,:/home/app:/bin/sh\napp:x:7:7::/:\n"),
        file("etc/group", "root:x:0:\nstaff:x:50:app\n"), directory("srv/app"), file("srv/file"), link("srv/away", "/srv/app"), directory("srv/closed", mode=0o700),
        directory("srv/closed/inner")]


def settings(s, config, members=BASE):
    """The notes of an import, which are those of inspect, and the settings."""
    notes = s.load(Image([tar(members)], config))["notes"]
    found = s.ask("inspect", name="x")
    equal(found["notes"], notes)
    return found, "\n".join(notes)


def test_kept_members():
    with Store() as s:
        found, notes = settings(s, {"Env": ["PATH=/opt/bin:/bin", "A=1", "A=2", "LINES=a\nb", "EMPTY=", "LD_PRELOAD=/x.so"], "WorkingDir": "//srv/./app/"})
        equal(found["env"], {"PATH": "/opt/bin:/bin", "A": "2", "LINES": "a\nb", "EMPTY": "", "LD_PRELOAD": "/x.so"})
        equal((found["workingDirectory"], notes, found.get("user")), ("/srv/app", "", None))
        equal(settings(s, {"WorkingDir": ""})[0].get("workingDirectory"), None)


def test_variables():
    with Store() as s:
        found, notes = settings(s, {"Env": ["HOME=/root", "USER=root", "BASH_ENV=/x", "CLOCHE=0", "A-B=1", "=x", "NONE", "1A=1", "é=1", "B=\x1b[2J"]})
        equal(found["env"], {"B": "\x1b[2J"})
        for name in ("HOME=/root", "USER=root", "BASH_ENV=/x", "CLOCHE=0"):
            assert f"Env {name} is left out: the variable belongs to the box" in notes, notes
        for name in ("A-B=1", "=x", "NONE", "1A=1", "é=1"):
            assert f"Env {name} is left out: its name" in notes, notes
        _, notes = settings(s, {"Env": ["é" * 300]})
        assert "é" * 40 + " is left out" in notes, notes
        s.refused(Image([tar(BASE)], {"Env": [f"A{i}=1" for i in range(100_000)]}), "Env", "100000 variables")
        s.refused(Image([tar(BASE)], {"Env": ["A=" + "x" * 70_000]}), "Env", "bytes")
        s.refused(Image([tar(BASE)], {"Env": ["A=\0"]}), "Env", "NUL")
        s.refused(Image([tar(BASE)], {"WorkingDir": "/srv\0"}), "WorkingDir", "NUL")
        s.refused(Image([tar(BASE)], {"Env": [1]}), "Env")


def test_working_directories():
    with Store() as s:
        for given in ("../..", "/srv/../..", "srv/app", "/" + "x/" * 600):
            found, notes = settings(s, {"WorkingDir": given})
            assert "workingDirectory" not in found and "no absolute path" in notes and "/workspace" in notes, (given, found)
        for given, why in (("/srv/file", "no directory"), ("/srv/file/x", "no directory"), ("/srv/closed/inner", "keeps the box's user out"), ("/root", "of their own"),
                           ("/home/app", "of their own"), ("/proc/self", "of their own"), ("/srv/" + "n" * 300, "too long")):
            found, notes = settings(s, {"WorkingDir": given})
            assert "workingDirectory" not in found and why in notes, (given, notes)
        for given in ("/srv/app", "/srv/away", "/workspace/sub", "/tmp", "/home/cloche/x", "/", "/etc"):
            found, notes = settings(s, {"WorkingDir": given})
            equal((found["workingDirectory"], notes), (given, ""))


def test_a_missing_working_directory_is_made():
    with Store() as s:
        before = s.load(tar(BASE), "plain")["tree"]
        found, notes = settings(s, {"WorkingDir": "/app/data"})
        equal((found["workingDirectory"], notes), ("/app/data", ""))
        tree = describe(s.tree())
        equal((tree["app"][:2], tree["app/data"][:2]), (("d", 0o755), ("d", 0o755)))
        assert found["tree"] != before
        equal(s.ask("verify", name="x")["isWhole"], True)
    with Store() as other:  # the same image is the same tree
        equal(settings(other, {"WorkingDir": "/app/data"})[0]["tree"], found["tree"])


def test_links_of_a_working_directory_stay_in_the_tree():
    """Nothing is made through a link, and a link leads nowhere else than it does in a box."""
    with Store() as s:
        outside = os.path.join(s.folder, "outside")
        os.mkdir(outside)
        members = [*BASE, link("out", outside), link("up", "../../../../" + outside), link("loop", "loop")]
        for given in ("/out", "/out/new", "/up/new", "/loop/new", "/srv/away/new"):
            found, notes = settings(s, {"WorkingDir": given}, members)
            assert "workingDirectory" not in found and notes, (given, found)
        equal(os.listdir(outside), [])
        equal(settings(s, {"WorkingDir": "/rooted"}, [*BASE, link("rooted", "/../../srv/app")])[0]["workingDirectory"], "/rooted")


def test_users():
    with Store() as s:
        for given, uid, gid, name in (("app", 1001, 1002, "app"), ("1001", 1001, 1002, "app"), ("app:staff", 1001, 50, "app"), ("app:7", 1001, 7, "app"), ("5000", 5000, 0, None),
                                      ("root", 0, 0, "root"), ("0:0", 0, 0, "root"), ("4294967294:1", 4294967294, 1, None)):
            found, notes = settings(s, {"User": given})
            equal((found["user"]["stated"], found["user"]["uid"], found["user"]["gid"], found["user"].get("name")), (given, uid, gid, name))
            if 0 < uid < 4294967294:
                equal((found["runsAs"], notes), ({"uid": uid, "gid": gid, "name": name or "cloche", "home": "/home/app" if name else "/home/cloche"}, ""))
            else:
                assert "runsAs" not in found and f"User {given} ({uid}:{gid}): code runs as the box's user cloche (1000:1000), for " in notes, notes
        equal(settings(s, {"User": "app"})[0]["user"]["home"], "/home/app")
        for given in ("ghost", "app:ghost", "4294967295", "99999999999", "-1", ":", "app\n", "x" * 300, "broken"):
            found, notes = settings(s, {"User": given})
            assert "user" not in found and "is not in /etc/passwd" in notes, (given, found)


def test_lists_of_users_that_are_no_files_of_the_tree():
    with Store() as s:
        outside = s.write("outside", b"ghost:x:1:1::/:/bin/sh\n")
        others = [member for member in BASE if member[0].name != "etc/passwd"]
        for passwd in (link("etc/passwd", outside), link("etc/passwd", "/etc/passwd"), directory("etc/passwd"), file("etc/passwd", "x" * 3 + "\0" * 100),
                       file("etc/passwd", "ghost:x:1:1::/:/bin/sh\n" + "#" * (1 << 20))):
            found, notes = settings(s, {"User": "ghost"}, [*others, passwd])
            assert "user" not in found and "ghost is not in" in notes, (passwd[0], notes)
        for passwd in ([link("etc/passwd", "real"), file("etc/real", "ghost:x:1:1::/:\n")], [link("etc/passwd", "/srv/rows"), file("srv/rows", "ghost:x:1:1::/:\n")]):
            equal(settings(s, {"User": "ghost"}, [*others, *passwd])[0]["user"]["uid"], 1)


def test_a_huge_list_of_users():
    """It is not read: a hole of a GiB."""
    with Store() as s:
        path = s.write("root/etc/passwd", b"") if os.makedirs(os.path.join(s.folder, "root", "etc")) is None else None
        os.truncate(path, 1 << 30)
        equal(s.load(os.path.join(s.folder, "root"), "big")["notes"], [])
        found, notes = settings(s, {"User": "ghost"}, [*BASE[:2], file("etc/passwd", b"a:x:1:1::/:\n" * 90_000)])
        assert "user" not in found and "is not in" in notes, found


def test_the_store_of_an_ordinary_user():
    with Store(user=12345) as s:
        found, notes = settings(s, {"WorkingDir": "/srv/closed/inner", "User": "app"})
        equal((found["workingDirectory"], found["user"]["uid"]), ("/srv/closed/inner", 1001), "the files are the user's")
        found, notes = settings(s, {"WorkingDir": "/srv/app/new"}, [*BASE, directory("srv/app", mode=0o555)])
        equal((found["workingDirectory"], notes.count("\n")), ("/srv/app/new", 0))


def test_a_record_without_settings():
    """Records of earlier versions have none: they are looked up at the request."""
    with Store() as s:
        config = {"WorkingDir": "/srv/app", "Env": ["A=1"], "User": "app"}
        found, _ = settings(s, config)
        [name] = os.listdir(s.path + "/images")
        with open(f"{s.path}/images/{name}") as record:
            old = {key: value for key, value in json.load(record).items() if key not in ("env", "workingDirectory", "user", "notes")}
        with open(f"{s.path}/images/{name}", "w") as record:
            json.dump(old, record)
        equal(s.ask("inspect", name="x"), found)
        equal(s.ask("list")["images"], [found])
        equal(s.load(Image([tar(BASE)], config), "again")["notes"], found["notes"])


def test_homes_and_names_that_boxes_do_not_show():
    """The writable home is the box's, and its name is one part of a path."""
    rows = "a:x:1:1::/srv/app:\nb:x:2:2::/home/../etc:\nc:x:3:3::/home/c/d:\n$d:x:4:4::/home/d:\ne:x:5:5:::\nf:x:6:6::/home/cloche:\n"
    members = [*BASE[:2], file("etc/passwd", rows), *BASE[3:]]
    with Store() as s:
        for given, name, home, is_told in (("a", "a", None, True), ("b", "b", None, True), ("c", "c", None, True), ("$d", None, "/home/d", False), ("e", "e", None, False), ("f", "f", None, False)):
            found, notes = settings(s, {"User": given}, members)
            equal((found["runsAs"]["name"], found["runsAs"]["home"]), (name or "cloche", home or "/home/cloche"))
            equal(notes, f"User {given}: its home is /home/cloche, which can be written" if is_told else "")
