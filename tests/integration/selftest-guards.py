"""cloche selftest names every guard of spec/guards.def with its state and, unless enforced, the reason."""
import json
import re
from cloche import ORDINARY_USER, cli, equal, need_ordinary_user, need_root, spec_rows


def guard_names():
    return [row["name"] for row in spec_rows("CLOCHE_GUARD")]


def guards(**keywords):
    """name -> {state, reason} from the JSON, whichever of array and object it is."""
    finished = cli("selftest", "--json", **keywords)
    parsed = json.loads(finished.stdout)
    rows = parsed["guards"] if isinstance(parsed, dict) and "guards" in parsed else parsed
    if isinstance(rows, dict):
        return rows
    return {row.get("name") or row["guard"]: row for row in rows}


def test_every_guard_has_a_line():
    text = cli("selftest").stdout.decode()
    for name in guard_names():
        line = [x for x in text.splitlines() if x.split()[:1] == [name]]
        equal(len(line), 1, name)
        assert re.search(r"enforced|degraded|absent|off", line[0]), line


def test_json_has_every_guard():
    rows = guards()
    equal(sorted(rows), sorted(guard_names()))
    for name, row in rows.items():
        assert row["state"] in ("enforced", "degraded", "absent", "off"), row
        assert row["state"] == "enforced" or row["reason"], f"{name} gives no reason"


def test_the_host_is_described():
    host = json.loads(cli("selftest", "--json").stdout)["host"]
    text = cli("selftest").stdout.decode()
    equal([row["name"] for row in host], [row["name"] for row in spec_rows("CLOCHE_HOST")])
    for row in host:
        line = next(line for line in text.splitlines() if line.split()[:1] == [row["name"]])
        equal(line.split()[1], "present" if row["present"] else "absent")
        assert row["present"] or ((row["detail"] or row["since"]) in line and row["without"] in line), line


def test_a_fuse_that_ordinary_users_may_not_open_is_told():
    need_ordinary_user()
    hidden = ["unshare", "-m", "sh", "-ec", 'mount -t tmpfs none /mnt; mknod -m 600 /mnt/fuse c 10 229; mount --bind /mnt/fuse /dev/fuse; exec "$@"', "sh"]

    def fuse(*under):
        host = json.loads(cli("selftest", "--json", under=under).stdout)["host"]
        return next(row for row in host if row["name"] == "fuse")
    told = fuse(*hidden, *ORDINARY_USER)
    assert not told["present"] and "this user may not open /dev/fuse (mode 0600, of user 0): chmod 0666" in told["detail"], told
    assert fuse(*hidden)["present"], "root may"


def test_as_root_all_is_enforced():
    need_root()
    missing = {n: r for n, r in guards().items() if r["state"] not in ("enforced", "off")}
    equal(missing, {})
    finished = cli("selftest")
    equal(finished.code, 0, finished)


def test_an_ordinary_user_is_told_what_is_missing():
    need_ordinary_user()
    rows = guards(under=ORDINARY_USER)
    assert any(r["state"] not in ("enforced", "off") for r in rows.values()), rows
    equal(rows["mount-namespace"]["state"], "enforced")
    equal(rows["seccomp"]["state"], "enforced")
