"""The agent of C and C++. CLOCHE_BUILD names the build directory."""
import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import agent_process


HERE = pathlib.Path(__file__).resolve().parent
KEPT = os.path.join(os.path.expanduser("~"), ".cache", "cloche", "test-programs")


class Agent(agent_process.Agent):
    """Its g++ is the one of kept/, unless PATH is given."""

    def __init__(self, language="c", **env):
        os.makedirs(KEPT, exist_ok=True)
        env = {"PATH": f"{HERE}/kept:/usr/bin:/bin", "KEPT_PROGRAMS": KEPT, **env}
        manifest, workdir = agent_process.manifest_of(language), tempfile.mkdtemp()
        super().__init__(agent_process.command_of(manifest, agent_process.BUILD), manifest["extension"],
                         {"TMPDIR": workdir, **manifest["env"], **env}, result_bytes=1 << 20, workdir=workdir)

    def params(self, **params):
        return {"filename": "main" + self.extension, "function": None, "build": None, **params}


class AgentCase(agent_process.AgentCase):
    """Each call has an agent of its own; or, in classes with CODE, calls go to functions of one program."""
    language, CODE = "c", None

    def start(self):
        return Agent(self.language)

    @classmethod
    def setUpClass(cls):
        if cls.CODE:
            cls.program = Agent(cls.language)
            answer, _ = cls.program.ask("prepare", **cls.program.params(code=cls.CODE, globals={}, imports={}))
            assert "result" in answer, answer

    @classmethod
    def tearDownClass(cls):
        if cls.CODE:
            assert cls.program.end()[0] == 0

    def answer_and_attachments(self, code, *args, attachments=b"", **params):
        if self.CODE:
            return self.program.request(attachments, code=self.CODE, function=code, **{"args": list(args), **params})
        return super().answer_and_attachments(code, *args, attachments=attachments, **params)

    def fails(self, kind, message, code, *args, **params):
        error = self.error(code, *args, **params)
        self.assertEqual(error["type"], kind, error)
        self.assertIn(message, error["message"])
        return error

    def refuses(self, message, code, *args, **params):
        return self.fails("TypeError", message, code, *args, **params)
