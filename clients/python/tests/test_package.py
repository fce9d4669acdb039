"""The package: installed without a network, typed, and with correct documentation."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

from tests.real import program

HERE = pathlib.Path(__file__).resolve().parents[1]
EXAMPLES = HERE.parents[1] / "examples"


def run(*command, python_path=HERE, **options):
    environment = {**os.environ, "CLOCHE_DAEMON": program(), "PYTHONPATH": str(python_path)}
    return subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, env=environment, **options)


SLOW = re.compile(r"^Executing <.*> took [0-9.]+ seconds\n", re.M)  # -X dev: asyncio's warning on a busy machine


def complaints(done):
    return SLOW.sub("", done.stderr)


class Documents(unittest.TestCase):
    def test_the_examples_of_the_readme_run(self):
        blocks = re.findall(r"^```python\n(.*?)^```$", (HERE / "README.md").read_text(), re.M | re.S)
        self.assertEqual(len(blocks), 6)
        said = []
        for block in blocks:
            self.assertLessEqual(len(block.strip().splitlines()), 12)
            done = run(sys.executable, "-X", "dev", "-W", "error", "-c", block)
            self.assertEqual((done.returncode, complaints(done)), (0, ""), block)
            said.append(done.stdout)
        self.assertEqual(said[0], "5\nerror ZeroDivisionError: division by zero\n")
        self.assertEqual(said[1], "['a 0', 'a 1', 'a 2', 'b 0', 'b 1', 'b 2']\n")
        self.assertEqual(said[2], "[1, 2, 3]\n")
        self.assertIn("report.txt", said[3])
        self.assertEqual(said[4], "hello there\n\nb'1\\n2\\n3\\n' 0\nready killed\n")
        self.assertTrue(said[5].startswith("3 ['text/plain', 'text/html']\n0"), said[5])
        self.assertTrue(said[5].endswith("2 3 ZeroDivisionError: division by zero\n"), said[5])

    def test_every_public_name_says_what_it_is(self):
        import cloche
        for name in cloche.__all__:
            self.assertTrue(hasattr(cloche, name), name)
        nouns = [getattr(cloche, way + noun) for way in ("", "Async") for noun in ("Sandbox", "Session", "Process", "Context")]
        for noun in nouns:
            for name in [name for name in vars(noun) if not name.startswith("_") and name not in ("name", "id")]:
                self.assertTrue(getattr(noun, name).__doc__ or name in ("sessions", "processes", "stat", "exists", "ports", "info"), name)
        for client in (cloche.Cloche, cloche.AsyncCloche):
            for name in ("call", "script", "evaluate", "prefix", "sync", "plan_sync", "drop_changes", "prefixes", "find_prefix", "guards"):
                self.assertTrue(getattr(client, name).__doc__, name)


class Licence(unittest.TestCase):
    def test_both_packages_carry_it(self):
        source = pathlib.Path(__file__).resolve().parents[3]
        text = (source / "LICENSE").read_text()
        self.assertIn("MIT License", text)
        for client in ("python", "typescript"):
            self.assertEqual((source / "clients" / client / "LICENSE").read_text(), text, client)
        project = tomllib.loads((source / "clients/python/pyproject.toml").read_text())
        package = json.loads((source / "clients/typescript/package.json").read_text())
        self.assertEqual([project["project"]["license"]["text"], package["license"]], ["MIT", "MIT"])
        self.assertEqual(project["tool"]["setuptools"]["license-files"], ["LICENSE"])
        self.assertIn("LICENSE", package["files"])
        self.assertTrue(project["project"]["urls"]["Repository"] and package["repository"]["url"])


class Examples(unittest.TestCase):
    def example(self, name, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = run(sys.executable, "-X", "dev", str(EXAMPLES / name), *words, cwd=folder)
        if done.returncode == 77 and os.environ.get("CLOCHE_MUST_WORK") != "1":
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.returncode, complaints(done)), (0, ""), done)
        return done.stdout

    def test_an_agent_with_tools(self):
        said = self.example("python-agent.py")
        self.assertIn("=> 6650.0\n", said)
        self.assertIn("=> NameError: name 'longest' is not defined", said)
        self.assertTrue(said.endswith("in miles?\n217\n"), said)

    def test_a_workspace_that_stays(self):
        said = self.example("python-sandbox.py")
        self.assertIn("exit 1\nTypeError", said)
        self.assertIn("exit 0\n6\n", said)
        self.assertIn("step 3\n", said)
        self.assertTrue(said.endswith("--- served\n200\n--- left\nfile total.py\nserver: killed\n"), said)

    def test_ways_tried_in_copies(self):
        said = self.example("python-context.py")
        self.assertIn("longest: 'Nile'\nmistake: AttributeError: ", said)
        self.assertTrue(said.endswith("drop: 0\nrows left: 4\n['text/plain', 'image/png', 'application/vnd.cloche.chart+json'] bar True\n"), said)

    def test_an_analysis_with_approval(self):
        said = self.example("python-approval.py", "--yes")
        self.assertIn("denied: modify /workspace/data/rivers.csv", said)
        self.assertIn("written: 2, left out: 0", said)
        self.assertIn("Africa: 6650 km", said)

    def test_an_analysis_without_approval(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "CLOCHE_DAEMON": program(), "PYTHONPATH": str(HERE)}
            done = subprocess.run([sys.executable, str(EXAMPLES / "python-approval.py")], input="n\nn\n", capture_output=True, text=True,
                                  timeout=120, env=environment, cwd=folder)
        if done.returncode == 77 and os.environ.get("CLOCHE_MUST_WORK") != "1":
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing was approved", done.stdout)


class Types(unittest.TestCase):
    def mypy(self, *words):
        done = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *words, cwd=HERE,
                   python_path=os.environ.get("PYTHONPATH", HERE))
        if "No module named mypy" in done.stderr:
            if os.environ.get("CLOCHE_MUST_WORK") == "1":
                self.fail(done.stderr)
            self.skipTest("no mypy here")
        return done.stdout

    def test_the_package_is_clean(self):
        self.assertIn("Success: no issues found", self.mypy("cloche"))

    def test_users_are_told_what_is_wrong_and_nothing_else(self):
        found = {int(line) for line in re.findall(r"^tests/typed\.py:(\d+): error", self.mypy("tests/typed.py"), re.M)}
        lines = (HERE / "tests/typed.py").read_text().splitlines()
        self.assertEqual(found, {number for number, line in enumerate(lines, 1) if "# wrong: " in line})


class Installing(unittest.TestCase):
    def test_with_what_debian_has_and_no_network(self):
        """The built package is complete: it runs from elsewhere, and is marked as typed."""
        python = "/usr/bin/python3"
        if run(python, "-c", "import setuptools, wheel, pip").returncode:
            if os.environ.get("CLOCHE_MUST_WORK") == "1":
                self.fail("no setuptools, wheel and pip")
            self.skipTest("no setuptools, wheel and pip of Debian's here")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "source")
            source.mkdir()
            for name in ("cloche", "pyproject.toml", "README.md"):
                subprocess.run(["cp", "-r", str(HERE / name), str(source)], check=True)
            done = run(python, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-index", "--no-deps", "--target",
                       folder + "/there", str(source))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(pathlib.Path(folder, "there/cloche/py.typed").exists())
            done = run(python, "-c", "import cloche\nwith cloche.Cloche() as c: print(cloche.__file__, c.call('python', '6 * 7').value)",
                       python_path=folder + "/there", cwd=folder)
            self.assertEqual(done.stdout.split(), [folder + "/there/cloche/__init__.py", "42"], done.stderr)


if __name__ == "__main__":
    unittest.main()
