"""Time limits of tests grow with the cost of the machine's forks (lib/patience.py)."""
import os

from cloche import HANG, equal
from patience import PATIENCE


def test_the_measured_factor_reaches_tests():
    equal(PATIENCE, float(os.environ["CLOCHE_TEST_PATIENCE"]))
    equal(HANG, 50 * PATIENCE)
