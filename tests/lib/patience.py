"""How patient tests are. Time limits in tests end what hangs; they measure nothing. A machine that is slow, busy or
emulated needs longer for everything, so the limits are multiplied by PATIENCE."""
import os
import statistics
import time

VARIABLE = "CLOCHE_TEST_PATIENCE"
USUAL_FORK_SECONDS = 0.0015  # fork, exit and wait of a small Python on the machines that the limits were chosen on
LEAST, MOST = 2.0, 5.0  # other work may begin after the measurement
PATIENCE = float(os.environ.get(VARIABLE, "1"))


def fork_seconds():
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return time.monotonic() - begun


def measure():
    """Set the variable for the processes that this one starts, unless somebody has set it, and PATIENCE
    for modules that forked children import later; return the factor."""
    global PATIENCE
    if VARIABLE not in os.environ:
        factor = statistics.median(fork_seconds() for _ in range(31)) / USUAL_FORK_SECONDS
        os.environ[VARIABLE] = f"{min(max(factor, LEAST), MOST):.1f}"
    PATIENCE = float(os.environ[VARIABLE])
    return PATIENCE
