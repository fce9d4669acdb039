#!/usr/bin/env python3
"""An interpreter that stays: data are prepared once, then several ways are tried at the same time, each in a copy of the live interpreter.

What the code displays comes in all its forms; the chart comes as a picture and as data."""
import asyncio

import cloche

PREPARE = """
import pandas as pd
rows = pd.DataFrame({'river': ['Nile', 'Amazon', 'Yangtze', 'Congo'], 'km': [6650, 6400, 6300, 4700]})
print(len(rows), 'rows')
"""
WAYS = {
    "mean": "rows.km.mean()",
    "longest": "rows.loc[rows.km.idxmax(), 'river']",
    "mistake": "rows.kilometres.sum()",
    "drop": "rows.drop(rows.index, inplace=True); len(rows)",  # spoils its own copy only
}
CHART = "import matplotlib.pyplot as plt\n_ = plt.bar(rows.river, rows.km)\nplt.show()"


async def attempt(copy, name):
    done = await copy.run(WAYS[name], timeout_ms=10_000)
    return f"{name}: {done.text if done.success else done.error}"


async def main():
    async with cloche.AsyncCloche() as client, client.sandbox() as box:
        context = await box.context(forkable=True)
        await context.run(PREPARE, on_stdout=lambda text: print(text, end=""))
        copies = await context.fork(len(WAYS))
        for line in await asyncio.gather(*map(attempt, copies, WAYS)):
            print(line)
        print("rows left:", (await context.run("len(rows)")).text)
        shown = (await context.run(CHART)).displays[0]
        print(shown.formats(), shown.chart["type"], f"{len(shown.png) > 1000}")


if __name__ == "__main__":
    asyncio.run(main())
