"""cloche notebook run: the notebook it writes, the parts that stay unchanged, and the files it refuses."""
import json
import os
import signal

from boxes import daemon, ok
from cloche import SOURCE, bad_input, cli, equal, start

TIMEOUT = 180
OLD = [{"name": "stdout", "output_type": "stream", "text": ["old"]}]


def code(source, **metadata):
    return {"cell_type": "code", "execution_count": 99, "id": "i", "metadata": metadata, "outputs": OLD, "source": source.splitlines(True)}


def write(name, *cells, language="python", **more):
    notebook = {"cells": list(cells), "metadata": {"kernelspec": {"display_name": "x", "language": language, "name": "x"}}, "nbformat": 4,
                "nbformat_minor": 5, **more}
    with open(name, "w") as file:
        file.write(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")


def read(name):
    with open(name) as file:
        text = file.read()
    assert text.endswith("\n}\n"), text[-20:]
    notebook = json.loads(text)
    equal(text, json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")  # written as nbformat writes
    return notebook


def outputs(name):
    return [cell["outputs"] for cell in read(name)["cells"] if cell["cell_type"] == "code"]


def stream(text, name="stdout"):
    return {"name": name, "output_type": "stream", "text": text.splitlines(True)}


def what_cells_give():
    write("a.ipynb", code("import sys\nprint('a\\nb'); print('c\\rd', end='')\n6 * 7"),
          code("from IPython.display import HTML, JSON, clear_output, display\nshown = display(HTML('<b>\\n1</b>'), display_id='x')"),
          code("shown.update(HTML('<b>2</b>'))\ndisplay(JSON({'z': [1, 2.5, None], 'a': {}}))"),
          code("import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()"),
          code("print('gone'); display(1); clear_output(); print('stays')"), code("print('gone'); clear_output(wait=True); print('stays')"),
          code(" \n"), code("not run", tags=["skip-execution"]), code("import os; _ = os.write(1, b'\\xff\\n')"), code("_ = os.write(2, b'e')"))
    equal(cli("notebook", "run", "a.ipynb").code, 0)
    found = outputs("a.ipynb")
    equal(found[0], [stream("a\nb\nc\rd"),
                     {"data": {"text/plain": ["42"]}, "execution_count": 1, "metadata": {}, "output_type": "execute_result"}])
    equal([(one["output_type"], one["data"]["text/html"]) for one in found[1]], [("display_data", ["<b>2</b>"])])
    equal(found[2][0]["data"]["application/json"], {"z": [1, 2.5, None], "a": {}})
    picture = found[3][0]["data"]
    assert picture["image/png"].startswith("iVBORw0KGgo") and picture["text/plain"] == ["<Figure size 640x480 with 1 Axes>"], picture
    equal(list(picture), sorted(picture))
    equal(found[4:], [[stream("stays\n")], [stream("stays\n")], [], OLD, [stream("\ufffd\n")], [stream("e", "stderr")]])
    equal([cell["execution_count"] for cell in read("a.ipynb")["cells"]], [1, 2, 3, 4, 5, 6, None, 99, 7, 8])


def what_stays():
    numbers = [0.1, 1.0, 1e-05, 0.0001, 1e16, 123456.789, -0.0, 5e-324, 1e22, 100.0, 7, -3]
    markdown = {"cell_type": "markdown", "id": "m-1", "metadata": {"z": 1, "a": {}}, "source": ["# ä\n", "\u001b\x7f\u2028\"\\/"],
                "attachments": {"p.png": {"image/png": "AAAA"}}}
    raw = {"cell_type": "raw", "metadata": {}, "source": "text"}
    write("b.ipynb", markdown, code("pass"), raw, zeta={"numbers": numbers, "empty": [[], {}]})
    with open("b.ipynb") as file:
        before = file.read()
    os.chmod("b.ipynb", 0o640)
    os.symlink("b.ipynb", "link.ipynb")
    ok("notebook", "run", "link.ipynb", "--sandbox", "box")
    expected = json.loads(before)
    expected["cells"][1].update(execution_count=1, outputs=[])
    equal(read("b.ipynb"), expected)
    with open("b.ipynb") as file:
        equal(file.read(), json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    equal((os.path.islink("link.ipynb"), os.stat("b.ipynb").st_mode & 0o777), (True, 0o640))
    equal(json.loads(ok("notebook", "run", "b.ipynb", "-o", "-")), expected)
    equal(sorted(name for name in os.listdir(".") if "cloche-" in name), [])


def errors():
    write("c.ipynb", code("1/0", tags=["raises-exception"]), code("input()", tags=["raises-exception"]), code("raise KeyError('x\\x1b')"), code("7"))
    finished = cli("notebook", "run", "c.ipynb", "-o", "d.ipynb")
    equal((finished.code, finished.stdout), (1, b""))
    equal(finished.stderr, b"cloche: cell 3 failed: KeyError: 'x\\\\x1b'\n")
    found = outputs("d.ipynb")
    equal([(one[0].get("ename"), one[0].get("evalue")) for one in found[:3]][::2], [("ZeroDivisionError", "division by zero"), ("KeyError", "'x\\x1b'")])
    equal((found[1][0]["ename"], found[0][0]["output_type"], found[3]), ("EOFError", "error", OLD))
    assert "Cell In[1], line 1" in found[0][0]["traceback"], found[0]
    finished = cli("notebook", "run", "c.ipynb", "-o", "d.ipynb", "--allow-errors", "--json")
    equal((finished.code, json.loads(finished.stdout)), (1, {"notebook": "d.ipynb", "cells": 4, "failed": 1, "exitCode": 1}))
    equal(outputs("d.ipynb")[3][0]["data"], {"text/plain": ["7"]})
    write("e.ipynb", code("import time; print('begun', flush=True); time.sleep(60)"), code("2"))
    equal(cli("notebook", "run", "e.ipynb", "-o", "d.ipynb", "--timeout", "0.5").code, 124)
    equal([one["output_type"] for one in outputs("d.ipynb")[0]], ["stream", "error"])


def interrupted():
    """Its temporary objects are gone, and the results so far are written."""
    write("f.ipynb", code("1"), code("open('/workspace/begun', 'w').close(); import time; time.sleep(60)"))
    process = start("notebook", "run", "f.ipynb", "--sandbox", "box")
    ok("exec", "box", "--", "while [ ! -e begun ]; do sleep 0.1; done")
    process.send_signal(signal.SIGINT)
    equal(process.wait(30), -signal.SIGINT)
    process.stdout.close()
    process.stderr.close()
    equal(outputs("f.ipynb")[0][0]["data"], {"text/plain": ["1"]})


def languages():
    for language, source, gives in (("bash", "echo $((40 + 2))", "42\n"), ("node", "console.log(40 + 2)", "42\n")):
        write("g.ipynb", code(source), language=language)
        ok("notebook", "run", "g.ipynb", "--sandbox", "box")
        equal(outputs("g.ipynb"), [[stream(gives)]])
    write("g.ipynb", code("print(1)"), language="R")
    bad_input("notebook", "run", "g.ipynb", says="'R'")
    ok("notebook", "run", "g.ipynb", "--sandbox", "box", "--language", "python")
    write("g.ipynb", code("print(1)"), metadata={})
    bad_input("notebook", "run", "g.ipynb", says="--language")


def example():
    ok("notebook", "run", os.path.join(SOURCE, "examples/rivers.ipynb"), "-o", "rivers.ipynb")
    table, sums, chart, failure = outputs("rivers.ipynb")
    assert any("<table" in line for line in table[0]["data"]["text/html"]), table
    equal(sums[0]["data"]["application/json"], {"Africa": 11350, "Asia": 11839, "South America": 6400})
    equal((chart[0]["data"]["application/vnd.cloche.chart+json"]["type"], failure[-1]["ename"]), ("bar", "URLError"))


def refusals():
    for text, says in ((b"", "line 1"), (b'{"a": 1,}', "line 1, column 9"), (b"[]", "notebook"), (b"{}", "nbformat"), (b'{"nbformat": 3}', "version 3"),
                       (b'{"nbformat": 4, "cells": {}}', "cells"), (b'{"nbformat": 4, "cells": [1]}', "cell 1"),
                       (b'{"nbformat": 4, "cells": [{}]}', "cell 1: cell_type"), (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "cell 1: source"),
                       (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["a", 1]}]}', "cell 1: source"),
                       (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": "", "outputs": 1}]}', "cell 1: outputs")):
        with open("h.ipynb", "wb") as file:
            file.write(text)
        bad_input("notebook", "run", "h.ipynb", says=says)
        with open("h.ipynb", "rb") as file:
            equal(file.read(), text)
    bad_input("notebook", "run", "nowhere.ipynb", says="nowhere.ipynb")
    bad_input("notebook", "run", ".", says="directory")
    bad_input("notebook", "run", "a.ipynb", "-o", "-", "--json", says="--json")
    finished = cli("notebook", "run", "b.ipynb", "-o", "no/such/place.ipynb", "--sandbox", "box")
    assert finished.code == 1 and b"no/such/place.ipynb" in finished.stderr, finished


def test_notebooks():
    """One daemon for all; nothing that a run makes outlives it."""
    with daemon():
        ok("sandbox", "create", "box")
        for part in (what_cells_give, what_stays, errors, interrupted, languages, example, refusals):
            print("--", part.__name__, flush=True)
            part()
            equal([row["sandbox"] for row in json.loads(ok("sandbox", "ls", "--json"))], ["box"])
            equal(json.loads(ok("context", "list", "box", "--json")), [])
