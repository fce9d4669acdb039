"""What is generated is what the tables say, and every class can be had by its name."""
import builtins
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import cloche
from cloche import errors, limits

from tests.tables import SOURCE, spec_tables


class Tables(unittest.TestCase):
    def test_current(self):
        checked = subprocess.run([sys.executable, str(SOURCE / "tools/spec"), "--check"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_the_check_sees_a_change(self):
        with tempfile.TemporaryDirectory() as copy:
            for part in ("tools", "spec", "docs", "man", "clients/python/cloche", "clients/typescript/src/generated"):
                shutil.copytree(SOURCE / part, pathlib.Path(copy, part))
            for table in ("errors", "limits"):
                path = pathlib.Path(copy, "spec", table + ".def")
                path.write_text(path.read_text().replace('."', '!"'))
            checked = subprocess.run([sys.executable, copy + "/tools/spec", "--check"], capture_output=True, text=True)
        stale = re.findall(r"^not ok .* - (\S+) is not", checked.stdout, re.M)
        self.assertEqual(checked.returncode, 1)
        self.assertLessEqual({"clients/python/cloche/errors.py", "clients/python/cloche/limits.py"}, set(stale))

    def test_a_class_for_each_row(self):
        rows = [(row["name"], row["fault"], row["http"], row["text"]) for row in spec_tables()["CLOCHE_ERROR"]]
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
        names = [(row["field"], row["json"]) for row in spec_tables()["CLOCHE_LIMIT"]]
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
