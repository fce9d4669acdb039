"""Visible files of the host: lazily, eagerly, or only named ones; files over a size bound are left
out, and the result says so."""
import os
from cloche import equal
from mounts import at, call, make, rules, state, tree

state()
FILES = {"a": "1" * 100, "b": "2" * 1000, "sub/c": "3" * 100, "sub/d": "4" * 5000, "e.log": "5" * 10}


def load(loading, acts="return sorted(p for p in args[0] if attempt(get, '/data/' + p) == 'ok')", **options):
    make(FILES)
    result = call(acts, at(rules=rules({"loading": loading})), args=[list(FILES)], **options)
    equal(result.status, "success", result)
    return result.value, result.meta["warnings"]


def test_each_mode_without_bounds_has_all():
    for mode in ("lazy", "eager"):
        equal(load({"mode": mode}), (sorted(FILES), []))


def test_explicit_has_what_is_included():
    equal(load({"mode": "explicit", "include": ["sub/**", "a"]}), (["a", "sub/c", "sub/d"], []))
    equal(load({"mode": "explicit", "include": []}), ([], []))
    equal(load({"mode": "explicit", "include": ["*.log"]}, "return sorted(os.listdir('/data'))")[0], ["e.log"])


def test_files_over_their_bound_are_left_out_with_a_warning():
    for mode in ("lazy", "eager"):
        there, warnings = load({"mode": mode, "maxFileSize": 1000})
        equal(there, ["a", "b", "e.log", "sub/c"])
        assert len(warnings) == 1 and warnings[0].startswith("/data/sub/d: "), warnings


def test_all_together_over_their_bound():
    there, warnings = load({"mode": "eager", "maxTotalSize": 1200})
    equal(there, ["a", "b", "e.log"], warnings)
    assert sorted(w.split(": ")[0] for w in warnings) == ["/data/sub/c", "/data/sub/d"], warnings
    there, warnings = load({"mode": "lazy", "maxTotalSize": 1200})
    equal((there, sorted(w.split(": ")[0] for w in warnings)), (["a", "b", "sub/c"], ["/data/e.log", "/data/sub/d"]), "(in the order they are touched)")


def test_lazily_the_error_of_what_does_not_fit_any_more():
    value, _ = load({"mode": "lazy", "maxTotalSize": 1000}, "return [attempt(get, '/data/b'), attempt(get, '/data/a')]")
    equal(value, ["ok", "EFBIG"])


def test_what_is_left_out_is_not_there():
    value, _ = load({"mode": "eager", "maxFileSize": 1000},
                    "return [attempt(os.stat, '/data/sub/d'), os.listdir('/data/sub'), attempt(put, '/data/sub/d', 'x')]")
    equal(value, ["ENOENT", ["c"], "EACCES"])


def test_making_what_is_left_out_asks_for_modify():
    make(FILES)
    mount = at(rules=rules({"permissions": {"default": {"create": True}}, "loading": {"mode": "eager", "maxFileSize": 1000}}))
    equal(call("return [attempt(put, '/data/sub/d', 'x'), attempt(put, '/data/sub/new', 'x')]", mount).value, ["EACCES", "ok"])
    mount = at(rules=rules({"permissions": {"default": {"modify": True}}, "loading": {"mode": "eager", "maxFileSize": 1000}}))
    result = call("return attempt(put, '/data/sub/d', 'x')", mount, sync="manual")
    equal((result.value, result.paths("modified"), result.paths("created")), ("ok", ["/data/sub/d"], []))


def test_it_is_the_hosts_file_when_it_is_touched():
    source = make({"a": "old"})
    os.chmod(source, 0o755)
    equal(call("return get('/data/a')").value, "old")
    make({"a": "new"})
    equal(call("return get('/data/a')").value, "new")
    equal(tree(), {"a": b"new"})


def test_more_than_the_box_has_memory_can_be_read():
    make({"large": b"\0" * (96 << 20)})
    equal(call("""
        with open("/data/large", "rb") as file:
            return sum(len(piece) for piece in iter(lambda: file.read(1 << 20), b""))
    """, memory=64).value, 96 << 20)
