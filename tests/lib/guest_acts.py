"""Python for a guest that tries acts. Each prints its name and "done", the word that it returned, or the kernel's reason."""

ACTS = r"""
import ctypes, errno, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def act(name, do):
    try: said = do() or 'done'
    except OSError as e: said = errno.errorcode[e.errno]
    print(name, said, flush=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno(), 'syscall')
def put(path, text='x'):
    with open(path, 'a') as file: file.write(text)
"""


def words_of(text):
    return dict(line.split(" ", 1) for line in text.splitlines())


def run_acts(box, script, **how):
    """The words of the script's acts, by name, in a box of lib/keeper_boxes."""
    program = box.python(script, **how)
    said = program.read()
    program.wait()
    program.close()
    return words_of(said)
