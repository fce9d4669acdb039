"""`cloche repl` and `cloche notebook run` in an image: its files, environment and directory; the sandbox is gone afterwards."""
import json
import os

from boxes import daemon, ok
from cloche import bad_input, cli, equal
from image_trees import configured_image

FACTS = "import os; print(os.getcwd(), os.environ['A'], open('/etc/marker').read())"
EXPECTED = "/srv/app image root\n"


def test_names_of_the_daemons_store():
    """The caller's own store has none of them."""
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    store = os.path.abspath("images")
    ok("image", "import", configured_image({"Env": ["A=image"], "WorkingDir": "/srv/app"}), "configured", "--images", store)
    with daemon("--images", store):
        ok("sandbox", "create", "box", "--image", "configured")
        equal(ok("exec", "box", "--", "echo $PWD $A $(</etc/marker)"), EXPECTED.encode())
        bad_input("sandbox", "create", "--image", "configure", says="did you mean 'configured:latest'?")
        equal(cli("repl", "--image", "configured", stdin=FACTS.encode()).stdout.decode(), EXPECTED)


def test_cells_in_an_image():
    store = os.path.abspath("images")
    options = ("--image", "configured", "--images", store)
    ok("image", "import", configured_image({"Env": ["A=image"], "WorkingDir": "/srv/app"}), "configured", "--images", store)
    with daemon("--images", store):
        finished = cli("repl", *options, stdin=FACTS.encode())
        equal((finished.code, finished.stdout.decode()), (0, EXPECTED), finished)
        with open("n.ipynb", "w") as file:
            json.dump({"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "source": FACTS, "outputs": [], "execution_count": None}], "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}, file)
        ok("notebook", "run", "n.ipynb", *options)
        with open("n.ipynb") as file:
            equal("".join(json.load(file)["cells"][0]["outputs"][0]["text"]), EXPECTED)
        equal(json.loads(ok("sandbox", "ls", "--json")), [])
        finished = cli("repl", "ruby", *options, stdin=b"1")
        assert finished.code == 1 and b"no interpreter for ruby" in finished.stderr, finished
        ok("sandbox", "create", "box")
        for words in (("repl",), ("notebook", "run", "n.ipynb")):
            bad_input(*words, *options, "--sandbox", "box", says="keeps the image")
            bad_input(*words, "--packages", "pip:a", "--sandbox", "box", says="keeps the packages")
            for more in ((), ("--images", store)):
                bad_input(*words, "--image", "none", *more, says="no image 'none")
        equal([row["sandbox"] for row in json.loads(ok("sandbox", "ls", "--json"))], ["box"])
