"""The set-up of the prefix that Python's contexts are forked from: it imports the usual packages
and runs each once.

Packages that the image lacks are skipped, and so are broken ones: the cell that imports one gets
its error. No name stays but the one that makes the agent prepare its shell (cells.py)."""
__cloche_notebook__ = True


def there(name):
    """Debian's matplotlib raises RuntimeError in an image without /etc/matplotlibrc."""
    import importlib
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def warm_up():
    import gc
    # Imports make 180,000 objects that stay: collections would walk them for 0.1 s. cells.py enables it again.
    gc.disable()
    for name in ("getpass", "asyncio", "json", "csv", "pathlib", "datetime", "random", "subprocess", "urllib.request", "requests"):
        there(name)
    for name, use in (("numpy", multiply), ("pandas", tabulate), ("PIL.Image", encode), ("matplotlib", draw)):
        module = there(name)
        try:
            if module is not None:
                use(module)
        except Exception:
            pass
    end_threads()


def multiply(numpy):
    repr(numpy.arange(6.0).reshape(2, 3) @ numpy.eye(3))


def tabulate(pandas):
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, None]})
    repr(frame), frame._repr_html_(), repr(frame.describe()), frame.groupby("b").sum()


def encode(image):
    import io
    image.init()
    image.new("RGB", (2, 2)).save(io.BytesIO(), "PNG")


def draw(matplotlib):
    import io
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots()
    axes.plot([1, 2, 3], label="a")
    axes.set_title("Title")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    plt.close(figure)
    # A template may have no open file, and cached fonts are open.
    matplotlib.font_manager._get_font.cache_clear()


def end_threads():
    """A process with threads cannot be a template. OpenBLAS ends its own before each fork, and
    starts them again on use; numexpr, which pandas imports, starts some at import, and has a
    setting for their number."""
    import os
    import sys
    if "numexpr" in sys.modules:
        sys.modules["numexpr"].set_num_threads(1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


warm_up()
del there, warm_up, multiply, tabulate, encode, draw, end_threads
