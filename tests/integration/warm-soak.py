"""Many runs of one template, several at once: features that work in the first child work in much later ones."""
from cloche import SHIPPED, equal, sampled
from warm import Warm

NODE = """
export default async (n) => {
  const fs = await import('node:fs/promises')
  const kept = Array.from({ length: 20000 }, (_, i) => ({ i, s: `${i}` }))
  const late = await new Promise((resolve) => setTimeout(resolve, 1, 'late'))
  const text = await fs.readFile('/etc/hostname', 'utf8')
  const [a, b] = await Promise.all([echo(n), echo(n + 1)])
  return [late, text.trim(), kept.filter((o) => o.i % 2).length, a[0], b[0], globalThis.counter++]
}
"""
PYTHON = """
import asyncio, json, threading
def run(n):
    box = []
    threads = [threading.Thread(target=lambda i=i: box.append(echo(i))) for i in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    async def both():
        return await asyncio.gather(echo(n), echo(n + 1))
    global counter
    counter += 1
    return [sorted(x[0] for x in box), asyncio.run(both()), len(json.dumps(list(range(20000)))), counter]
"""
ROUNDS, AT_ONCE = sampled(3, 8), 25


def soak(language, setup, code, expected):
    with Warm(language, setup, spares=2, runs_max=4, env=SHIPPED) as warm:
        for round in range(ROUNDS):
            for result in warm.runs(code, times=AT_ONCE, args=[round]):
                equal(result.value, expected(round), result)


def test_node():
    soak("javascript", "globalThis.counter = 7", NODE, lambda n: ["late", "cloche", 10000, n, n + 1, 7])


def test_python():
    soak("python", "counter = 6", PYTHON, lambda n: [[0, 1, 2], [[n], [n + 1]], 128890, 7])
