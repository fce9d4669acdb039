"""Volumes: kept directories of a fixed size that several sandboxes of one principal mount."""
import os
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal, need_root
from http_client import Http
from rpc import Daemon, Frames, private_of_user
from volume_client import MIB, SMALL, Volumes, at, shell


def test_sandboxes_share_one_and_see_each_others_writes():
    with Volumes() as volumes, volumes.daemon() as daemon, daemon.frames() as frames:
        made = frames.call("volume.create", volume="data", sizeBytes=SMALL, labels={"of": "tests"})
        equal((made["volume"], made["sizeBytes"], made["labels"], made["usedBy"]), ("data", SMALL, {"of": "tests"}, []))
        created = frames.call("sandbox.create", sandbox="one", volumes=[at("/data")])
        equal(created["volumes"], [{"name": "data", "path": "/data"}])
        frames.call("sandbox.create", sandbox="two", volumes=[at("/workspace/in/it", readOnly=True)])
        equal(shell(frames, "echo one > /data/f; stat -c '%U:%G %a' /data /data/f; echo two >> /data/f", "one"), "cloche:cloche 755\ncloche:cloche 644\n")
        equal(shell(frames, "cat in/it/f; stat -c %U in/it/f", "two"), "one\ntwo\ncloche\n")
        assert "Read-only file system" in shell(frames, "echo x > in/it/f", "two") and "Read-only file system" in shell(frames, "rm in/it/f", "two")
        # A mapping and a lock of one are those of the other.
        equal(shell(frames, "exec 9> /data/lock; flock 9; echo locked", "one"), "locked\n")
        frames.call("sandbox.create", sandbox="three", volumes=[at("/data"), ])
        equal(shell(frames, "flock -n /data/lock echo mine || echo theirs", "three"), "theirs\n")
        # Contexts are in boxes beneath templates, with the sandbox's user; isolated sessions are in its namespaces.
        frames.call("context.create", sandbox="one", context="c", language="bash")
        equal(frames.call("context.run", sandbox="one", context="c", code="printf py > /data/py; cat /data/f")["stdout"], "one\ntwo\n")
        frames.call("session.create", sandbox="three", session="apart", isolation=True)
        equal(shell(frames, "cat /data/py; stat -c %U /data/py; echo more > /data/more", "three", session="apart"), "pycloche\n")
        equal(shell(frames, "cat in/it/more", "two"), "more\n")
        equal([(row["volume"], row["usedBy"]) for row in frames.call("volume.list")["volumes"]], [("data", ["one", "two", "three"])])
        usage = frames.call("volume.get", volume="data")["usage"]
        assert 0 < usage["usedBytes"] < usage["bytes"] < SMALL and 4 < usage["usedEntries"] < usage["entries"] == 1024, usage


def test_a_stop_keeps_it_and_the_saved_files_have_none_of_it():
    with Volumes() as volumes:
        with volumes.daemon() as daemon, daemon.frames() as frames:
            frames.call("volume.create", volume="data", sizeBytes=SMALL)
            frames.call("sandbox.create", sandbox="s", volumes=[at("/workspace/v")])
            shell(frames, "echo kept > v/f; head -c 1000000 /dev/urandom > v/big; echo own > f")
            frames.call("sandbox.stop", sandbox="s")
            volumes.wait_until_unused()  # nothing is mounted without a user
            assert os.path.getsize(volumes.at("state/0/s/files")) < 100000
            equal(shell(frames, "cat v/f f; ls v"), "kept\nown\nbig\nf\n")
        volumes.wait_until_unused()
        with volumes.daemon() as daemon, daemon.frames() as frames:
            equal(frames.call("sandbox.get", sandbox="s")["volumes"], [{"name": "data", "path": "/workspace/v"}])
            equal(shell(frames, "cat v/f f"), "kept\nown\n")


def test_its_bytes_are_reserved_and_it_has_a_journal():
    with Volumes() as volumes, volumes.daemon() as daemon, daemon.frames() as frames:
        frames.call("volume.create", volume="data", sizeBytes=SMALL)
        image = os.path.join(volumes.at("volumes"), *volumes.images())
        assert os.stat(image).st_blocks * 512 >= SMALL
        with open(image, "rb") as file:
            file.seek(1024 + 0x5c)  # s_feature_compat, s_feature_incompat
            compat, incompat = struct.unpack("<II", file.read(8))
        assert compat & 4 and incompat & 0x40, "has_journal, extents"
        frames.call("sandbox.create", sandbox="s", volumes=[at("/data")])
        shell(frames, "head -c 8000000 /dev/urandom > /data/f; sync /data/f; rm /data/f; fstrim /data; fallocate -d /data/f")
        frames.call("sandbox.stop", sandbox="s")
        volumes.wait_until_unused()
        assert os.stat(image).st_blocks * 512 >= SMALL, "a guest cannot give them back"


def test_blocks_that_the_host_keeps_for_root_are_not_taken():
    with Volumes() as volumes:
        os.mkdir(volumes.at("volumes"))
        with open("disk", "wb") as file:
            file.truncate(4 * SMALL)
        subprocess.run(["mkfs.ext4", "-q", "-m", "50", "disk"], check=True)
        subprocess.run(["mount", "-o", "loop", "disk", volumes.at("volumes")], check=True)
        try:
            os.chmod(volumes.at("volumes"), 0o700)
            os.rmdir(volumes.at("volumes/lost+found"))
            with volumes.daemon() as daemon, daemon.frames() as frames:
                refused = frames.refused("volume.create", volume="large", sizeBytes=2 * SMALL)
                equal((refused.name, refused.message), ("resource", f"reserve {2 * SMALL} bytes in the directory of volumes: No space left on device"))
                equal(frames.call("volume.create", volume="small", sizeBytes=SMALL)["volume"], "small")
                equal(len(volumes.images()), 1)
        finally:
            subprocess.run(["umount", volumes.at("volumes")], check=True)


def test_one_in_use_is_not_deleted():
    with Volumes() as volumes, volumes.daemon() as daemon, daemon.frames() as frames:
        frames.call("volume.create", volume="data", sizeBytes=SMALL)
        for name in ("running", "stopped"):
            frames.call("sandbox.create", sandbox=name, volumes=[at("/data")])
        frames.call("sandbox.stop", sandbox="stopped")
        refused = frames.refused("volume.delete", volume="data")
        equal((refused.name, refused.message), ("invalid_state", 'the volume "data" is used by 2 sandboxes: delete them first: running, stopped'))
        frames.call("sandbox.delete", sandbox="running")
        assert "by 1 sandbox: delete it first: stopped" in frames.refused("volume.delete", volume="data").message
        frames.call("sandbox.delete", sandbox="stopped")
        equal(len(volumes.images()), 1)
        frames.call("volume.delete", volume="data")
        equal((frames.call("volume.list")["volumes"], volumes.images()), ([], []))
        equal(frames.refused("volume.get", volume="data").name, "not_found")
        frames.call("volume.create", volume="data", sizeBytes=SMALL)
        frames.call("sandbox.create", sandbox="next", volumes=[at("/data")])
        equal(shell(frames, "ls -A /data", "next"), "")
        # A removal waits for a sandbox that is ending, and for requests that measure.
        numbers = [frames.ask("volume.get", volume="data"), frames.ask("sandbox.delete", sandbox="next"), frames.ask("volume.delete", volume="data")]
        equal([frames.wait(number).get("volume") for number in numbers], ["data", None, None])
        equal(volumes.images(), [])


def test_another_principal_cannot_name_list_or_delete_it():
    with Volumes() as volumes, volumes.daemon(tcp=True) as daemon, daemon.frames() as ours, Frames(daemon.connect_tcp(), token=daemon.token) as theirs:
        ours.call("volume.create", volume="data", sizeBytes=SMALL)
        equal(theirs.call("volume.list")["volumes"], [])
        for method, more in (("volume.get", {}), ("volume.delete", {})):
            there, nowhere = theirs.refused(method, volume="data", **more), theirs.refused(method, volume="none", **more)
            equal((there.name, there.message.replace("data", "none")), (nowhere.name, nowhere.message))
        equal(theirs.refused("sandbox.create", sandbox="s", volumes=[at("/data")]).name, "not_found")
        # A name is a principal's own.
        theirs.call("volume.create", volume="data", sizeBytes=SMALL)
        theirs.call("sandbox.create", sandbox="s", volumes=[at("/data")])
        ours.call("sandbox.create", sandbox="s", volumes=[at("/data")])
        shell(theirs, "echo theirs > /data/f")
        equal(shell(ours, "ls -A /data"), "")
        equal(ours.call("volume.get", volume="data")["usedBy"], ["s"])


def test_requests_that_are_refused():
    with Volumes() as volumes, volumes.daemon("--max-volumes", "2", "--volume-space", "40") as daemon, daemon.frames() as frames:
        for name in ("", "-x", "_x", "a/b", "..", "a.b", "x" * 64, "ä"):
            equal(frames.refused("volume.create", volume=name, sizeBytes=SMALL).name, "invalid_argument")
        for size in (0, SMALL - 1, 1 << 50):
            equal(frames.refused("volume.create", volume="data", sizeBytes=size).name, "invalid_argument")
        assert "at most 41943040" in frames.refused("volume.create", volume="data", sizeBytes=41 * MIB).message
        frames.call("volume.create", volume="data", sizeBytes=SMALL)
        equal(frames.refused("volume.create", volume="data", sizeBytes=SMALL).name, "invalid_state")
        equal(frames.refused("volume.create", volume="more", sizeBytes=25 * MIB).name, "queue_full")
        frames.call("volume.create", volume="more", sizeBytes=SMALL)
        assert "at most 2" in frames.refused("volume.create", volume="third", sizeBytes=SMALL).message
        for rows, word in (([at("/data", "none")], "no volume"), ([at("data")], "absolute"), ([at("/d/../e")], "without '.' and '..'"), ([{"name": "data"}], "name, path"),
                           ([at("/data", readOnly=1)], "readOnly"), ([at("/data", size=1)], '"size"'), (["data"], "name, path"), ([at("/usr/x")], "cover"),
                           ([at("/data"), at("/data", "more")], "two mounts"), ([at("/data"), at("/data/in", "more")], "beside"),
                           ([at(f"/d/{i}") for i in range(9)], "at most 8"), ([at("/" + "x" * 300)], "256")):
            refused = frames.refused("sandbox.create", sandbox="s", volumes=rows)
            assert word in refused.message and refused.name in ("invalid_argument", "not_found"), (rows, refused.message)
        equal(frames.call("sandbox.list")["sandboxes"], [])
        frames.call("sandbox.create", sandbox="s", volumes=[at("/d/a"), at("/d/b"), at("/d/c", "more", readOnly=True)])
        equal(shell(frames, "echo x > /d/a/f; cat /d/b/f; ls /d /d/c"), "x\n/d:\na\nb\nc\n\n/d/c:\n")


def test_beside_mounts_of_the_host():
    with Volumes() as volumes:
        os.mkdir(volumes.at("host"), 0o755)
        with open(volumes.at("host/f"), "w") as file:
            file.write("host")
        with volumes.daemon("--mount-root", volumes.path) as daemon, daemon.frames() as frames:
            frames.call("volume.create", volume="data", sizeBytes=SMALL)
            mount = {"dirs": {"/mnt/m": volumes.at("host"), "/mnt/m/in": volumes.at("host")}}
            refused = frames.refused("sandbox.create", sandbox="s", mount=mount, volumes=[at("/mnt/m/v")])
            assert "beside" in refused.message, refused.message
            frames.call("sandbox.create", sandbox="s", mount=mount, volumes=[at("/mnt/v"), at("/workspace/v", readOnly=True)])
            equal(shell(frames, "cat /mnt/m/f /mnt/m/in/f; echo -n v > /mnt/v/f; cat v/f"), "hosthostv")
            frames.call("context.create", sandbox="s", context="c", language="bash")
            equal(frames.call("context.run", sandbox="s", context="c", code="cat /mnt/m/in/f /mnt/v/f /workspace/v/f; echo x > /workspace/v/f")["stdout"], "hostvv")
            frames.call("sandbox.stop", sandbox="s")
            equal(shell(frames, "cat /mnt/m/f v/f"), "hostv")


def test_over_http():
    with Volumes() as volumes, volumes.daemon() as daemon, Http(daemon.connect()) as http:
        status, made = http.request("POST", "/v1/volumes", {"volume": "data", "sizeBytes": SMALL})
        equal((status, made["volume"]), (201, "data"))
        equal(http.request("POST", "/v1/volumes", {"volume": "data", "sizeBytes": SMALL})[0], 409)
        status, listed = http.request("GET", "/v1/volumes")
        equal((status, [row["volume"] for row in listed["volumes"]]), (200, ["data"]))
        status, one = http.request("GET", "/v1/volumes/data")
        assert status == 200 and one["usage"]["usedBytes"] < one["usage"]["bytes"], one
        equal(http.request("GET", "/v1/volumes/none")[0], 404)
        equal(http.request("GET", "/v1/volumes/..%2f..%2f0")[0], 400)
        equal(http.request("POST", "/v1/sandboxes", {"sandbox": "s", "volumes": [at("/data")]})[0], 201)
        equal(http.request("DELETE", "/v1/volumes/data")[0], 409)
        equal(http.request("DELETE", "/v1/sandboxes/s")[0], 200)
        equal(http.request("DELETE", "/v1/volumes/data")[0], 200)


def test_a_full_disk_leaves_nothing():
    with Volumes() as volumes:
        os.mkdir(volumes.at("volumes"), 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=0700", "tmpfs", volumes.at("volumes")], check=True)
        try:
            with volumes.daemon() as daemon, daemon.frames() as frames:
                refused = frames.refused("volume.create", volume="data", sizeBytes=64 * MIB)
                assert refused.name == "resource" and "No space left" in refused.message, refused.message
                equal((volumes.images(), os.listdir(volumes.at("state/0/.volumes")), frames.call("volume.list")["volumes"]), ([], [], []))
                frames.call("volume.create", volume="data", sizeBytes=SMALL)
                assert frames.refused("volume.create", volume="more", sizeBytes=32 * MIB).name == "resource"
                frames.call("sandbox.create", sandbox="s", volumes=[at("/data")])
                equal(shell(frames, "head -c 8000000 /dev/urandom > /data/f && sync /data/f && echo ok"), "ok\n")
            volumes.wait_until_unused()
        finally:
            subprocess.run(["umount", volumes.at("volumes")], check=True)


def test_daemons_without_volumes_say_so():
    need_root()
    for options, word in ((("--state-dir", ""), "state directory"), (("--volumes", ""), "--volumes")):
        with Daemon(*options) as daemon, daemon.frames() as frames:
            assert word in frames.refused("volume.create", volume="data", sizeBytes=SMALL).message
    with private_of_user("--state-dir", os.path.abspath("home/state"), "--volumes", os.path.abspath("home/volumes")) as (_, frames):
        refused = frames.refused("volume.create", volume="data", sizeBytes=SMALL)
        equal(refused.name, "forbidden")
        assert "daemon of root" in refused.message and not os.path.exists("home/volumes"), refused.message
        equal(frames.call("volume.list")["volumes"], [])
    with Volumes() as volumes, volumes.daemon() as daemon, daemon.frames() as frames:
        os.mkdir(volumes.at("volumes"), 0o755)
        assert "must be its user's alone" in frames.refused("volume.create", volume="data", sizeBytes=SMALL).message
        os.chmod(volumes.at("volumes"), 0o700)
        frames.call("volume.create", volume="data", sizeBytes=SMALL)
