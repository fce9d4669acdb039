"""Backups with squashfs-tools in the sandbox and without: the kind of archive, restoring either
kind, and the message about a missing program."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, served

NEW = {"X-Sandbox-Id": "x"}
WITHOUT = "mksquashfs() { return 127; }; command() { case \"$*\" in *squashfs*) return 1;; *) builtin command \"$@\";; esac; }"


def test_either_kind():
    made_now = set()
    with served() as (_, http):
        def run(command, expected=0):
            status, result = http.post(BASE + "/api/execute", NEW, command=command)
            assert status == 200 and result["exitCode"] == expected, result
            return result["stdout"]

        def create(kind, **more):
            status, made = http.post(BASE + "/api/backup/create", NEW, dir="/app/p", archivePath="/var/backups/b." + kind, excludes=["*.log"], **more)
            assert status == 200 and made["format"] == kind and str(made["sizeBytes"]) == run(f"stat -c %s /var/backups/b.{kind}").strip(), made
            made_now.add("b." + kind)
            assert set(run("ls -A /var/backups").split()) == made_now | {"b.squashfs.tar"}, "nothing is left between"
            assert run("cat /var/backups/b.squashfs.tar") == "the user's\n", "and nothing else goes"

        def restore(kind, into="/app/p"):
            return http.post(BASE + "/api/backup/restore", NEW, dir=into, archivePath="/var/backups/b." + kind)

        run("mkdir -p /app/p/sub && cd /app/p && echo one > one && echo two > sub/two && ln -s one link && ln one hard && echo x > a.log && chmod 750 sub && cp /bin/true 'a \\ b'; cd /; echo \"the user's\" > /var/backups/b.squashfs.tar")
        has_tools = "yes" in run("builtin command -v mksquashfs unsquashfs >/dev/null && echo yes; true")
        assert has_tools or os.environ.get("CLOCHE_MUST_WORK") != "1", "squashfs-tools is not there"
        if has_tools:
            create("squashfs")
            create("squashfs", compression={"format": "gzip", "threads": 4})
        run(WITHOUT)
        create("tar.zst")
        for kind in ["tar.zst"] + ["squashfs"] * has_tools:
            run("unset -f command mksquashfs")
            run("rm -r /app/p/sub; echo changed > /app/p/one; echo later > /app/p/later")
            for into in ("/app/p", "/other/place"):
                assert restore(kind, into)[0] == 200
                found = run(f"cd {into} && cat one sub/two && readlink link && stat -c '%a %h' sub hard && ls -A; cd /")
                assert found == "one\ntwo\none\n750 2\n644 2\na \\ b\nhard\nlink\none\nsub\n", found
            run("head -c 200 /var/backups/b.%s > /var/backups/b.cut" % kind)
            status, error = restore("cut")
            assert status >= 400 and error["code"] == "BACKUP_RESTORE_FAILED", error
            assert run("cat /app/p/one; ls -A /app/p | grep cloche; true") == "one\n", "it changes nothing"
        if has_tools:
            run(WITHOUT)
            status, error = restore("squashfs")
            assert status == 500 and "install squashfs-tools" in error["message"], error
        status, error = http.post(BASE + "/api/backup/create", NEW, dir="/app/p", archivePath="/var/backups/c", compression={"format": "xz"})
        assert status == 400 and "gzip, lz4 or zstd" in error["message"], error
