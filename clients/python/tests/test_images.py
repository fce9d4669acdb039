"""The image store through both clients, against the real daemon."""
import asyncio
import io
import os
import random
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
                self.assertEqual((await client.prune_images())["images"], 0)
        asyncio.run(act())
