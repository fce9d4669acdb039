"""Guards around cloche-egress itself, after it has read bytes that a guest chose."""
import os
import subprocess

import cloche


def test_what_it_may_ask_the_kernel():
    finished = subprocess.run([os.path.join(cloche.BUILD, "tests", "try-egress-guard")], capture_output=True, text=True, timeout=20)
    assert finished.returncode == 0 and not finished.stdout, finished
