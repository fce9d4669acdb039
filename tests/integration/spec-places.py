"""A new operation of sandboxes is five places, a new limit three: each is added to a copy of the tree, and everything else follows from the rows.

Five places: the rows of spec/sandbox.def (with those of spec/answers.def where the answer is new), the function in C, the method of the Python client,
the test in Python and the test of the protocol. Three: the row of spec/limits.def, the code that enforces it, its test. An option of the command line
is a row of spec/options.def. Here the parts of the programs that read the tables are compiled with the new rows; tests are places that need no proof."""
import os
import re
import shlex
import shutil
import subprocess
import sys

from cloche import BUILD, SOURCE, equal

PARTS = ["tools", "spec", "include", "src", "man", "docs/reference.md", "clients/python/cloche", "clients/typescript/src/generated"]
OPERATION = '''SANDBOX_OPERATION(NOTE_READ, "note.read", "POST", "/sandboxes/{sandbox}/note/read", 200, PLAIN, RUNNING, "Note", "Return a note.")
SANDBOX_FIELD(NOTE_READ, "name", TEXT, REQUIRED, "Its name.")
'''
ANSWER = '''ANSWER("Note", "", "A note.")
ANSWER_MEMBER("Note", "lines", "count", ALWAYS, "Number of lines.")
'''
LIMIT = '''CLOCHE_LIMIT(note_bytes, "noteBytes", "bytes", 4096, 1, 1048576, "Bytes of a note; breach: error.",
             RUN, 4096, NO_RLIMIT, BYTES, "--note-size", "size of a note; default 4096", "")
'''
OPTION = '''CLOCHE_OPTION(diff, "--note", "-n", "NOTE", "brief long", TEXT, links, 0, 0, "brief: show a note in short; default: long", "In the manual.")
'''


def copy_of_the_tree():
    for part in PARTS:
        source = os.path.join(SOURCE, part)
        if os.path.isdir(source):
            shutil.copytree(source, part, symlinks=True)
        else:
            os.makedirs(os.path.dirname(part), exist_ok=True)
            shutil.copy(source, part)


def append(path, text):
    """One place."""
    with open(path, "a") as file:
        file.write(text)
    return path


def compile_tables():
    done = subprocess.run([sys.executable, "tools/spec"], capture_output=True, text=True)
    equal(done.returncode, 0, done.stderr)


def generated(path):
    with open(path) as file:
        return file.read()


def command_of(source):
    """The command that compiles a file of the real tree, as the build has it."""
    lines = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", *objects_of(source)], capture_output=True, text=True, check=True).stdout.splitlines()
    return shlex.split(next(line for line in lines if line.endswith(source)))


def objects_of(source):
    targets = subprocess.run(["ninja", "-C", BUILD, "-t", "query", os.path.relpath(os.path.join(SOURCE, source), BUILD)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^    (\S+\.o)$", targets, re.M)[:1]


def compile_file(source, expected=0):
    """Compile a file of the copy; the real build's commands name its sources and includes relative to the build."""
    here = os.getcwd()
    words = [word.replace("../", here + "/", 1) if word.startswith(("../", "-I../")) else word for word in command_of(source)]
    words[words.index("-o") + 1] = os.path.join(here, "made.o")
    for flag in ("-MF", "-MQ"):
        words[words.index(flag) + 1] = os.path.join(here, "made.d")
    done = subprocess.run(words, cwd=BUILD, capture_output=True, text=True)
    equal(done.returncode == 0, expected == 0, done.stderr)
    return done.stderr


def symbols_of_the_object():
    return subprocess.run(["nm", "made.o"], capture_output=True, text=True, check=True).stdout


def test_an_operation_is_five_places():
    copy_of_the_tree()
    places = {append("spec/sandbox.def", OPERATION), append("spec/answers.def", ANSWER)}
    compile_tables()
    for path, text in (("docs/reference.md", "`note.read`"), ("docs/reference.md", "Number of lines."), ("clients/typescript/src/generated/sandbox.ts", "NoteReadParams"),
                       ("clients/typescript/src/generated/answers.ts", "'note.read': Note")):
        assert text in generated(path), (path, text)
    document = subprocess.run([sys.executable, "tools/spec", "--openapi", "1"], capture_output=True, text=True, check=True).stdout
    assert '"/v1/sandboxes/{sandbox}/note/read"' in document and '"#/components/schemas/Note"' in document
    compile_file("src/daemon/http/operation.c")  # the routes and the checks of parameters
    compile_file("src/sandbox/core/request.c")
    assert " U handle_NOTE_READ" in symbols_of_the_object(), "the dispatch calls the function that is still to be written"
    places |= {"the function in C", "the method of the Python client", "its test"}
    equal(len(places), 5)


def test_a_limit_is_three_places():
    copy_of_the_tree()
    places = {append("spec/limits.def", LIMIT)}
    compile_tables()
    for path, text in (("docs/reference.md", "`noteBytes`"), ("man/cloche.1", ".It Fl -note-size Ar SIZE\nSize of a note; default 4096."),
                       ("clients/typescript/src/generated/limits.ts", "noteBytes?: number"), ("clients/python/cloche/limits.py", "note_bytes: int | None")):
        assert text in generated(path), (path, text)
    for source in ("src/engine/box/limits.c", "src/keeper/request.c", "src/cli/options/limits.c"):  # defaults and ranges, the keeper's checks, the option
        compile_file(source)
    assert "set_note_bytes" in symbols_of_the_object()
    places |= {"the code that enforces it", "its test"}
    equal(len(places), 3)


def test_an_option_is_one_place_and_the_code_that_reads_its_member():
    copy_of_the_tree()
    places = {append("spec/options.def", OPTION)}
    compile_tables()
    for path, text in (("docs/reference.md", "| `diff` | `--note` |"), ("man/cloche.1", ".It Fl n , Fl -note Ar NOTE\nbrief: show a note in short; default: long.\nIn the manual.")):
        assert text in generated(path), (path, text)
    compile_file("src/cli/options/options.c")  # parsing, help and completion
    with open("made.o", "rb") as file:
        text = file.read()
    assert b"--note\0" in text and b"brief long\0" in text and b"brief: show a note in short" in text and b"In the manual." not in text
    append("spec/options.def", OPTION.replace("TEXT, links", "COUNT, links").replace("note", "word"))
    assert "_Generic" in compile_file("src/cli/options/options.c", expected=1), "a member of another type than the row's is an error"
    equal(len(places), 1)


def test_a_limit_of_boxes_that_the_keeper_does_not_have_fails_to_compile():
    copy_of_the_tree()
    append("spec/limits.def", LIMIT.replace("RUN, 4096", "BOX, 4096").replace('default 4096", "")', 'default 4096", "size of a note; default 4096")'))
    compile_tables()
    assert "note_bytes" in compile_file("src/keeper/request.c", expected=1)


def test_a_row_that_does_not_fit_is_named():
    copy_of_the_tree()
    for name, row, said in (("sandbox", OPERATION.replace('"Note", ', ""), "has 8 columns"), ("sandbox", OPERATION, "Note"),
                            ("limits", LIMIT.replace("default 4096", "default 1K"), "note_bytes must end in '; default 4096'"),
                            ("options", OPTION.replace("--note", "-u"), "diff has -u twice"), ("options", OPTION.replace("(diff", "(notes"), "notes"), ("errors", 'CLOCHE_EROR(A, "a")\n', "CLOCHE_EROR")):
        kept = generated(f"spec/{name}.def")
        append(f"spec/{name}.def", row)
        done = subprocess.run([sys.executable, "tools/spec", "--check"], capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr and "Traceback" not in done.stderr, done
        with open(f"spec/{name}.def", "w") as file:
            file.write(kept)
