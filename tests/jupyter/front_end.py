"""Shared by tests of Jupyter kernels: kernelspecs in a directory of the test's, and Debian's jupyter_client on them."""
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
from cloche import BUILD, CLI, HANG
from patience import PATIENCE

if subprocess.run(["/usr/bin/python3", "-c", "import jupyter_client, jupyter_kernel_test, nbclient"], stderr=subprocess.DEVNULL).returncode:
    cloche.skip("Debian's python3-jupyter-kernel-test and python3-nbclient are missing")


def environment(directory, socket=None):
    """The environment of front ends: kernelspecs, connection files and everything else below the directory."""
    env = {**os.environ, "JUPYTER_PATH": os.path.join(directory, "share/jupyter"), "JUPYTER_RUNTIME_DIR": os.path.join(directory, "run"), "JUPYTER_CONFIG_DIR": os.path.join(directory, "etc"),
           "JUPYTER_DATA_DIR": os.path.join(directory, "data"), "IPYTHONDIR": os.path.join(directory, "ipython"), "HOME": directory, "XDG_RUNTIME_DIR": directory,
           "CLOCHE_DAEMON": os.path.join(BUILD, "cloched"), "CLOCHE_LIBEXEC": BUILD, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    env.pop("CLOCHE_SOCKET", None)
    if socket:
        env["CLOCHE_SOCKET"] = socket
    os.makedirs(os.path.join(directory, "run"), mode=0o700, exist_ok=True)
    return env


def install(directory, *options):
    """The paths of the kernelspecs."""
    done = subprocess.run([CLI, "jupyter", "install", "--prefix", directory, *options], env=environment(directory), capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextlib.contextmanager
def process_environment(env):
    """jupyter_client reads its directories from that of this process."""
    saved = dict(os.environ)
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@contextlib.contextmanager
def kernel(name, env, **options):
    """A kernel's manager and a client whose channels are open."""
    from jupyter_client.manager import KernelManager
    with process_environment(env):
        manager = KernelManager(kernel_name=name, **options)
        manager.start_kernel(env=env)
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=HANG)
            yield manager, client
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
            manager.cleanup_resources()


def run(client, code, **options):
    """The reply and the messages that came before idle, but for those of the state."""
    messages = []
    reply = client.execute_interactive(code, output_hook=messages.append, timeout=HANG, **{"allow_stdin": False, **options})
    return reply, [(message["msg_type"], message["content"]) for message in messages if message["msg_type"] not in ("status", "execute_input")]


def printed(messages, stream="stdout"):
    return "".join(content["text"] for kind, content in messages if kind == "stream" and content["name"] == stream)
