"""Pictures, tables and charts of cells."""
import os
import unittest

from contexts import Context, ContextCase, SharedCase
from context_process import CHART
from harness import RUNTIME

PNG = b"\x89PNG\r\n\x1a\n"


class Libraries(SharedCase):
    def test_pandas(self):
        self.run_cell("import pandas as pd")
        data = self.shown("pd.DataFrame({'a': [1], 'b': ['x']})")
        self.assertEqual(data["text/plain"], "   a  b\n0  1  x")
        self.assertIn("<td>x</td>", data["text/html"])
        self.assertEqual(self.text("pd.Series([1])"), "0    1\ndtype: int64")
        error = self.error("pd.DataFrame({'a': [1]})['zz']")
        self.assertEqual((error["name"], error["message"]), ("KeyError", "'zz'"))
        self.assertTrue(any(line.startswith("Cell In[4], line 1") for line in error["traceback"]))

    def test_numpy_and_pictures(self):
        self.assertEqual(self.shown("import numpy as np\nnp.arange(3)"), {"text/plain": "array([0, 1, 2])"})
        data = self.shown("from PIL import Image\nImage.new('RGB', (2, 2))")
        self.assertEqual(data["image/png"][:8], PNG)

    def test_bundles_of_other_libraries(self):
        data = self.shown("class Figure:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
                          "        return {'application/vnd.plotly.v1+json': {'data': [{'x': [1.5]}]}, 'text/html': '<p>'}\nFigure()")
        self.assertEqual(data["application/vnd.plotly.v1+json"], {"data": [{"x": [1.5]}]})


class Figures(SharedCase):
    """Each test's figures are those of the last cell."""

    def setUp(self):
        super().setUp()
        self.run_cell("import matplotlib.pyplot as plt\nimport numpy as np")

    def chart(self, code):
        displays = self.run_cell(code + "\nNone")
        self.assertEqual(len(displays), 1)
        self.assertFalse(displays[0]["isResult"])
        self.assertEqual(displays[0]["data"]["image/png"][:8], PNG)
        self.assertEqual(displays[0]["metadata"], {})
        return displays[0]["data"][CHART]

    def elements(self, code, kind):
        chart = self.chart(code)
        self.assertEqual(chart["type"], kind)
        return chart["elements"]

    def test_shown_once_and_closed(self):
        self.chart("plt.plot([1, 2])")
        self.assertEqual(self.text("plt.get_fignums()"), "[]")
        self.chart("plt.plot([1, 2])\nplt.show()")
        self.assertEqual(len(self.run_cell("plt.figure(); plt.plot([1])\nplt.figure(); plt.plot([2])\nNone")), 2)

    def test_shown_where_show_stands_and_after_an_error(self):
        self.context.begin("plt.plot([1])\nplt.show()\ninput()")
        shown = self.context.next()
        self.assertEqual(shown[0]["method"], "display")
        self.context.hear(*shown)
        message, _ = self.context.next()
        self.context.answer_input(message["id"], "")
        self.context.finish()
        self.error("plt.plot([1])\n1/0")
        self.assertEqual(len(self.context.displays), 1)

    def test_agg_by_name(self):
        self.own_context()
        self.run_cell("import matplotlib.pyplot as plt")
        self.assertEqual(len(self.run_cell("import matplotlib\nmatplotlib.use('Agg')\nplt.plot([1])\nNone")), 0)

    def test_lines(self):
        chart = self.chart("plt.plot([1, 2, 3], [4, 5, float('nan')], label='a')\nplt.plot([1], [2])\nplt.axhline(3)\n"
                           "plt.title('T'); plt.xlabel('time (s)'); plt.ylabel('mass [kg]')\nplt.xticks([1, 2]); plt.yscale('log')")
        self.assertEqual({key: chart[key] for key in ("type", "title", "xLabel", "yLabel", "xUnit", "yUnit", "xTicks", "xScale", "yScale")},
                         {"type": "line", "title": "T", "xLabel": "time (s)", "yLabel": "mass [kg]", "xUnit": "s", "yUnit": "kg",
                          "xTicks": [1, 2], "xScale": "linear", "yScale": "log"})
        self.assertEqual(chart["elements"], [{"label": "a", "points": [[1, 4], [2, 5], [3, None]]}, {"label": "", "points": [[1, 2]]}])

    def test_scatter(self):
        self.assertEqual(self.elements("plt.scatter([1, 2], [3, 4.5], label='s')", "scatter"), [{"label": "s", "points": [[1, 3], [2, 4.5]]}])

    def test_thinned(self):
        element, = self.elements("plt.scatter(np.arange(30000), np.arange(30000))", "scatter")
        self.assertEqual((len(element["points"]), element["thinned"]), (10000, 30000))
        self.assertEqual((element["points"][0], element["points"][-1]), ([0, 0], [29999, 29999]))

    def test_bars(self):
        self.assertEqual(self.elements("plt.bar(['a', 'b'], [1, 2])", "bar"),
                         [{"label": "a", "group": "", "value": 1}, {"label": "b", "group": "", "value": 2}])
        self.assertEqual(self.elements("plt.barh(['a', 'b'], [1, 2], label='g')", "bar")[1], {"label": "b", "group": "g", "value": 2})
        code = "import pandas as pd\npd.DataFrame({'m': [1, 2], 'n': [3, 4]}, index=['u', 'v']).plot.bar()"
        self.assertEqual([(row["label"], row["group"], row["value"]) for row in self.elements(code, "bar")],
                         [("u", "m", 1), ("v", "m", 2), ("u", "n", 3), ("v", "n", 4)])

    def test_histogram(self):
        self.assertEqual(self.elements("plt.hist([1, 2, 2, 3], bins=2, label='h')", "histogram"),
                         [{"label": "h", "bins": [[1, 2, 1], [2, 3, 3]]}])
        self.assertEqual(self.chart("plt.hist([1, 2])\nplt.cla()\nplt.bar([1], [2])")["type"], "bar")

    def test_pie(self):
        self.assertEqual(self.elements("plt.pie([1, 2, 3], labels=['x', 'y', 'z'])", "pie"),
                         [{"label": "x", "angle": 60, "radius": 1}, {"label": "y", "angle": 120, "radius": 1},
                          {"label": "z", "angle": 180, "radius": 1}])

    def test_boxes(self):
        elements = self.elements("plt.boxplot([[1, 2, 3, 4, 50], [2, 3, 4]], labels=['p', 'q'])", "box_and_whisker")
        self.assertEqual(elements[0], {"label": "p", "min": 1, "firstQuartile": 2, "median": 3, "thirdQuartile": 4, "max": 4, "outliers": [50]})
        self.assertEqual(elements[1]["label"], "q")
        self.assertEqual(self.chart("plt.boxplot([1, 2])\nplt.cla()\nplt.plot([1, 2])")["type"], "line")

    def test_heatmap(self):
        self.assertEqual(self.elements("plt.imshow([[1, 2, 3], [4, 5, 6]]); plt.colorbar()", "heatmap"),
                         [{"label": "", "rows": 2, "columns": 3, "values": [[1, 2, 3], [4, 5, 6]]}])
        element, = self.elements("plt.pcolormesh(np.zeros((300, 200)))", "heatmap")
        self.assertLessEqual(sum(map(len, element["values"])), 10000)
        self.assertEqual((element["rows"], element["columns"], element["thinned"]), (300, 200, 60000))

    def test_several_axes(self):
        chart = self.chart("fig, (a, b) = plt.subplots(1, 2)\na.plot([1, 2]); b.pie([1]); fig.suptitle('S')")
        self.assertEqual((chart["type"], chart["title"]), ("superchart", "S"))
        self.assertEqual([part["type"] for part in chart["elements"]], ["line", "pie"])

    def test_dates(self):
        chart = self.chart("import datetime\nplt.plot([datetime.date(2026, 1, 1), datetime.date(2026, 1, 3)], [1, 2])")
        self.assertEqual((chart["elements"][0]["points"], chart["xScale"]), ([["2026-01-01", 1], ["2026-01-03", 2]], "datetime"))
        self.assertEqual(chart["xTicks"][0], "2026-01-01T00:00:00")
        chart = self.chart("import pandas as pd\npd.Series([1, 2], index=pd.date_range('2026-01-01', periods=2)).plot()")
        self.assertEqual(chart["elements"][0]["points"], [["2026-01-01T00:00:00", 1], ["2026-01-02T00:00:00", 2]])
        chart = self.chart("plt.scatter(np.array(['2026-01-01', 'NaT'], 'M8[D]'), [1, 2])")
        self.assertEqual(chart["elements"][0]["points"][0], ["2026-01-01T00:00:00", 1])

    def test_pictures_and_nothing_have_none(self):
        self.assertNotIn(CHART, self.run_cell("plt.imshow(np.zeros((2, 2, 3)))\nNone")[0]["data"])
        self.assertNotIn(CHART, self.run_cell("plt.plot([])\nNone")[0]["data"])


class FromTheNotebookPrefix(ContextCase):
    def setUp(self):
        self.context = Context()
        self.addCleanup(self.context.end)
        code = (RUNTIME / "notebook.py").read_text()
        answer = self.context.ask("prepare", code=code, filename="notebook.py", globals={}, imports={})
        self.assertIn("result", answer)
        self.assertEqual(len(os.listdir("/proc/%d/task" % self.context.agent.process.pid)), 1, "threads are alive")
        self.context.opened()

    def test_nothing_is_left_of_it(self):
        self.assertEqual(self.text("sorted(n for n in globals() if n[0] != '_' and n != 'open')"), "['In', 'Out', 'exit', 'get_ipython', 'quit']")
        self.assertEqual(self.text("import sys\nall(n in sys.modules for n in ('numpy', 'pandas', 'matplotlib.pyplot', 'PIL.Image'))"), "True")
        self.assertEqual(self.text("In[2][:10], len(Out), _i2[:3]"), "('import sys', 2, 'imp')")

    def test_everything_works_as_without_it(self):
        self.assertEqual(self.run_cell("import matplotlib.pyplot as plt\nplt.plot([1])\nNone")[0]["data"][CHART]["type"], "line")
        self.assertEqual(self.run_cell("plt.boxplot([1, 2])\nNone")[0]["data"][CHART]["type"], "box_and_whisker")
        self.assertEqual(self.text("import asyncio\nawait asyncio.sleep(0, 5)"), "5")
        self.assertEqual(self.text("input()", lines=["x"]), "'x'")
        self.assertEqual(self.error("1/0")["name"], "ZeroDivisionError")
        self.assertEqual(self.printed_by("!true"), "")


if __name__ == "__main__":
    unittest.main()
