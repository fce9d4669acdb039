#!/usr/bin/env python3
"""A workspace that stays: a program is written, tested, mended and served in one sandbox, as an agent would.

The agent here is a script, so that this runs anywhere. What it does to the sandbox it does by commands and files; nothing of this machine is in
there, and the sandbox has no network."""
import cloche

PROGRAM = "import sys\n\ndef total(words):\n    return sum(words)\n\nif __name__ == '__main__':\n    print(total(sys.argv[1:]))\n"


def show(title, lines):
    print(f"--- {title}")
    for line in lines:
        print(line.rstrip())


def attempt(box):
    """Run it, and say what it said last."""
    done = box.exec("python3 total.py 1 2 3", timeout_ms=10_000)
    show(f"exit {done.exit_code}", (done.stdout + done.stderr).splitlines()[-1:])
    return done.success


def main():
    with cloche.Cloche() as client, client.sandbox(limits={"memory_bytes": 256 << 20}) as box:
        box.write_file("total.py", PROGRAM)
        if not attempt(box):
            found = box.search("total.py", text="sum(words)").matches[0]
            show("mending", [f"line {found.line}: {found.text}"])
            box.replace("total.py", "sum(map(int, words))", text="sum(words)")
            attempt(box)

        # A session keeps what a shell keeps; its output may be read while it comes.
        with box.session(cwd="/tmp") as session:
            session.exec("COUNT=3")
            show("as it comes", (output.data.decode() for output in session.stream("for i in $(seq $COUNT); do echo step $i; done")))

        server = box.start("exec python3 -u -m http.server 8000 --bind 127.0.0.1")
        server.wait_for(port=8000, timeout_ms=20_000)
        show("served", box.exec("python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/total.py').status)\"").stdout.splitlines())
        show("left", [f"{entry.type} {entry.relative_path}" for entry in box.walk() if entry.type == "file" and entry.name.endswith(".py")])
        print("server:", server.kill().status)


if __name__ == "__main__":
    main()
