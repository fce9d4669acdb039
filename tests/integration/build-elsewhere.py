"""Building in a tree that is another user's: one line reports that, before anything is configured."""
import subprocess

from cloche import ORDINARY_USER, SOURCE, equal, need_ordinary_user


def test_another_user_in_roots_tree():
    need_ordinary_user()
    for target in ("all", "test", "demo"):
        finished = subprocess.run([*ORDINARY_USER, "make", "--no-print-directory", "-C", SOURCE, target], capture_output=True, text=True)
        lines = [line for line in finished.stderr.splitlines() if not line.startswith("make")]
        equal((finished.returncode, len(lines), finished.stdout), (2, 1, ""), finished)
        assert lines[0].startswith(f"{SOURCE} belongs to ") and "git clone" in lines[0], lines
