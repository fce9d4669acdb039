"""The set-up of the prefix that Python's contexts are forked from: it imports the usual packages
and runs each once.

Packages that the image lacks are skipped, and no name stays but the one that makes the agent
prepare its shell (cells.py)."""
__cloche_notebook__ = True


def warm_up():
    import importlib

    def there(name):
        try:
            return importlib.import_module(name)
        except ImportError:
            return None

    numpy, pandas, image = there("numpy"), there("pandas"), there("PIL.Image")
    for name in ("getpass", "asyncio", "IPython", "IPython.display", "matplotlib_inline.backend_inline", "json", "csv", "pathlib",
                 "datetime", "random", "subprocess", "urllib.request", "requests"):
        there(name)
    if numpy is not None:
        repr(numpy.arange(6.0).reshape(2, 3) @ numpy.eye(3))
    if pandas is not None:
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, None]})
        repr(frame), frame._repr_html_(), repr(frame.describe()), frame.groupby("b").sum()
    if image is not None:
        image.init()
        import io
        image.new("RGB", (2, 2)).save(io.BytesIO(), "PNG")
    if there("matplotlib") is not None:
        draw()
    end_threads()


def draw():
    import io
    import matplotlib
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
del warm_up, draw, end_threads
