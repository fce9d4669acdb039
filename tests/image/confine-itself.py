"""cloche-image has no more rights than its task needs, before it reads the first byte of a source."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from store import BUILD, Refused, Store, file, tar


def status_of(pid):
    with open(f"/proc/{pid}/status") as text:
        return dict(re.findall(r"^(\w+):\s*(.*)$", text.read(), re.M))


def test_capabilities_filter_and_descriptors():
    chown, dac, read_search, fowner = 1 << 0, 1 << 1, 1 << 2, 1 << 3
    for user, kept, words in ((None, chown | dac | fowner, ()), (None, read_search, ("read",)), (12345, 0, ()), (12345, 0, ("read",))):
        with Store(user=user) as s, s.process(words=words) as control:
            control.call("open")
            threads = os.listdir(f"/proc/{control.process.pid}/task")
            assert len(threads) == (1 if words else 2), threads  # the second one links files
            for thread in threads:
                facts = status_of(thread)
                assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == kept, facts
                if not user:
                    assert int(facts["CapBnd"], 16) == kept, facts
                assert int(facts["CapInh"], 16) == int(facts["CapAmb"], 16) == 0 and facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2", facts
            names = sorted(int(name) for name in os.listdir(f"/proc/{control.process.pid}/fd"))
            assert set(names) <= set(range(10)), names


def test_a_store_of_others_is_refused():
    for mode, owner in ((0o770, 0), (0o755, 0), (0o700, 12345)):
        with Store() as s:
            os.chown(s.path, owner, 0)
            os.chmod(s.path, mode)
            with s.process() as control:
                try:
                    control.call("open")
                    raise AssertionError(oct(mode))
                except Refused as e:
                    assert "its user's alone" in str(e), e
            assert os.listdir(s.path) == []


def test_nothing_before_it_is_confined():
    with Store() as s, s.process() as control:
        try:
            control.call("import", source="x", name="x")
            raise AssertionError("it was not confined")
        except Refused as e:
            assert "open" in str(e), e
        control.call("open")
        assert control.call("list") == {"images": []}


def test_acts_that_it_gave_up_and_acts_that_it_needs():
    for user in (None, 12345):
        with Store(user=user) as s:
            victim, source = s.write("victim", b"1"), os.path.join(s.folder, "source")
            os.mkdir(source)
            open(source + "/file", "w").close()
            for path in (victim, source, source + "/file"):
                os.chown(path, user or 0, 0)
            for words in ((), ("read",)):  # the reader finds the files of the other
                finished = subprocess.run([os.path.join(BUILD, "tests/try-image-confine"), s.path, source, victim, *words], capture_output=True, text=True, timeout=30,
                                          **({"user": user, "group": user, "extra_groups": []} if user else {}))
                assert finished.returncode == 0 and not finished.stdout, (user, words, finished)
            with open(victim) as text:
                assert text.read() == "1"


def test_a_reader_reads_and_changes_nothing():
    for user in (None, 12345):
        with Store(user=user) as s:
            with s.process(words=("read",)) as control:  # an empty store stays empty
                control.call("open")
                assert control.call("list") == {"images": []} and os.listdir(s.path) == []
                s.load(tar([file("a", "1", uid=5, mode=0o600)]))  # and it finds an image that came since
                assert control.call("resolve", name="x")["tree"] == control.call("list")["images"][0]["tree"]
                assert control.call("verify", name="x")["isWhole"]
            before = s.everything()
            with s.process(words=("read",)) as control:
                control.call("open")
                found = control.call("resolve", name="x")
                assert found["name"] == "x:latest" and found["tree"] == control.call("inspect", name="x")["tree"], found
                assert [row["names"] for row in control.call("list")["images"]] == [["x:latest"]]
                assert control.call("verify", name="x")["isWhole"]
                for method, params in (("import", {"source": "s", "name": "y"}), ("remove", {"name": "x"}), ("prune", {}), ("export", {"name": "x"})):
                    try:
                        control.call(method, **params)
                        raise AssertionError(method)
                    except Refused as e:
                        assert method in str(e), e
            assert s.everything() == before
            with s.process() as control:  # the twin
                control.call("open")
                assert control.call("remove", name="x")["imageRemoved"]


def test_a_name_that_is_not_there():
    with Store() as s:
        s.load(tar([file("a", "1")]), name="tools:1")
        for name, says in (("tols", "did you mean 'tools:1'?"), ("tools", "did you mean 'tools:1'?"), ("python", "cloche image import makes one")):
            with s.process(words=("read",)) as control:
                control.call("open")
                try:
                    control.call("resolve", name=name)
                    raise AssertionError(name)
                except Refused as e:
                    assert f"no image '{name}:latest'" in str(e) and says in str(e), e
