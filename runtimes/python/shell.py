"""IPython's shell as contexts use it: its syntax, magics, formatters and events; running a cell is cells.py's."""
import atexit
import builtins
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec

import IPython
from IPython.core import interactiveshell, page
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.formatters import DisplayFormatter
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils import io as known_io
from traitlets import Type
from traitlets.config import Config

common, traces = part("common"), part("traces")
CHART, ONLY_AST = common["CHART"], common["ONLY_AST"]
FIRST_WORD = re.compile(r"\s*([A-Za-z_]\w*)")
INLINE = "module://matplotlib_inline.backend_inline"
SETTLED = (type(None), bool, int)
PATIENCE = 1.0


class Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **more):
        self.shell.context.display(data, metadata, False, (transient or {}).get("display_id"), update)

    def clear_output(self, wait=False):
        self.shell.context.clear(wait)


class Hook(DisplayHook):
    def __call__(self, result=None):
        self.check_for_underscore()
        if result is None:
            return
        data, metadata = self.compute_format_data(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        if data:
            self.shell.context.display(data, metadata, True)

    def cull_cache(self):
        """No warning: the user has set no limit."""
        for count in sorted(self.shell.user_ns["_oh"])[:self.cache_size // 5]:
            self.shell.user_ns.pop("_%d" % count, None)
            self.shell.user_ns["_oh"].pop(count, None)


class Formatter(DisplayFormatter):
    def format(self, value, include=None, exclude=None):
        kind = type(value)
        if kind in SETTLED and include is None and kind not in self.plain_printers():
            return {"text/plain": repr(value)}, {}
        data, metadata = super().format(value, include=include, exclude=exclude)
        if include is not None or not data:
            return data, metadata
        if CHART not in (exclude or ()):
            common["add_rich"](value, data, metadata)
        return data, metadata

    def plain_printers(self):
        """Printers that the user has set for kinds that are otherwise shown by their repr."""
        if self.own is None:
            self.own = {kind: printer for kind, printer in self.formatters["text/plain"].type_printers.items()}
        printers = self.formatters["text/plain"].type_printers
        return () if len(printers) == len(self.own) and all(printers.get(kind) is self.own.get(kind) for kind in SETTLED) else SETTLED

    own = None


class Store(dict):
    """Replaces the database in the home directory."""

    def keys(self, pattern=None):
        return list(dict.keys(self))


class Place:
    """Replaces the profile's directory."""

    def __init__(self, location):
        self.location = self.security_dir = self.log_dir = self.startup_dir = self.pid_dir = self.static_dir = location


class Shell(common["Cells"], InteractiveShell):
    displayhook_class = Type(Hook)
    display_pub_class = Type(Publisher)
    interpreter = "IPython %s on %s" % (IPython.__version__, common["PYTHON"])

    # ---- replacements for IPython's terminal, home directory and database ----

    def init_ipython_dir(self, ipython_dir):
        self.scratch = tempfile.mkdtemp()
        super().init_ipython_dir(self.scratch)

    def init_profile_dir(self, profile_dir):
        self._trait_values["profile_dir"] = Place(self.scratch)

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def init_virtualenv(self):
        pass

    def enable_gui(self, gui=None):
        if gui not in (None, "inline", "agg"):
            raise ValueError("there are no windows here: %r cannot be enabled" % gui)

    def showtraceback(self, exc_tuple=None, *args, **kwargs):
        error = sys.exc_info()[1] if exc_tuple is None else exc_tuple[1]
        if isinstance(error, BaseException):
            sys.stderr.write("\n".join(self.error_of(error)["traceback"]) + "\n")

    showsyntaxerror = showindentationerror = showtraceback

    def _showtraceback(self, kind, error, lines):
        sys.stderr.write("\n".join(lines) + "\n")

    def system(self, command):
        """The command prints directly to this process's output; an interrupt reaches it and all its children."""
        cells = part("cells")
        cells["flush_all"]()
        command = self.var_expand(command, depth=1)
        cells["GUARD"].hold()  # an interrupt must not come between the start and the assignment
        try:
            process = subprocess.Popen(command, shell=True, executable=shell_program(), preexec_fn=os.setpgrp)
        except BaseException:
            cells["GUARD"].release()
            raise
        try:
            cells["GUARD"].release()
            status = process.wait()
        except BaseException:
            end_group(process)
            raise
        self.user_ns["_exit_code"] = status

    system_raw = system_piped = system

    # ---- interface for contexts ----

    def set_up(self):
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.db = Store()
        atexit.unregister(self.atexit_operations)
        self.cells = set()
        self.transformers = self.count_transformers()
        for name in ("exit", "quit"):
            self.user_ns[name] = self.user_ns_hidden[name] = common["Quit"](name)
        self.set_hook("show_in_pager", page.as_hook(show_page), 99)
        self.loop_runner = lambda coroutine: self.context.run_coroutine(coroutine)
        register = self.events.register

        def watching(event, function):
            register(event, function)
            if getattr(function, "__name__", "") == "flush_figures":
                part("charts")["watch"]()

        self.events.register = watching
        if "matplotlib.pyplot" in sys.modules:
            self.use_inline_figures()

    def use_inline_figures(self):
        try:
            from IPython.core.pylabtools import activate_matplotlib
            from matplotlib_inline.backend_inline import configure_inline_support
        except ImportError:
            return
        activate_matplotlib(INLINE)
        configure_inline_support(self, INLINE)

    @property
    def inputs(self):
        return self.history_manager.input_hist_parsed

    def close_files(self):
        """Runs before a fork. IPython opens one on import, and matplotlib keeps cached fonts open."""
        if hasattr(known_io, "devnull"):
            known_io.devnull.close()
        common["close_fonts"]()

    def open_files(self):
        if hasattr(known_io, "devnull") and known_io.devnull.closed:
            known_io.devnull = open(os.devnull, "w")

    def attach(self, context):
        self.context = context
        self.open_files()
        self.builtin_trap.__enter__()
        self.display_trap.__enter__()
        self.attach_builtins(context)
        if "matplotlib" not in sys.modules:
            os.environ.setdefault("MPLBACKEND", INLINE if find_spec("matplotlib_inline") else "Agg")  # IPython before 7.23 has no inline backend

    def registered(self):
        """Changes when code registers some that run with a cell."""
        return (self.count_transformers(), len(self.ast_transformers), [len(found) for found in self.events.callbacks.values()],
                [len(formatter.type_printers) for formatter in self.display_formatter.formatters.values()])

    def forget(self, names):
        """Delete everything that rehearsing left."""
        self.forget_cells(names)
        self.displayhook.flush()
        self.builtin_trap.__exit__(None, None, None)
        self.display_trap.__exit__(None, None, None)

    def trigger(self, event, *args):
        if self.events.callbacks.get(event):
            self.events.trigger(event, *args)

    def start_events(self, request):
        self.trigger("pre_execute")
        if not request["silent"] and self.events.callbacks.get("pre_run_cell"):
            self.events.trigger("pre_run_cell", self.info())

    def end_cell(self, silent, error=None):
        self.trigger("post_execute")
        if not silent and self.events.callbacks.get("post_run_cell"):
            result = interactiveshell.ExecutionResult(self.info())
            result.error_in_exec = error
            self.events.trigger("post_run_cell", result)

    def info(self):
        fields = self.request["code"], not self.request["silent"], self.request["silent"], True
        try:
            return interactiveshell.ExecutionInfo(*fields, None)
        except TypeError:
            return interactiveshell.ExecutionInfo(*fields)

    # ---- from text to code ----

    def count_transformers(self):
        manager = self.input_transformer_manager
        return (len(self.input_transformers_post), len(manager.cleanup_transforms), len(manager.line_transforms),
                len(manager.token_transformers))

    def parse(self, code, name, flags):
        """Plain Python needs no transforming, which costs more than most cells."""
        self.start_events(self.request)
        text = code
        try:
            tree = compile(code, name, "exec", flags | ONLY_AST, True)
            plain = not self.may_be_magic(code)
        except SyntaxError:
            plain = False
        if not plain:
            text = self.transform_cell(code)
            tree = compile(text, name, "exec", flags | ONLY_AST, True)
        self.text = text
        return self.transform_ast(tree) if self.ast_transformers else tree

    def may_be_magic(self, code):
        if self.count_transformers() != self.transformers:
            return True
        word = FIRST_WORD.match(code)
        if word is None or "\n" in code.strip():
            return False
        word = word[1]
        if word in self.user_ns or word in builtins.__dict__:
            return False
        return word in self.magics_manager.magics["line"] or self.alias_manager.is_alias(word)

    def judge(self, code):
        """As IPython does, which takes ten times as long as Python's parser. Transformers that the user added are the user's
        code, and not asked."""
        known = common["judged"](code)
        if known:
            return known
        status, indent = TransformerManager().check_complete(code)
        return status, " " * (indent or 0)

    # ---- errors ----

    @property
    def error_mode(self):
        return self.InteractiveTB.mode

    def error_of(self, error):
        told = super().error_of(error)
        if self.custom_exceptions and isinstance(error, self.custom_exceptions):
            lines = self.CustomTB(type(error), error, error.__traceback__)
            if lines:
                told["traceback"] = [line for text in lines for line in text.split("\n")]
        return told


def shell_program():
    program = os.environ.get("SHELL", "")
    return program if os.path.isfile(program) and os.access(program, os.X_OK) else None


def end_group(process):
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            continue
        except OSError:
            return


def show_page(text, start=0, screen_lines=0, pager_cmd=None):
    if isinstance(text, dict):
        text = text.get("text/plain", "")
    print(traces["COLOURS"].sub("", text))


def make(main):
    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    config.Completer.use_jedi = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.ast_node_interactivity = "last_expr"
    config.InteractiveShell.show_rewritten_input = False
    config.InteractiveShell.xmode = "Context"
    kept = sys.displayhook, sys.excepthook
    # The only instance, which get_ipython() finds.
    shell = Shell.instance(user_module=main, user_ns=main.__dict__, config=config)
    sys.displayhook, sys.excepthook = kept
    shell.set_up()
    return shell
