"""Matplotlib figures as data: application/vnd.cloche.chart+json (README.md, Charts)."""
import functools
import re
import sys

MAX_POINTS = 10000
MAX_TICKS = 200
UNIT = re.compile(r"[(\[]([^()\[\]]{1,40})[)\]]\s*$")
BOXES, COUNTS, WATCHED = "_cloche_boxes", "_cloche_counts", "_cloche_watched"


def watch():
    """Facts that the finished drawing has lost are recorded while it is drawn: the figures of a
    box, and that bars are counts."""
    from matplotlib.axes import Axes
    if hasattr(Axes.bxp, WATCHED):
        return
    draw_boxes, draw_counts = Axes.bxp, Axes.hist

    @functools.wraps(draw_boxes)
    def bxp(self, bxpstats, *args, **kwargs):
        drawn = draw_boxes(self, bxpstats, *args, **kwargs)
        self.__dict__.setdefault(BOXES, []).append(list(zip(bxpstats, drawn["medians"])))
        return drawn

    @functools.wraps(draw_counts)
    def hist(self, *args, **kwargs):
        drawn = draw_counts(self, *args, **kwargs)
        self.__dict__.setdefault(COUNTS, []).append(drawn)
        return drawn

    setattr(bxp, WATCHED, True)
    Axes.bxp, Axes.hist = bxp, hist


def mean_of(line):
    """The position of a box on either axis."""
    (left, right), (low, high) = [[float(values[0]), float(values[-1])] for values in (line.get_xdata(), line.get_ydata())]
    return (left + right) / 2, (low + high) / 2


def chart_of(figure):
    """Return None if the figure has no drawing of a kind known here."""
    charts = [chart for chart in map(chart_of_axes, figure.axes) if chart is not None]
    if len(charts) < 2:
        return charts[0] if charts else None
    title = figure._suptitle.get_text() if getattr(figure, "_suptitle", None) is not None else ""
    return {"type": "superchart", "title": title, "elements": charts}


def chart_of_axes(axes):
    if axes.get_label() == "<colorbar>" or not axes.get_visible():
        return None
    for kind, find in KINDS:
        elements = find(axes)
        if elements:
            chart = {"type": kind, "title": axes.get_title() or axes.get_title("left") or axes.get_title("right")}
            if kind != "pie":
                chart.update(side("x", axes, axes.xaxis))
                chart.update(side("y", axes, axes.yaxis))
            chart["elements"] = elements
            return chart
    return None


# ---- axes ----

def side(letter, axes, axis):
    label = axis.get_label_text()
    low, high = sorted(axis.get_view_interval())
    ticks = [(value, text.get_text()) for value, text in zip(axis.get_majorticklocs(), axis.get_majorticklabels())]
    ticks = [tick for tick in ticks if low <= tick[0] <= high][:MAX_TICKS]
    told = {letter + "Label": label, letter + "Ticks": [coordinate(value, axis) for value, _ in ticks],
            letter + "TickLabels": [text for _, text in ticks], letter + "Scale": scale_of(axis)}
    unit = UNIT.search(label)
    if unit:
        told[letter + "Unit"] = unit[1].strip()
    return told


def scale_of(axis):
    if categories(axis):
        return "categorical"
    return "datetime" if has_dates(axis) else axis.get_scale()


def converter_of(axis):
    return axis.get_converter() if hasattr(axis, "get_converter") else axis.converter


def has_dates(axis):
    name = type(converter_of(axis)).__name__
    return "Date" in name or "Period" in name


def categories(axis):
    mapping = getattr(axis.units, "_mapping", None)
    return {number: name for name, number in mapping.items()} if mapping else {}


def coordinate(value, axis):
    """A number, or its meaning on this axis: a category's name, or a date."""
    names = categories(axis)
    if names:
        name = names.get(value)
        return str(name) if name is not None else number(value)
    if has_dates(axis):
        return date_at(value, axis)
    return number(value)


def date_at(value, axis):
    if number(value) is None:
        return None
    if "Period" in type(converter_of(axis)).__name__:
        pandas = sys.modules["pandas"]
        return pandas.Period(ordinal=int(value), freq=axis.freq).to_timestamp().isoformat()
    from matplotlib.dates import num2date
    try:
        return num2date(value).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError):
        return number(value)


def number(value):
    try:
        value = float(value)
    except (TypeError, ValueError):
        return str(value)
    if value - value != 0:
        return None
    return int(value) if value == int(value) and abs(value) < 1 << 53 else value


def datum(value, axis):
    """One item of the user's data."""
    if isinstance(value, (int, float)):
        return coordinate(value, axis)
    if hasattr(value, "dtype") and value.dtype.kind == "M":
        return None if value != value else value.astype("datetime64[us]").item().isoformat()
    if hasattr(value, "to_timestamp"):
        value = value.to_timestamp()
    if hasattr(value, "isoformat"):
        return value.isoformat() if value == value else None
    if value is None or isinstance(value, str):
        return value
    return coordinate(value, axis)


# ---- elements ----

def thin(items):
    """(at most MAX_POINTS of them, evenly spaced, with the first and the last; a note about omitted ones)"""
    if len(items) <= MAX_POINTS:
        return items, {}
    last = len(items) - 1
    return [items[round(index * last / (MAX_POINTS - 1))] for index in range(MAX_POINTS)], {"thinned": len(items)}


def points(xs, ys, axes):
    chosen, said = thin(range(min(len(xs), len(ys))))
    return {"points": [[datum(xs[at], axes.xaxis), datum(ys[at], axes.yaxis)] for at in chosen], **said}


def name_of(artist):
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def lines(axes):
    import numpy
    elements = []
    for line in axes.lines:
        xs, ys = (numpy.atleast_1d(numpy.asarray(data)) for data in line.get_data(orig=True))
        if line.get_visible() and len(xs) and not is_marker(line, axes):
            elements.append({"label": name_of(line), **points(xs, ys, axes)})
    return elements + scatters(axes) if elements else []


def is_marker(line, axes):
    """True for axhline and its like, which use the coordinates of the axes and not those of the data."""
    return line.get_transform() != axes.transData


def scatters(axes):
    import numpy
    from matplotlib.collections import PathCollection
    elements = []
    for collection in axes.collections:
        if not isinstance(collection, PathCollection) or not collection.get_visible():
            continue
        offsets = numpy.ma.filled(numpy.ma.asarray(collection.get_offsets(), dtype=float), numpy.nan)
        if len(offsets):
            elements.append({"label": name_of(collection), **points(offsets[:, 0], offsets[:, 1], axes)})
    return elements


def pies(axes):
    from matplotlib.patches import Wedge
    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    return [{"label": name_of(wedge), "angle": number(round(float(wedge.theta2 - wedge.theta1), 4)), "radius": number(wedge.r)}
            for wedge in wedges[:MAX_POINTS]]


def boxes(axes):
    elements = []
    present = set(axes.lines)
    for drawn in axes.__dict__.get(BOXES) or ():
        for box, median in drawn:
            if median not in present:
                continue  # cleared since
            centre = mean_of(median)
            flat = abs(centre[0] - float(box["med"])) < abs(centre[1] - float(box["med"]))
            label = box.get("label") or label_at(axes.yaxis if flat else axes.xaxis, centre[1] if flat else centre[0])
            outliers, said = thin(list(box.get("fliers", ())))
            elements.append({"label": str(label), "min": number(box["whislo"]), "firstQuartile": number(box["q1"]),
                             "median": number(box["med"]), "thirdQuartile": number(box["q3"]), "max": number(box["whishi"]),
                             "outliers": [number(value) for value in outliers], **said})
    return elements


def label_at(axis, where):
    """The text of the tick at a position, else the position."""
    for place, text in zip(axis.get_majorticklocs(), axis.get_majorticklabels()):
        if abs(place - where) < 1e-6 and text.get_text():
            return text.get_text()
    return coordinate(where, axis)


def bar_containers(axes):
    from matplotlib.container import BarContainer
    return [container for container in axes.containers if isinstance(container, BarContainer) and len(container)]


def bars(axes):
    containers, elements = bar_containers(axes), []
    lone = len(containers) == 1
    width = sum(patch.get_width() for container in containers for patch in container)
    for container in containers:
        chosen, said = thin(list(container.patches))
        flat = getattr(container, "orientation", None) == "horizontal"
        group = name_of(container)
        for patch in chosen:
            along = patch.get_y() + patch.get_height() / 2 if flat else patch.get_x() + patch.get_width() / 2
            axis = axes.yaxis if flat else axes.xaxis
            elements.append({"label": str(bar_label(axis, along, lone or not width)), "group": group,
                             "value": number(patch.get_width() if flat else patch.get_height()), **said})
    return elements


def bar_label(axis, along, lone):
    """Bars of several groups stand beside each other around one tick."""
    exact = label_at(axis, along)
    if lone or isinstance(exact, str):
        return exact
    ticks = [(abs(place - along), text.get_text()) for place, text in zip(axis.get_majorticklocs(), axis.get_majorticklabels())]
    ticks = [tick for tick in ticks if tick[1] and tick[0] < 0.5]
    return min(ticks)[1] if ticks else exact


def counts(axes):
    elements = []
    for numbers, edges, drawn in axes.__dict__.get(COUNTS) or ():
        groups = drawn if isinstance(drawn, list) and not hasattr(drawn, "patches") else [drawn]
        if not any(group is artist for group in groups for artist in (*axes.containers, *axes.patches)):
            continue  # cleared since
        rows = numbers if len(groups) > 1 else [numbers]
        for group, row in zip(groups, rows):
            bins, said = thin([[coordinate(edges[at], axes.xaxis), coordinate(edges[at + 1], axes.xaxis), number(row[at])]
                               for at in range(len(row))])
            label = name_of(group) or (name_of(group[0]) if isinstance(group, tuple) and group else "")
            elements.append({"label": label, "bins": bins, **said})
    return elements


def heat(axes):
    from matplotlib.collections import QuadMesh
    import numpy
    elements = []
    for artist in [*axes.images, *[mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]]:
        values = numpy.ma.filled(numpy.ma.asarray(artist.get_array(), dtype=float), numpy.nan)
        if values.ndim == 1:
            values = in_rows(values, artist)
        if values.ndim != 2 or not values.size:
            continue  # a picture
        step = max(1, int(numpy.ceil((values.size / MAX_POINTS) ** 0.5)))
        said = {"thinned": int(values.size)} if step > 1 else {}
        elements.append({"label": name_of(artist), "rows": values.shape[0], "columns": values.shape[1],
                         "values": [[number(value) for value in row] for row in values[::step, ::step]], **said})
    return elements


def in_rows(values, mesh):
    """matplotlib before 3.8 keeps a mesh's values flat; there are as many values as cells between
    corners, or as corners."""
    rows, columns = mesh.get_coordinates().shape[:2]
    for shape in ((rows - 1, columns - 1), (rows, columns)):
        if shape[0] * shape[1] == values.size:
            return values.reshape(shape)
    return values


KINDS = (("pie", pies), ("box_and_whisker", boxes), ("histogram", counts), ("bar", bars), ("heatmap", heat), ("line", lines),
         ("scatter", scatters))
