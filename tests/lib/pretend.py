"""Kernels that lack a feature: runs a command in which system calls return a result without being executed."""
import errno

SECCOMP, LANDLOCK_MAKE, LANDLOCK_ENTER = 317, 444, 446
DONE = 0
MISSING = errno.EOPNOTSUPP

CODE = """
import ctypes, os, struct, sys
pairs, command = eval(sys.argv[1]), sys.argv[2:]
steps = [(0x20, 0, 0, 0)]  # BPF_LD: the number
for number, answer in pairs: steps += [(0x15, 0, 1, number), (6, 0, 0, 0x50000 | answer)]  # BPF_JEQ; SECCOMP_RET_ERRNO
steps.append((6, 0, 0, 0x7fff0000))  # SECCOMP_RET_ALLOW
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(text)))
libc = ctypes.CDLL(None, use_errno=True)
if os.getuid(): libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
if libc.prctl(22, 2, program, 0, 0): raise OSError(ctypes.get_errno(), "seccomp")
os.execvp(command[0], command)
"""


def where(*answers):
    """answers: (number of a system call, DONE or an errno). Returns a command to put before another."""
    return ["/usr/bin/python3", "-c", CODE, repr(answers)]
