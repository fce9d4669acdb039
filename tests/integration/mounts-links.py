"""Symbolic links of the host: shown as they are, only within the mount, or not followed at all; never followed by us."""
from cloche import equal, write_file
from mounts import at, make, rules, state, tree, value_of

state()


def follow(policy):
    write_file("outside", "outside")
    source = make({"inside": "inside", "sub/a": "a", "near": ("inside",), "up": ("sub/../inside",), "down": ("sub",), "far": ("../outside",),
                   "absolute": ("/etc/hostname",), "dangling": ("nowhere",), "loop": ("loop",), "sub/back": ("../inside",)})
    make({"own": (f"{source}/inside",)})
    mount = at(rules=None if policy is None else rules({"security": {"followSymlinks": policy}}))
    names = ["near", "up", "down/a", "far", "absolute", "dangling", "loop", "own", "sub/back"]
    found = value_of("""
        return [[n, attempt(get, "/data/" + n), attempt(os.readlink, "/data/" + n), attempt(os.lstat, "/data/" + n)] for n in args[0]]
    """, mount, args=[names])
    return {row[0]: row[1:] for row in found}


def test_true_shows_them_as_they_are():
    for policy in (None, True):
        found = follow(policy)
        equal([found[n][0] for n in ("near", "up", "down/a", "own", "sub/back")], ["ok"] * 5, found)
        # Its target is looked for in the box, where the host's neighbour is not.
        equal([found[n][0] for n in ("far", "dangling", "loop")], ["ENOENT", "ENOENT", "ELOOP"], found)
        equal([found[n][1] for n in ("near", "far", "absolute", "dangling")], ["ok"] * 4, found)


def test_restricted_stays_inside():
    found = follow("restricted")
    equal([found[n][0] for n in ("near", "down/a", "own", "sub/back")], ["ok"] * 4, found)
    equal([found[n][0] for n in ("far", "absolute")], ["EACCES"] * 2, found)
    equal(found["up"][0], "EACCES", "(a .. behind a name may be anywhere)")


def test_false_follows_none():
    found = follow(False)
    equal([found[n][0] for n in ("near", "up", "down/a", "far", "absolute", "own", "sub/back")], ["ELOOP"] * 7, found)


def test_what_a_link_leads_to_inside_is_under_its_own_rules():
    make({"secret": "s", "alias": ("secret",)})
    equal(value_of("return [attempt(get, '/data/alias'), attempt(put, '/data/alias', 'x')]", rule="secret=-read,-modify"), ["EACCES", "EACCES"])


def test_links_that_the_guest_makes_lead_nowhere_on_the_host():
    write_file("outside", "outside")
    make({"a": "text"})
    found = value_of("""
        os.symlink("../outside", "/data/far"); os.symlink("/etc/passwd", "/data/absolute")
        return [attempt(put, "/data/far", "taken"), os.path.exists("/outside")]
    """, rule="**=*")
    equal(found, ["EROFS", False], "(it leads into the box's own root)")
    with open("outside") as file:
        equal(file.read(), "outside")
    equal(tree(), {"a": b"text", "far": ("../outside",), "absolute": ("/etc/passwd",)})


def test_a_link_is_changed_not_what_it_leads_to():
    write_file("outside", "outside")
    make({"a": "text", "far": ("../outside",)})
    value_of("os.remove('/data/far'); put('/data/far', 'mine')", rule="**=*")
    equal(tree(), {"a": b"text", "far": b"mine"})
    with open("outside") as file:
        equal(file.read(), "outside")
