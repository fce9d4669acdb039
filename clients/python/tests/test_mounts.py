"""Host directories under rules, and the treatment of changes. Skipped if the daemon supports none of it."""
import asyncio
import contextlib
import functools
import os
import pathlib
import shutil
import tempfile
import unittest

import cloche
from tests.real import program

WRITE = "def f():\n    open('data/a.csv', 'a').write('2')\n    open('data/new.csv', 'w').write('n')"
RULES = cloche.Permissions(rules=[cloche.Rule("*.csv", allow=["create", "modify", "delete"])])


@functools.cache
def missing():
    """Return None, or the reason why this daemon has no mounts or cannot write changes."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        pathlib.Path(folder).chmod(0o755)
        client = stack.enter_context(cloche.Cloche(daemon=program()))
        try:
            mount = cloche.Mount({"/workspace/data": folder}, RULES, sync=cloche.Sync("manual"))
            client.sync(client.call("python", "open('data/new.csv', 'w').close()", mount=mount).changes)
        except (cloche.HostFault, cloche.UnknownMethodError) as error:
            return f"no mounts or no sync here: {error}"
        except cloche.InvalidArgumentError as error:
            if "not supported" not in str(error):
                raise
            return f"no mounts here: {error}"
    return None


class MountCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = missing()
        if reason and os.environ.get("CLOCHE_MUST_WORK") == "1":
            raise AssertionError(reason)
        if reason:
            raise unittest.SkipTest(reason)
        cls.client = cloche.Cloche(daemon=program())
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        (self.folder / "a.csv").write_text("1")
        (self.folder / "keep.txt").write_text("kept")

    def mount(self, mode="batch", **options):
        return cloche.Mount({"/workspace/data": self.folder}, options.pop("permissions", RULES), sync=options.pop("sync", cloche.Sync(mode)), **options)

    def there(self):
        return {path.name: path.read_text() for path in self.folder.iterdir()}

    def test_a_file_under_another_name_and_a_mount_in_another(self):
        inner = self.folder / "inner"
        inner.mkdir()
        mount = cloche.Mount({"/workspace/data": self.folder, "/workspace/data/deep/in": inner, "/workspace/one": self.folder / "a.csv"},
                             cloche.Permissions(rules=[cloche.Rule("**", allow=["*"])]))
        code = "def f():\n    open('data/deep/in/new', 'w').write('in')\n    open('one', 'a').write('2')\n    return open('one').read()"
        result = self.client.call("python", code, mount=mount)
        self.assertEqual((result.value, (inner / "new").read_text(), (self.folder / "a.csv").read_text()), ("12", "in", "12"))
        self.assertFalse((self.folder / "deep").exists())

    UNTOUCHED = {"a.csv": "1", "keep.txt": "kept"}
    WRITTEN = {"a.csv": "12", "new.csv": "n", "keep.txt": "kept"}


class Sandboxes(MountCase):
    def test_a_sandbox_with_a_mount(self):
        with self.client.sandbox(mount=self.mount()) as box:
            self.assertEqual(box.exec("cat data/a.csv data/keep.txt").stdout, "1kept")
            self.assertEqual(box.exec("echo 2 >> data/a.csv; cat data/a.csv").stdout, "12\n")
            self.assertIn("Permission denied", box.exec("echo > data/keep.txt").stderr)
            self.assertEqual(self.there(), self.UNTOUCHED)
            (mount,) = box.info().mounts
            self.assertEqual((mount.path, mount.source, mount.state), ("/workspace/data", str(self.folder), "mounted"))
            box.stop()
            self.assertEqual([mount.state for mount in box.info().mounts], ["stopped"])
            self.assertEqual(box.exec("cat data/a.csv; echo 2 >> data/a.csv").stdout, "1")
            self.assertEqual(box.stop(sync=cloche.Sync(conflict="refuse")).raw["sync"]["synced"], ["/workspace/data/a.csv"])
            self.assertEqual(self.there(), {**self.UNTOUCHED, "a.csv": "12\n"})
            self.assertEqual(box.exec("cat data/a.csv").stdout, "12\n")
        with self.assertRaisesRegex(cloche.InvalidArgumentError, "mount.sync"):
            self.client.sandbox(mount=self.mount("manual"))
        with self.client.sandbox() as box:
            self.assertEqual(box.info().mounts, ())


class Batch(MountCase):
    def test_changes_are_written_after_the_run(self):
        result = self.client.call("python", WRITE, mount=self.mount())
        result.unwrap()
        self.assertEqual(self.there(), self.WRITTEN)
        self.assertEqual(sorted(map(str, result.sync.synced)), sorted(map(str, result.raw["sync"]["synced"])))
        self.assertEqual(len(result.sync.synced), 2)
        self.assertEqual([(change.path, change.content) for change in result.changes.modified], [("/workspace/data/a.csv", "12")])

    def test_links_that_lead_out(self):
        code = "def f():\n    import os\n    os.symlink('/etc/passwd', 'data/out.csv')\n    os.symlink('a.csv', 'data/in.csv')"
        for links, made in (("inside", {"in.csv"}), (None, {"in.csv", "out.csv"})):
            sync = cloche.Sync("batch", on_error="continue", links=links)
            result = self.client.call("python", code, mount=cloche.Mount({"/workspace/data": self.folder}, RULES, sync=sync))
            result.unwrap()
            found = {path.name for path in self.folder.iterdir() if path.is_symlink()}
            self.assertEqual((found, len(result.sync.failed)), (made, 2 - len(made)))
            for path in self.folder.iterdir():
                if path.is_symlink():
                    path.unlink()

    def test_not_after_one_that_failed(self):
        result = self.client.call("python", WRITE + "\n    1 / 0", mount=self.mount())
        self.assertEqual((result.error.type, self.there()), ("ZeroDivisionError", self.UNTOUCHED))

    def test_each_change_may_be_skipped(self):
        seen = []

        def before(change):
            seen.append(change.path)
            return cloche.Skip("not this one") if change.path.endswith("new.csv") else None
        result = self.client.call("python", WRITE, mount=self.mount(), before_sync=before)
        self.assertEqual(sorted(seen), ["/workspace/data/a.csv", "/workspace/data/new.csv"])
        self.assertEqual(self.there(), {"a.csv": "12", "keep.txt": "kept"})
        self.assertEqual(len(result.sync.skipped), 1)

    def test_abort_writes_nothing(self):
        result = self.client.call("python", WRITE, mount=self.mount(), before_sync=lambda change: cloche.Abort("no"))
        self.assertEqual((self.there(), result.sync.synced), (self.UNTOUCHED, []))
        self.assertEqual(result.sync.aborted, "no")
        self.assertEqual(sorted((row["path"], row["reason"]) for row in result.sync.skipped),
                         [("/workspace/data/a.csv", "aborted"), ("/workspace/data/new.csv", "aborted")])

    def test_an_abort_that_the_mount_does_not_allow_skips_its_change(self):
        def before(change):
            return cloche.Abort("not this one") if change.path.endswith("new.csv") else None
        result = self.client.call("python", WRITE, mount=self.mount(sync=cloche.Sync(allow_abort=False)), before_sync=before)
        self.assertEqual((self.there(), result.sync.aborted), ({"a.csv": "12", "keep.txt": "kept"}, None))
        self.assertEqual([(row["path"], row["reason"]) for row in result.sync.skipped], [("/workspace/data/new.csv", "not this one")])

    def test_a_question_that_fails_aborts_also_where_no_abort_is_allowed(self):
        with self.assertRaises(ZeroDivisionError):
            self.client.call("python", WRITE, mount=self.mount(sync=cloche.Sync(allow_abort=False)), before_sync=lambda change: 1 / 0)
        self.client.stats()
        self.assertEqual(self.there(), self.UNTOUCHED)

    def test_a_question_that_fails_writes_nothing(self):
        with self.assertRaises(ZeroDivisionError):
            self.client.call("python", WRITE, mount=self.mount(), before_sync=lambda change: 1 / 0)
        self.client.stats()
        self.assertEqual(self.there(), self.UNTOUCHED)

    def test_what_was_written_is_told(self):
        seen = []
        self.client.call("python", WRITE, mount=self.mount(), after_sync=seen.append)
        self.assertEqual(sorted((outcome.path, outcome.success) for outcome in seen),
                         [("/workspace/data/a.csv", True), ("/workspace/data/new.csv", True)])

    def test_coroutines_decide_too(self):
        async def main():
            async def before(change):
                await asyncio.sleep(0)
                return "skip"
            async with cloche.AsyncCloche(daemon=program()) as client:
                await client.call("python", WRITE, mount=self.mount(), before_sync=before)
        asyncio.run(main())
        self.assertEqual(self.there(), self.UNTOUCHED)


class Rules(MountCase):
    def test_what_they_forbid_fails_and_is_told(self):
        seen = []
        result = self.client.call("python", "open('data/keep.txt', 'w')", mount=self.mount(), on_permission_denied=seen.append)
        self.assertEqual(result.error.type, "PermissionError")
        self.assertEqual([(denial.path, denial.operation) for denial in result.changes.denied], [("/workspace/data/keep.txt", "modify")])
        self.assertEqual([denial.path for denial in seen], ["/workspace/data/keep.txt"])
        self.assertEqual(self.there(), self.UNTOUCHED)

    def test_a_denial_by_default_has_the_rule_that_permits_it(self):
        def write(*rules):
            return self.client.call("python", "open('data/keep.txt', 'w').close()", mount=self.mount("manual", permissions=cloche.Permissions(rules=rules)))

        [denial] = write().changes.denied
        self.assertEqual((denial.rule, denial.allow), (None, [{"pattern": "keep.txt", "allow": ["modify"]}]))
        permitted = write(*(cloche.Rule(**row) for row in denial.allow))
        self.assertEqual((permitted.error, permitted.changes.denied), (None, []))
        [denial] = write(cloche.Rule("keep.txt", deny="modify")).changes.denied
        self.assertEqual((denial.rule, denial.allow), ("keep.txt", []))

    def test_what_they_permit_works(self):
        self.assertEqual(self.client.call("python", "open('data/keep.txt').read()", mount=self.mount()).unwrap(), "kept")


class Manual(MountCase):
    def test_nothing_is_written_until_it_is_asked_for(self):
        changes = self.client.call("python", WRITE, mount=self.mount("manual")).changes
        self.assertEqual(self.there(), self.UNTOUCHED)
        plan = self.client.plan_sync(changes)
        self.assertEqual((len(plan.steps), self.there()), (2, self.UNTOUCHED))
        report = self.client.sync(changes)
        self.assertEqual((len(report.synced), report.failed, self.there()), (2, [], self.WRITTEN))

    def test_questions_of_a_sync(self):
        changes = self.client.call("python", WRITE, mount=self.mount("manual")).changes
        told = []
        report = self.client.sync(changes, before_sync=lambda change: "skip" if change.type == "created" else None, after_sync=told.append)
        self.assertEqual((self.there(), len(report.synced), len(report.skipped)), ({"a.csv": "12", "keep.txt": "kept"}, 1, 1))
        self.assertEqual([outcome.path for outcome in told], ["/workspace/data/a.csv"])

    def test_changes_that_are_dropped(self):
        changes = self.client.call("python", WRITE, mount=self.mount("manual")).changes
        self.client.drop_changes(changes)
        with self.assertRaises(cloche.NotFoundError):
            self.client.sync(changes)
        self.assertEqual(self.there(), self.UNTOUCHED)

    def test_what_the_host_has_changed_in_the_meantime(self):
        changes = self.client.call("python", WRITE, mount=self.mount("manual")).changes
        (self.folder / "a.csv").write_text("the host's")
        report = self.client.sync(changes, on_error="continue")
        self.assertEqual(((self.folder / "a.csv").read_text(), len(report.conflicts)), ("the host's", 1))

    def test_without_a_change_set(self):
        mount = self.mount("manual")
        changes = self.client.call("python", WRITE, mount=mount).changes
        self.client.sync(changes.created, mount)
        self.assertEqual(self.there(), {"a.csv": "1", "keep.txt": "kept", "new.csv": "n"})


class Files(MountCase):
    def test_paths_are_read_back(self):
        result = self.client.call("python", "open('out', 'wb').write(b'\\xff')", collect=["out", "nowhere"])
        out, nowhere = result.collected
        self.assertEqual((out.content, out.kind, nowhere.content), (b"\xff", "file", None))
        self.assertTrue(nowhere.error)

    def test_directories_and_links(self):
        result = self.client.call("python", "import os\n[os.path.isdir('d'), os.readlink('l')]",
                                  files={"d": cloche.Directory(), "t": "x", "l": cloche.Symlink("t")})
        self.assertEqual(result.unwrap(), [True, "t"])


if __name__ == "__main__":
    unittest.main()
