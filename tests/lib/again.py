"""Run tests many times: tools/run-suite BUILD --again N. Tests of run-tests.py are repeated there;
here the others are, a file at a time."""
import collections
import concurrent.futures
import glob
import os
import re
import subprocess
import time

import npm_cache
import runtimes

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
BOUND = 900  # time limit for a file in seconds, on a busy machine too
SHARE_LINE = re.compile(r"^\d+ of \d+ failed: .*$", re.M)

TAP_FAILED = re.compile(r"^not ok \d+ - (.*?)(?: # .*)?$", re.M)
UNITTEST_FAILED = re.compile(r"^(?:FAIL|ERROR): (\S+ \(.*?\)|\S+)", re.M)
NODE_FAILED = re.compile(r"^ *not ok \d+ - (.*?)(?: # .*)?\n(?:.*\n)*?.*failureType: '(\w+)'", re.M)


def node_failed(output):
    """The failed tests themselves, not the suites around them."""
    return [name for name, why in NODE_FAILED.findall(output) if why != "subtestsFailed"]


# A file of tests: name, command, directory, environment, and the function that finds the failed tests in the output.
Row = collections.namedtuple("Row", "name command directory environment failed")


def unit_rows(build):
    environment = {"CLOCHE_TEST_VECTORS": os.path.join(SOURCE, "tests/vectors")}
    for program in sorted(glob.glob(f"{build}/tests/test-*")):
        if os.access(program, os.X_OK) and not os.path.isdir(program):
            yield Row("unit/" + os.path.basename(program), [program], SOURCE, environment, TAP_FAILED.findall)


def unittest_row(path, start, top, environment):
    command = [PYTHON, "-m", "unittest", "discover", "-s", start, "-t", top, "-p", os.path.basename(path)]
    return Row(os.path.relpath(path, SOURCE).removeprefix("tests/"), command, top, environment, UNITTEST_FAILED.findall)


def agent_rows(build):
    for path in sorted(glob.glob(f"{SOURCE}/tests/runtimes/*/test_*.py")):
        folder = os.path.dirname(path)
        yield unittest_row(path, folder, folder, {"CLOCHE_BUILD": build})
    for path in sorted(glob.glob(f"{SOURCE}/tests/runtimes/*/*.test.mjs")):
        command = ["node", "--experimental-vm-modules", "--no-warnings", "--test", "--test-reporter=tap", path]
        yield Row(os.path.relpath(path, SOURCE).removeprefix("tests/"), command, SOURCE, {}, node_failed)


def daemon_environment(build):
    """For tests of the clients: the built daemon, with bare runtimes."""
    return {"CLOCHE_DAEMON": os.path.join(build, "cloched"), "CLOCHE_LIBEXEC": build,
            "CLOCHE_RUNTIMES": runtimes.make_bare(build, os.path.join(build, "test-runtimes"))}


def client_rows(build):
    daemon = daemon_environment(build)
    python, typescript = f"{SOURCE}/clients/python", f"{SOURCE}/clients/typescript"
    for path in sorted(glob.glob(f"{python}/tests/test_*.py")):
        yield unittest_row(path, "tests", python, daemon)
    for path in sorted(glob.glob(f"{typescript}/test/**/*.test.mjs", recursive=True)):
        command = ["node", "--test", "--test-reporter=tap", "--test-timeout=400000", path]
        yield Row(os.path.relpath(path, SOURCE), command, typescript, daemon, node_failed)


def prepare_typescript():
    """The client is compiled once, before its tests."""
    folder = f"{SOURCE}/clients/typescript"
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    npm_cache.compile_client(folder)


def find_rows(build, is_wanted):
    rows = [row for rows in (unit_rows, agent_rows, client_rows) for row in rows(build) if is_wanted(row.name)]
    if any(row.name.startswith("clients/typescript/") for row in rows):
        prepare_typescript()
    return rows


def run_row(row):
    """(seconds, names of the failed tests, output)"""
    begun = time.monotonic()
    process = subprocess.Popen(row.command, cwd=row.directory, env={**os.environ, **row.environment}, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=BOUND)
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0] + f"still running after {BOUND} s\n"
    failed = sorted(set(row.failed(output)))
    if process.returncode and not failed:
        failed = [f"(the file: exit status {process.returncode})"]
    return time.monotonic() - begun, failed, output


def run_rows(rows, times, lanes):
    """Counter of failed tests by "file::test". The files take turns, so that each runs beside different ones."""
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(lanes) as pool:
        jobs = [(row, pool.submit(run_row, row)) for _ in range(times) for row in rows]
        try:
            for row, job in jobs:
                seconds, failed, output = job.result()
                print((f"{output.rstrip()}\nnot ok" if failed else "ok") + f" {row.name} ({seconds:.1f} s)", flush=True)
                counts.update(f"{row.name}::{name}" for name in failed)
        except BaseException:  # Ctrl-C: start nothing more
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return counts


def share_lines(counts, times):
    return [f"{count} of {times} failed: {name}" for name, count in counts.most_common()]
