"""Volumes through both clients, against the real daemon. Skipped where it has none."""
import asyncio
import os
import tempfile
import unittest

import cloche

from . import real

SMALL = 16 << 20


class Volumes(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
            self.skipTest("volumes need root and loop devices")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o711)
        self.options = {"daemon": real.program(), "daemon_options": ["--state-dir", f"{folder.name}/state", "--volumes", f"{folder.name}/volumes"]}

    def test_two_sandboxes_share_one(self):
        with cloche.Cloche(**self.options) as client:
            made = client.create_volume("data", SMALL, labels={"of": "tests"})
            self.assertEqual((made.volume, made.size_bytes, made.labels, made.used_by, made.usage), ("data", SMALL, {"of": "tests"}, (), None))
            with client.sandbox(volumes=[cloche.VolumeMount("data", "/data")]) as one, \
                    client.sandbox(volumes=[{"name": "data", "path": "/data", "readOnly": True}]) as two:
                one.exec("echo shared > /data/f")
                self.assertEqual(two.exec("cat /data/f; echo x > /data/f || echo closed").stdout, "shared\nclosed\n")
                self.assertEqual(two.info().volumes, (cloche.VolumeMount("data", "/data", True),))
                found = client.volume("data")
                self.assertEqual(len(found.used_by), 2)
                self.assertLess(found.usage["usedBytes"], found.usage["bytes"])
                with self.assertRaises(cloche.InvalidStateError):
                    client.delete_volume("data")
            self.assertEqual([row.volume for row in client.volumes()], ["data"])
            client.delete_volume("data")
            self.assertEqual(client.volumes(), [])
            with self.assertRaises(cloche.NotFoundError):
                client.volume("data")

    def test_the_asynchronous_client(self):
        async def go():
            async with cloche.AsyncCloche(**self.options) as client:
                await client.create_volume("data", SMALL)
                async with await client.sandbox(volumes=[cloche.VolumeMount("data", "/data")]) as box:
                    self.assertEqual((await box.exec("echo x > /data/f; cat /data/f")).stdout, "x\n")
                self.assertEqual([row.volume for row in await client.volumes()], ["data"])
                self.assertEqual((await client.volume("data")).used_by, ())
                await client.delete_volume("data")
        asyncio.run(go())
