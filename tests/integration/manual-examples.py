"""Examples of the manual pages and of help run as they stand, and JSON in the pages is JSON."""
import json
import os
import re
import shutil
import subprocess

from boxes import Terminal, daemon
from cloche import BUILD, SOURCE, cli, equal, spec_rows, write_file

TIMEOUT = 200
RENDERERS = [("mandoc", "-T", "utf8", "-O", "width=400"), ("nroff", "-mandoc", "-Tutf8", "-rLL=400n")]  # of the second one man-db consists


def rendered(page):
    """What a reader copies from, by each program there is."""
    for command in RENDERERS:
        if shutil.which(command[0]):
            raw = subprocess.run([*command, os.path.join(SOURCE, "man", page)], capture_output=True, check=True).stdout
            yield subprocess.run(["col", "-bx"], input=raw, capture_output=True, check=True).stdout.decode()


def examples(text):
    section = re.search(r"^EXAMPLES\n(.*?)^\S", text, re.M | re.S).group(1)
    return [line.strip() for line in section.splitlines() if line.strip()]


def of_the_table():
    return [(row["symbol"], row["line"]) for row in spec_rows("CLOCHE_EXAMPLE")]


def set_up():
    write_file("orders.json", '[[{"price": 3}, {"price": 4}]]\n')
    write_file("totals.py", "def total(orders=()):\n    return sum(order['price'] for order in orders)\n")
    write_file("tool.js", "console.log(process.argv.slice(2))")
    os.makedirs("src")
    write_file("src/main.c", "int old;\n")
    write_file("src/Makefile", "all:\n\tmkdir -p out\n\tcp main.c out\n")
    os.environ.update(XDG_DATA_HOME=os.path.abspath("data"), XDG_STATE_HOME=os.path.abspath("kept"), PATH=BUILD + ":" + os.environ["PATH"])


def run_line(line):
    if "cloche shell" not in line:
        finished = subprocess.run(["sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True)
        equal(finished.returncode, 0, (line, finished.stdout, finished.stderr))
        return finished.stdout.decode()
    with Terminal("-c", line, program="sh") as terminal:
        terminal.type(b"echo re''ady; exit\r")
        terminal.until(b"ready")
        equal(terminal.end(), 0, line)
    return ""


def test_examples_of_the_table_run_as_they_stand():
    set_up()
    with daemon():
        printed = {line: run_line(line) for _, line in of_the_table()}
    said = list(printed.values())
    equal(said[0], "42\n")
    equal(said[1], "7\n")
    equal(said[2], "[ 'input.txt', '--verbose' ]\n")
    equal(open("src/main.c").read(), "int new;\n")
    equal(open("out/main.c").read(), "int new;\n")


def test_the_manual_page_and_help_have_the_examples_of_the_table():
    lines = [line for _, line in of_the_table()]
    for text in rendered("cloche.1"):
        equal(examples(text), lines)
    helped = [line.strip() for symbol in dict.fromkeys(symbol for symbol, _ in of_the_table())
              for line in cli("help", *symbol.split("_")).stdout.decode().partition("\nexamples:\n")[2].splitlines()]
    equal(sorted(helped), sorted(lines))


def test_examples_of_the_daemon_run_as_they_stand():
    for text in rendered("cloched.8"):
        start, call = examples(text)
        with daemon() as running:
            finished = subprocess.run(["sh", "-c", call.replace("/run/cloche/socket", running.path)], capture_output=True)
        equal(json.loads(finished.stdout)["result"], 42, finished)
        assert start.startswith("cloched --socket /run/cloche/socket"), start


def test_json_in_the_pages_is_json():
    for page in ("cloche.1", "cloched.8"):
        for text in rendered(page):
            found = re.findall(r"[‘']({.*?})[’']", " ".join(text.split()))
            for one in found:
                if "|" not in one:  # else a choice of values
                    json.loads(one)
            assert page != "cloche.1" or len(found) >= 3, found
