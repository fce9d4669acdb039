"""The shared vectors of frames, cut at every position, and invalid JSON."""
import json
import pathlib
import random
import unittest

from cloche import _frames, errors

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "vectors" / "frames.json"


def read(data, cuts=()):
    """All frames of the stream, which comes in pieces; and the number of buffered bytes."""
    reader, frames = _frames.FrameReader(), []
    bounds = [0, *sorted(cuts), len(data)]
    for begin, end in zip(bounds, bounds[1:]):
        frames += reader.feed(data[begin:end])
    return frames, reader.unfinished


class Vectors(unittest.TestCase):
    def check(self, vector, cuts):
        data = bytes.fromhex(vector["hex"])
        if "error" in vector:
            with self.assertRaises(errors.ClocheError) as caught:
                read(data, cuts)
            self.assertEqual(caught.exception.name, vector["error"])
            return
        frames, unfinished = read(data, cuts)
        self.assertEqual([(frame.json.decode(), frame.attachments.hex()) for frame in frames],
                         [(frame["json"], frame["attachments"]) for frame in vector["frames"]])
        self.assertEqual(unfinished > 0, vector["more"])

    def test_whole_and_byte_for_byte(self):
        for vector in json.loads(VECTORS.read_text()):
            with self.subTest(vector["name"]):
                self.check(vector, ())
                self.check(vector, range(len(vector["hex"]) // 2))

    def test_written_as_read(self):
        for vector in json.loads(VECTORS.read_text()):
            if "error" not in vector and not vector["more"]:
                written = [_frames.write_frame(frame["json"].encode(), [bytes.fromhex(frame["attachments"])])
                           for frame in vector["frames"]]
                self.assertEqual(b"".join(written).hex(), vector["hex"])


class Cuts(unittest.TestCase):
    def test_random_frames_in_random_pieces(self):
        dice = random.Random(7)
        for _ in range(300):
            frames = [(dice.randbytes(dice.choice((0, 1, 9, 300))),
                       [dice.randbytes(dice.choice((0, 5, 5000))) for _ in range(dice.randrange(3))]) for _ in range(dice.randrange(6))]
            data = b"".join(_frames.write_frame(*frame) for frame in frames)
            cuts = [dice.randrange(len(data) + 1) for _ in range(dice.randrange(20))]
            got, unfinished = read(data, cuts)
            self.assertEqual(got, [(text, b"".join(parts)) for text, parts in frames])
            self.assertEqual(unfinished, 0)

    def test_noise_is_refused_or_waited_for(self):
        dice, refused = random.Random(11), 0
        for _ in range(2000):
            data = dice.randbytes(dice.randrange(1, 40))
            try:
                read(data)
            except (errors.ProtocolError, errors.TooLargeError):
                refused += 1
        self.assertGreater(refused, 1000)

    def test_a_head_alone_costs_no_memory(self):
        reader = _frames.FrameReader()
        self.assertEqual(list(reader.feed((1 << 30).to_bytes(4, "little") + bytes(4))), [])
        self.assertEqual(reader.unfinished, 8)


class Json(unittest.TestCase):
    def test_what_is_none(self):
        for text in (b"", b"{", b"nul", b"NaN", b"[1]x", b"\xff", b"[" * 100_000, b"1" * 10_000):
            with self.subTest(text[:10]):
                self.assertRaises(errors.ProtocolError, _frames.parse_json, text)

    def test_text_as_it_is(self):
        self.assertEqual(_frames.write_json({"a": "ä\u2028"}).decode(), '{"a":"ä\u2028"}')


if __name__ == "__main__":
    unittest.main()
