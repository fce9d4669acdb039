"""How a program without a filter ends that enters the kernel by int 0x80, the entrance of 32-bit programs.

Some hosts do not have it: kernels without CONFIG_IA32_EMULATION, some virtual machines, and 32-bit emulation that is
switched off on the kernel's command line. There the processor's fault ends the program before a filter sees a call."""
import signal
import subprocess
import sys

GETPID = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov eax, 20; int 0x80; ret

PROGRAM = f"""
import ctypes, mmap, os
area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
area.write({GETPID!r})
os._exit(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))() != os.getpid())
"""


def signal_in_a_box():
    """Return the signal that must end such a program in a box: SIGSYS of the filter, or the host's own fault.
    Prints which of both it is, for a reader of the test's log."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM]).returncode
    assert ended in (0, -signal.SIGSEGV), f"int 0x80 outside of a box ended with {ended}"
    print("+ int 0x80 outside of a box:", "a system call" if ended == 0 else "the host has no such entrance")
    return signal.SIGSYS if ended == 0 else signal.SIGSEGV
