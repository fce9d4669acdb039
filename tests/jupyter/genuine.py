"""Debian's jupyter_kernel_test, nbclient, nbconvert and console, unmodified, on kernels of all languages: one daemon for all."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from front_end import HANG, environment, install, process_environment
from rpc import Daemon

TIMEOUT = 240

SAMPLES = {
    "python": {
        "language_name": "python", "file_extension": ".py", "code_hello_world": "print('hello, world')", "code_stderr": "import sys; print('x', file=sys.stderr)",
        "code_generate_error": "raise ValueError('x')", "code_execute_result": [{"code": "6*7", "result": "42"}, {"code": "'a' 'b'", "result": "'ab'"}, {"code": "6*7", "result": "42"}, {"code": "6*7", "result": "42"}],
        "code_display_data": [{"code": "from IPython.display import HTML, display; display(HTML('<b>x</b>'))", "mime": "text/html"}], "code_clear_output": "from IPython.display import clear_output; clear_output()",
        "completion_samples": [{"text": "zi", "matches": {"zip"}}], "code_inspect_sample": "zip", "complete_code_samples": ["1", "x = [\n1]"], "incomplete_code_samples": ["def f():"],
        "invalid_code_samples": ["x = )"], "code_history_pattern": "6?7*", "supported_history_operations": ("tail", "range", "search"),
    },
    "javascript": {
        "language_name": "javascript", "file_extension": ".js", "code_hello_world": "console.log('hello, world')", "code_stderr": "console.error('x')",
        "code_generate_error": "throw new TypeError('x')", "code_execute_result": [{"code": "6*7", "result": "42"}], "completion_samples": [{"text": "Math.cbr", "matches": {"cbrt"}}],
        "code_inspect_sample": "Math.cbrt", "complete_code_samples": ["1 + 1", "function f() {}"], "incomplete_code_samples": ["function f() {"], "invalid_code_samples": ["let = )"],
    },
    "typescript": {
        "language_name": "typescript", "file_extension": ".ts", "code_hello_world": "const greeting: string = 'hello, world'\nconsole.log(greeting)", "code_stderr": "console.error('x')",
        "code_generate_error": "throw new TypeError('x')", "code_execute_result": [{"code": "(6 as number) * 7", "result": "42"}],
        "code_inspect_sample": "Math.cbrt", "complete_code_samples": ["const n: number = 1"], "incomplete_code_samples": ["function f() {"],
    },
    "ruby": {
        "language_name": "ruby", "file_extension": ".rb", "code_hello_world": "puts 'hello, world'", "code_stderr": "warn 'x'",
        "code_generate_error": "raise ArgumentError, 'x'", "code_execute_result": [{"code": "6*7", "result": "42"}], "completion_samples": [{"text": "Math.cbr", "matches": {"cbrt"}}],
        "code_inspect_sample": "Math.cbrt", "complete_code_samples": ["1 + 1"], "incomplete_code_samples": ["def f"], "invalid_code_samples": ["x = )"],
    },
    "php": {
        "language_name": "php", "file_extension": ".php", "code_hello_world": "echo 'hello, world';", "code_stderr": "fwrite(STDERR, 'x');",
        "code_generate_error": "throw new RuntimeException('x');", "code_execute_result": [{"code": "6*7", "result": "42"}],
        "code_inspect_sample": "strlen", "complete_code_samples": ["$x = 1;"], "incomplete_code_samples": ["function f() {"],
    },
    "bash": {
        "language_name": "bash", "file_extension": ".sh", "code_hello_world": "echo hello, world", "code_stderr": "echo x >&2", "code_generate_error": "false",
        "code_inspect_sample": "echo", "complete_code_samples": ["echo x"], "incomplete_code_samples": ["if true; then"], "invalid_code_samples": ["fi"],
    },
}


def kernel_tests(language):
    """The package's class for a language. It waits for messages as long as a loaded machine needs, and for none that
    belongs to an earlier request."""
    from jupyter_client.utils import run_sync
    from jupyter_kernel_test import KernelTests

    class Tests(KernelTests):
        kernel_name = f"cloche-{language}"

        def setUp(self):
            receive, execute, ids = self.kc.iopub_channel.get_msg, self.kc.execute, []

            async def of_the_last(timeout=None):
                while True:
                    message = await receive(timeout=HANG)
                    if message["parent_header"].get("msg_id") == ids[-1]:
                        return message

            def noted(*args, **options):
                ids.append(execute(*args, **options))
                return ids[-1]

            self.kc.iopub_channel.get_msg, self.kc.execute = of_the_last, noted
            self.addCleanup(setattr, self.kc.iopub_channel, "get_msg", receive)
            self.addCleanup(setattr, self.kc, "execute", execute)

        def flush_channels(self):
            pass

    for name, value in SAMPLES[language].items():
        setattr(Tests, name, value)
    return Tests


def check_package(language):
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(kernel_tests(language))
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun >= 12 and not result.failures and not result.errors, [text for _, text in result.failures + result.errors]


NOTEBOOKS = {  # cells and the text that each must end with
    "python": [("import math\nr = [math.factorial(n) for n in range(5)]", ""), ("print(sum(r))", "34\n"), ("r[-1]", "24")],
    "javascript": [("let r = [1, 2, 3].map(x => x * x)", ""), ("console.log(r.length)", "3\n"), ("r[2]", "9")],
    "typescript": [("interface P { x: number }\nconst p: P = { x: 6 }", ""), ("console.log(p.x)", "6\n")],
    "ruby": [("r = (1..4).map { |x| x * x }", None), ("puts r.sum", "30\n"), ("r.last", "16")],
    "php": [("$r = array_map(fn($x) => $x * $x, [1, 2, 3]);", None), ("echo array_sum($r);", "14")],
    "bash": [("r=7; cd /tmp", ""), ("echo $((r * 6)) $PWD", "42 /tmp\n")],
}


def notebook(language, cells):
    import nbformat
    new = nbformat.v4
    return new.new_notebook(cells=[new.new_markdown_cell("# A page"), *[new.new_code_cell(code) for code, _ in cells]], metadata={"kernelspec": {"name": f"cloche-{language}", "display_name": "x", "language": language}})


def text_of(cell):
    """The text of the last output."""
    if not cell.outputs:
        return ""
    output = cell.outputs[-1]
    return output.text if output.output_type == "stream" else output.data["text/plain"]


def check_nbclient(language):
    from nbclient import NotebookClient
    page = notebook(language, NOTEBOOKS[language])
    NotebookClient(page, timeout=int(HANG), kernel_name=f"cloche-{language}").execute()
    codes = [cell for cell in page.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in codes] == list(range(1, len(codes) + 1)), codes
    for cell, (code, text) in zip(codes, NOTEBOOKS[language]):
        assert text is None or text_of(cell) == text, (language, code, cell.outputs)


def check_failing_notebook():
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    page = notebook("python", [("1/0", ""), ("print('not reached')", "")])
    try:
        NotebookClient(page, timeout=int(HANG), kernel_name="cloche-python").execute()
        raise AssertionError("the failing notebook did not fail")
    except CellExecutionError as e:
        assert "ZeroDivisionError" in str(e), e
    assert page.cells[1].outputs[0].ename == "ZeroDivisionError" and not page.cells[2].outputs, page


def check_nbconvert(directory, env):
    import nbformat
    path = os.path.join(directory, "page.ipynb")
    nbformat.write(notebook("python", [("print('said')", ""), ("from IPython.display import SVG\nSVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')", "")]), path)
    done = subprocess.run(["jupyter", "nbconvert", "--to", "notebook", "--execute", "--inplace", path], env=env, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    outputs = [cell.outputs for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert outputs[0][0].text == "said\n" and "image/svg+xml" in outputs[1][0].data, outputs


def check_console(env):
    done = subprocess.run(["jupyter", "console", "--kernel", "cloche-python", "--simple-prompt"], input="x = 6\nx * 7\nexit\n", env=env, capture_output=True, text=True, timeout=HANG)
    assert "42" in done.stdout, (done.stdout, done.stderr)
    with subprocess.Popen(["jupyter", "console", "--kernel", "cloche-python", "--simple-prompt"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env) as left:
        left.stdin.write(b"exit\n")
        left.stdin.flush()  # it stays open: the word alone ends the console
        try:
            assert left.wait(HANG) == 0, left.returncode
        finally:
            left.kill()


def test_front_ends_of_debian():
    with tempfile.TemporaryDirectory() as directory, Daemon() as daemon:
        install(directory)
        env = environment(directory, daemon.path)
        with process_environment(env):
            for language in SAMPLES:
                check_package(language)
                check_nbclient(language)
            check_failing_notebook()
        check_nbconvert(directory, env)
        check_console(env)
        with daemon.frames() as frames:  # all kernels were in one sandbox, and their contexts are gone
            assert frames.call("context.list", sandbox="jupyter")["contexts"] == []
        assert daemon.stop() == 0, daemon.log_text()
