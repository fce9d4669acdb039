"""A Jupyter kernel (Debian's python3-ipykernel, driven by python3-jupyter-client): the peer of
contexts in bench/context.py. No walls around it: a process of the caller."""
import os
import shutil
import subprocess

PACKAGES = ["python3-ipykernel", "python3-jupyter-client"]
HANG_S = 120


class Unavailable(Exception):
    """It is not available; the text has the reason."""


def install():
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # otherwise its debugger prints advice
    try:
        import ipykernel, jupyter_client  # noqa: F401
        return
    except ImportError:
        pass
    if os.geteuid() or not shutil.which("apt-get"):
        raise Unavailable(f"{' and '.join(PACKAGES)} are not installed")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]
    for step in (command, ["apt-get", "update", "-qq"], command):
        if subprocess.run(step, env=environment, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0 and step is command:
            return
    raise Unavailable(f"{' '.join(command)} failed")


class Kernel:
    """One of its processes, with a client."""

    def __init__(self):
        from jupyter_client.manager import KernelManager
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=HANG_S)

    @property
    def pid(self):
        return self.manager.provisioner.process.pid

    def messages(self, code):
        """Kind and content of its messages about a cell, as they come, to the end."""
        number = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=HANG_S)
            if message["parent_header"].get("msg_id") != number:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            yield message["msg_type"], message["content"]
        reply = self.client.get_shell_msg(timeout=HANG_S)
        while reply["parent_header"].get("msg_id") != number:
            reply = self.client.get_shell_msg(timeout=HANG_S)
        yield "reply", reply["content"]

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
