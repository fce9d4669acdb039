"""Generated files agree with the tables, and every class is exported."""
import builtins
import pathlib
import pickle
import re
import subprocess
import sys
import unittest

import cloche
from cloche import errors, limits

HERE = pathlib.Path(__file__).resolve().parents[1]
SPEC = HERE.parents[1] / "spec"


class Tables(unittest.TestCase):
    def test_current(self):
        checked = subprocess.run([sys.executable, str(HERE / "tools/generate"), "--check"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_the_check_sees_a_change(self):
        source = (HERE / "tools/generate").read_text()
        space = {"__name__": "generate", "__file__": str(HERE / "tools/generate")}
        exec(compile(source, "generate", "exec"), space)
        self.assertEqual(space["errors"](), (HERE / "cloche/errors.py").read_text())
        row = space["rows"]
        space["rows"] = lambda *args: [[*line[:-1], line[-1] + "!"] for line in row(*args)]
        self.assertNotEqual(space["errors"](), (HERE / "cloche/errors.py").read_text())
        self.assertNotEqual(space["limits"](), (HERE / "cloche/limits.py").read_text())

    def test_a_class_for_each_row(self):
        text = (SPEC / "errors.def").read_text()
        rows = re.findall(r'^CLOCHE_ERROR\(\w+, "(\w+)", (\w+), (\d+), "(.*)"\)$', text, re.M)
        self.assertGreater(len(rows), 20)
        self.assertEqual({name for name, *_ in rows}, set(errors.BY_NAME))
        for name, fault, http, said in rows:
            kind = errors.BY_NAME[name]
            self.assertEqual((kind.name, kind.fault, kind.http, kind.__doc__), (name, fault, int(http), said))
            self.assertTrue(issubclass(kind, cloche.ClocheError))
            self.assertIs(getattr(cloche, kind.__name__), kind)

    def test_those_of_pythons_own_names_are_pythons_too(self):
        for name in ("TimeoutError", "FileNotFoundError", "FileExistsError"):
            kind = getattr(cloche, name)
            self.assertTrue(issubclass(kind, getattr(builtins, name)) and kind is not getattr(builtins, name), name)
            self.assertEqual(str(kind("said")), "said")
            self.assertEqual(str(pickle.loads(pickle.dumps(kind("said", data={"a": 1})))), "said")

    def test_every_limit(self):
        names = re.findall(r'^CLOCHE_LIMIT\((\w+), "(\w+)"', (SPEC / "limits.def").read_text(), re.M)
        self.assertEqual(dict(names), limits.JSON_NAMES)
        self.assertEqual([field for field, _ in names], list(limits.Limits.__dataclass_fields__))

    def test_errors_pickle(self):
        error = cloche.PrefixError("set-up failed", data={"failure": {"type": "ValueError", "message": "m", "stack": "s"}})
        back = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(back), str(back), back.name), (cloche.PrefixError, "set-up failed", "prefix"))
        self.assertEqual((back.failure.type, back.failure.stack), ("ValueError", "s"))
        late = pickle.loads(pickle.dumps(cloche.RunTimeoutError("late")))
        self.assertEqual((str(late), late.result), ("late", None))


if __name__ == "__main__":
    unittest.main()
