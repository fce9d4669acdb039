"""The image store through both clients, against the real daemon."""
import asyncio
import io
import os
import random
import re
import subprocess
import tarfile
import tempfile
import unittest

import cloche

from . import real


def archive(*files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def shell():
    """An image with bash and its libraries."""
    libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", "/usr/bin/bash"], capture_output=True, text=True, check=True).stdout)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "lib", "lib64"):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "usr/" + name
            tar.addfile(link)
        # Cloche's part of bash has two more.
        more = [os.path.join(os.path.dirname(path), name) for path in libraries if "/libc.so" in path for name in ("libpthread.so.0", "libdl.so.2")]
        for path in ("/usr/bin/bash", *libraries, *filter(os.path.exists, more)):
            tar.add(os.path.realpath(path), "usr" + path.removeprefix("/usr"))
    return out.getvalue()


class StoreCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.store = os.path.join(self.folder, "images")
        os.mkdir(self.store, 0o700)

    def options(self, changes="owner"):
        return {"daemon": real.program(), "daemon_options": ["--images", self.store, "--image-changes", changes]}

    def leftovers(self):
        return os.listdir(os.path.join(self.store, "incoming"))


class Images(StoreCase):
    def test_an_image_comes_and_goes(self):
        path = os.path.join(self.folder, "archive.tar")
        data = archive(("etc/marker", b"1"), ("data", random.Random(1).randbytes(3 << 20)))
        with open(path, "wb") as file:
            file.write(data)
        with cloche.Cloche(**self.options()) as client:
            self.assertEqual(client.images(), [])
            made = client.import_image(path, "tools:1")
            self.assertEqual((made.name, made.is_new, made.entries), ("tools:1", True, 4))
            again = client.import_image(io.BytesIO(data), "tools:2")
            self.assertEqual((again.id, again.is_new), (made.id, False))
            found = client.image("tools:1")
            self.assertEqual((found.tree, sorted(found.names), found.size), (made.tree, ["tools:1", "tools:2"], made.size))
            self.assertEqual(client.images(), [found])
            self.assertTrue(client.verify_image(made.tree).is_whole)
            client.delete_image("tools:1")
            client.delete_image("tools:2")
            self.assertEqual(client.images(), [])
            self.assertEqual(client.prune_images()["leftovers"], 0)

    def test_refusals(self):
        with cloche.Cloche(**self.options()) as client:
            client.import_image(io.BytesIO(archive(("a", b"1"))), "tools:1")
            with self.assertRaisesRegex(cloche.NotFoundError, "did you mean 'tools:1'"):
                client.image("tols:1")
            with self.assertRaisesRegex(cloche.NotFoundError, "did you mean 'tools:1'"):
                client.call("python", "return 1", image="tools:2")
            for source in (b"no archive", b"x" * (3 << 20), b""):
                with self.assertRaises(cloche.BadArchiveError):
                    client.import_image(io.BytesIO(source), "bad")
            with self.assertRaises(cloche.InvalidArgumentError):
                client.import_image(io.BytesIO(archive(("a", b"1"))), "Bad")
            with self.assertRaises(cloche.InvalidArgumentError):
                client.image("")
            with self.assertRaises(cloche.UnreadableFileError):
                client.import_image(os.path.join(self.folder, "nowhere"), "x")
            self.assertEqual([image.names for image in client.images()], [("tools:1",)])
            self.assertEqual(self.leftovers(), [])
        with cloche.Cloche(**self.options("none")) as client:
            for act in (lambda: client.import_image(io.BytesIO(archive(("a", b"1"))), "x"), lambda: client.delete_image("tools:1"), client.prune_images):
                with self.assertRaisesRegex(cloche.ForbiddenError, "--image-changes"):
                    act()
            self.assertEqual(len(client.images()), 1)

    def test_warm_and_settings(self):
        settings = {"env": {"A": "1"}}
        with cloche.Cloche(**self.options()) as client:
            made = client.import_image(io.BytesIO(shell()), "shell")
            [one] = client.warm_image("shell", "sh")
            self.assertEqual((one.language, one.is_new, one.memory_bytes > 0), ("bash", True, True))
            self.assertEqual([one.is_new for one in client.warm_image("shell", "bash")], [False])
            with self.assertRaisesRegex(cloche.MissingRuntimeError, "the image has no interpreter for python"):
                client.warm_image("shell", "bash", "python")
            with self.assertRaisesRegex(cloche.InvalidArgumentError, "expected 1 to"):
                client.warm_image("shell")
            self.assertEqual(client.script("bash", 'echo "$A"', image=made.tree, image_settings=settings).stdout, "1\n")
            self.assertEqual(client.script("bash", 'echo "$A"', image=made.tree).stdout, "\n")
            self.assertTrue(client.warm_image(made.tree, "bash", image_settings={"env": {"A": "2"}})[0].is_new)
            with client.sandbox("named", image="shell") as box:
                self.assertEqual((box.info().image_name, box.info().packages), ("shell", {}))
            with client.sandbox("set", image=made.tree, image_settings=settings) as box:
                self.assertEqual((box.exec('echo "$A"').stdout, box.info().image_name), ("1\n", None))
            with self.assertRaisesRegex(cloche.InvalidArgumentError, "HOME"):
                client.call("bash", "f() { :; }", "f", image=made.tree, image_settings={"env": {"HOME": "/"}})
            kept = client.prune_images(keep_bytes=0)
            self.assertEqual((kept["images"], kept["inUse"], [image.names for image in client.images()]), (0, 1, [("shell:latest",)]))

    def test_a_source_that_fails_in_the_middle(self):
        class Broken(io.RawIOBase):
            pieces = 3

            def read(self, size=-1):
                self.pieces -= 1
                if self.pieces == 0:
                    raise OSError("the disk is gone")
                return bytes(size)

        with cloche.Cloche(**self.options()) as client:
            with self.assertRaisesRegex(OSError, "the disk is gone"):
                client.import_image(Broken(), "lost")
            self.assertEqual(client.images(), [])

    def test_asyncio(self):
        async def act():
            async with cloche.AsyncCloche(**self.options()) as client:
                made = await client.import_image(io.BytesIO(archive(("a", random.Random(1).randbytes(3 << 20)))), "tools")
                self.assertEqual((made.name, (await client.image("tools")).tree), ("tools:latest", made.tree))
                self.assertTrue((await client.verify_image("tools")).is_whole)
                with self.assertRaises(cloche.BadArchiveError):
                    await client.import_image(io.BytesIO(b"no archive"), "bad")
                await client.delete_image("tools")
                self.assertEqual(await client.images(), [])
                self.assertEqual((await client.prune_images(keep_bytes=1 << 40))["images"], 0)
                with self.assertRaisesRegex(cloche.NotFoundError, "there is no image"):
                    await client.warm_image("tools", "python")
        asyncio.run(act())
