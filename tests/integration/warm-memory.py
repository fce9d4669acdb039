"""Objects of a template lie in memory of Cloche's allocator (PyObjectArenaAllocator): allocated in
several sizes, freed and allocated again."""
from cloche import SHIPPED, equal
from warm import Warm

CHURN = """
def deep(n):
    return n and 1 + deep(n - 1)

def churn(rounds):
    import sys
    sys.setrecursionlimit(50000)
    total = 0
    for i in range(rounds):
        total += deep(4000)                                   # pieces of the interpreter's stack
        rows = [{"k%d" % j: [j] * 3 for j in range(300)} for _ in range(40)]  # arenas
        total += sum(len(row) for row in rows)
        del rows
    return total
"""


def test_stacks_and_arenas_come_and_go():
    with Warm(env=SHIPPED, setup=CHURN + "FIRST = churn(6)\n") as warm:
        expected = 6 * (4000 + 40 * 300)
        equal(warm.value("FIRST"), expected)
        for _ in range(3):
            equal(warm.value("churn(6)"), expected)


def test_a_set_up_may_be_large():
    with Warm(env=SHIPPED, setup="import email.mime.text, http.client, sqlite3, unittest, xml.dom.minidom\nROWS = [{'n': i, 's': str(i) * 5} for i in range(150000)]\n") as warm:
        equal(warm.value("[len(ROWS), ROWS[-1]]"), [150000, {"n": 149999, "s": "149999" * 5}])
        equal(warm.value("ROWS.clear() or len(ROWS)"), 0)
        equal(warm.value("len(ROWS)"), 150000)
