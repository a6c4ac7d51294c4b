"""Log curves, charts and media to Weir: one plain file, no dependencies.

    import weir

    weir.log({"loss": 0.5, "acc": 0.8}, step=1)     # or weir.log(1, loss=0.5)
    weir.log(loss=0.4)                              # the next step
    weir.log({"loss": 0.7}, step=1, run="baseline") # a second curve
    weir.configure_dashboard({"Loss": ["loss", "val_loss"]})
    weir.log_image("val/pred", array, step=1, caption="after one epoch")
    lr = weir.config.get("lr", 0.01)                # of weir run --set lr=0.1; {} outside of Weir

Each call prints one line of JSON to standard output, whole and at once, also
from several threads and processes. Outside of Weir the lines are all that
happens, so the same script runs anywhere. Inside of Weir every Python program
can import this module; a weir.py of your own beside your script comes first.
Finish a line of your own before you log: text before the JSON spoils it.

Calling a function wrongly raises TypeError or ValueError. A value that cannot
be logged does not: a line on standard error says so, and the program goes on.
What is logged counts as output of the run, which has a limit.
Python 3.8 or newer. Apache License 2.0.
"""

import functools
import json
import math
import os
import stat
import sys
import threading

try:
    import fcntl
except ImportError:  # Windows: there lines of several processes may mix
    fcntl = None

__all__ = [
    "config", "configure_dashboard", "log", "log_confusion_matrix", "log_figure", "log_histogram", "log_image",
    "log_images", "log_pr", "log_roc", "log_table", "log_text",
]

MAX_LINE = 8000000  # bytes; Weir reads lines of up to 8 MiB
MAX_FILE = 5900000  # bytes of an encoded image: base64 adds a third
MAX_PNG = 2000000  # bytes of an image that this module encodes
MAX_IMAGES, MAX_ROWS, MAX_CELL, MAX_TEXT = 64, 10000, 10000, 1000000
MAX_CLASSES, MAX_BINS, MAX_CURVE = 500, 512, 1000


class CannotLog(ValueError):
    """Why a value is left out. Never leaves this module."""


_lock = threading.RLock()
_steps = {}  # the last step of each run tag
_warned = set()


def _after_fork():
    global _lock
    _lock = threading.RLock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _checked(function):
    """Lets nothing out but TypeError and ValueError, which are about the call."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError):
            raise
        except Exception as why:  # whatever a foreign type raises
            _warn("%s() left out what it was given: %s: %s" % (function.__name__, _kind(why), _said(why)))

    return call


def _text(value):
    """str(value), unless the value has none."""
    try:
        return str(value)
    except Exception as why:  # whatever a foreign type raises
        raise CannotLog("str() of a %s raises %s" % (_kind(value), _kind(why))) from None


def _said(why):
    try:
        return str(why)
    except Exception:  # a foreign type's as well
        return "?"


# --- numbers -----------------------------------------------------------------


@_checked
def log(*args, step=None, metrics=None, run=None, **values):
    """Log numbers as points of curves.

    log({"loss": 0.5}, step=1)   log({"loss": 0.5}, 1)   log(loss=0.5, step=1)
    log(1, loss=0.5)             log(1, {"loss": 0.5})   log("loss", 0.5, step=1)

    Without a step it is one more than the run tag's last one, at first 1. Nested
    dictionaries give names with slashes. A metric whose name is step, metrics or
    run goes into a dictionary. None is left out; NaN and infinities are kept;
    scalars of numpy, torch and others count as numbers.
    """
    named, found = {}, list(args)
    if found and isinstance(found[0], str):
        if len(found) < 2:
            raise TypeError("log(%r): a name needs a value: log(%r, 0.5)" % (found[0], found[0]))
        named[found[0]] = found[1]
        found = found[2:]
    for arg in found:
        if hasattr(arg, "items"):
            named.update(arg.items())
        elif step is None:
            step = arg
        else:
            raise TypeError("log() takes one step and dictionaries of metrics, but %r is neither" % (arg,))
    if metrics is not None:
        if not hasattr(metrics, "items"):
            raise TypeError("log(metrics=...) must be a dictionary of names and numbers, not %s" % _kind(metrics))
        named.update(metrics.items())
    named.update(values)
    if not named and metrics is None and not any(hasattr(arg, "items") for arg in args):
        raise TypeError("log() was given no metrics: log({'loss': 0.5}, step=1)")
    with _lock:
        try:
            record = {"step": _take_step(step, run, True), "metrics": _points(named, "", {}, 0)}
            if run is not None:
                record["run"] = _text(run)
            if record["metrics"]:
                _emit_points(record)
        except CannotLog as why:
            _warn("log() left out a line: %s" % why)


def _points(metrics, prefix, points, depth):
    if depth > 20:
        raise CannotLog("the dictionaries are nested too deep")
    for name, value in metrics.items():
        try:
            name = prefix + _text(name)
        except CannotLog as why:
            _warn("log() left out a metric: %s" % why)
            continue
        if hasattr(value, "items"):
            _points(value, name + "/", points, depth + 1)
        elif value is None:
            _warn("log() leaves out %r where it is None" % name)
        else:
            try:
                points[name] = _number(value)
            except Exception as why:  # whatever a foreign type raises
                _warn("log() left out %r: %s" % (name, _said(why)))
    return points


def _emit_points(record):
    try:
        _emit(record)
    except CannotLog:  # too long for one line
        points = list(record["metrics"].items())
        if len(points) < 2:
            raise
        for half in (points[: len(points) // 2], points[len(points) // 2 :]):
            _emit_points(dict(record, metrics=dict(half)))


def _number(value):
    """An int or a float, from anything that is one number."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):  # a bool is 1 or 0
        return int(value) if value.bit_length() <= 1024 else (math.inf if value > 0 else -math.inf)
    if isinstance(value, (str, bytes, bytearray, complex)):
        raise CannotLog("a %s is no number" % _kind(value))
    if callable(getattr(value, "item", None)):  # numpy, torch, jax; raises if it holds several
        inner = value.item()
        if not isinstance(inner, (int, float)):
            raise CannotLog("a %s is no number" % _kind(value))
        return _number(inner)
    if hasattr(value, "__index__"):
        return _number(value.__index__())
    return float(value)


def _take_step(step, run, advance):
    """The step of a line: as given, or the run tag's last one, or the next."""
    tag = None if run is None else _text(run)
    if step is None:
        step = _steps.get(tag, 0) + (1 if advance else 0)
    else:
        if isinstance(step, (str, bytes)) or not any(hasattr(step, m) for m in ("item", "__index__", "__int__")):
            raise TypeError("step must be a whole number, not %s %r" % (_kind(step), step))
        try:
            number = _number(step)
        except (TypeError, ValueError) as why:
            raise CannotLog("the step: %s" % why) from None
        if not math.isfinite(number) or not -(2**63) <= int(number) < 2**63:
            raise CannotLog("the step %r is no 64-bit integer" % number)
        step = int(number)
    if advance:
        _steps[tag] = step
    return step


# --- charts ------------------------------------------------------------------


@_checked
def configure_dashboard(charts):
    """Say which charts the page shows.

    configure_dashboard({"Loss": ["loss", "val_loss"]})
    configure_dashboard([{"title": "Loss", "metrics": ["loss", "val_loss"], "type": "line"}, "accuracy"])
    """
    if isinstance(charts, dict):
        charts = charts["charts"] if set(charts) == {"charts"} else [{"title": t, "metrics": m} for t, m in charts.items()]
    if not isinstance(charts, (list, tuple)):
        raise TypeError("configure_dashboard() takes a list of charts or a dictionary of titles, not %s" % _kind(charts))
    done = []
    for chart in charts:
        if isinstance(chart, str):
            chart = {"title": chart, "metrics": [chart]}
        if not isinstance(chart, dict) or "metrics" not in chart:
            raise TypeError("a chart is {'title': ..., 'metrics': [...], 'type': 'line'}, not %r" % (chart,))
        names = [chart["metrics"]] if isinstance(chart["metrics"], str) else list(chart["metrics"])
        if not all(isinstance(name, str) for name in names):
            raise TypeError("the metrics of a chart are names, not %r" % (names,))
        done.append(dict({"title": ", ".join(names), "type": "line"}, **dict(_plain(chart), metrics=names)))
    try:
        _emit({"chart_config": {"charts": done}})
    except CannotLog as why:
        _warn("configure_dashboard() printed nothing: %s" % why)


# --- media -------------------------------------------------------------------


@_checked
def log_image(key, image, step=None, caption=None, run=None):
    """Log an image: an array (uint8, or floats of 0 to 1; gray, RGB or RGBA), a
    PIL image, nested lists, the path of a file, or the bytes of a PNG or JPEG."""
    if hasattr(image, "savefig"):
        return log_figure(key, image, step, run=run, caption=caption)
    _media("log_image", "image", key, step, run, lambda: _image(key, image, caption, MAX_PNG))


@_checked
def log_images(key, images, step=None, captions=None, run=None):
    """Log several images as a grid; see log_image."""

    def make():
        taken = list(images)
        if len(taken) > MAX_IMAGES:
            _warn("log_images() shows the first %d of %d images of %r" % (MAX_IMAGES, len(taken), key))
        names = list(captions or [])[: len(taken)]
        names += [None] * (len(taken) - len(names))
        limit = min(MAX_PNG, MAX_FILE // max(1, min(len(taken), MAX_IMAGES)))
        return {"images": [_image(key, x, c, limit) for x, c in list(zip(taken, names))[:MAX_IMAGES]]}

    _media("log_images", "image_grid", key, step, run, make)


@_checked
def log_figure(key, figure, step=None, run=None, caption=None):
    """Log a matplotlib figure as an image, or a plotly figure."""
    if not hasattr(figure, "savefig") and hasattr(figure, "get_figure"):
        figure = figure.get_figure()  # axes
    if hasattr(figure, "savefig"):
        _media("log_figure", "image", key, step, run, lambda: _encoded(key, _drawn(figure), caption))
    elif hasattr(figure, "to_json"):
        _media("log_figure", "plotly", key, step, run, lambda: _plotly(json.loads(figure.to_json())))
    elif isinstance(figure, dict):
        _media("log_figure", "plotly", key, step, run, lambda: _plotly(_plain(figure)))
    else:
        raise TypeError("log_figure() takes a matplotlib or plotly figure, not %s" % _kind(figure))


@_checked
def log_table(key, columns=None, rows=None, step=None, run=None):
    """Log a table: names of columns and rows, a pandas DataFrame, a dictionary of
    columns, or a list of dictionaries."""
    if columns is None and rows is None:
        raise TypeError("log_table() needs columns and rows, or a DataFrame")
    table = rows if columns is None else columns

    def make():
        names, body = columns, rows
        if hasattr(table, "itertuples"):
            names, body = list(table.columns), table.itertuples(index=False, name=None)
        elif isinstance(table, dict):
            names, body = list(table), zip(*(_list(column) for column in table.values()))
        elif columns is None or rows is None:
            table_rows = list(table)
            names = list(dict.fromkeys(name for row in table_rows for name in row))
            body = [[row.get(name) for name in names] for row in table_rows]
        cut, total = [], 0
        for row in body if not hasattr(body, "tolist") else _list(body):
            total += 1
            if total <= MAX_ROWS:
                cut.append([_plain(cell) for cell in (_list(row) if not isinstance(row, dict) else [row.get(n) for n in names])])
        data = {"columns": [str(name) for name in names], "rows": cut}
        while len(cut) > 1 and len(json.dumps(data)) > MAX_LINE - 10000:
            data["rows"] = cut = cut[: len(cut) // 2]
        if len(cut) < total:
            data["total"] = total
            _warn("log_table() keeps %d of the %d rows of %r" % (len(cut), total, key))
        return data

    _media("log_table", "table", key, step, run, make)


@_checked
def log_histogram(key, values=None, step=None, bins=30, edges=None, counts=None, run=None):
    """Log the distribution of values, or counts between given edges."""
    if (values is None) == (edges is None or counts is None):
        raise TypeError("log_histogram() needs either values, or both edges and counts")
    if not isinstance(bins, int) or not 1 <= bins <= MAX_BINS:
        raise ValueError("bins must be a number from 1 to %d, not %r" % (MAX_BINS, bins))
    make = (lambda: _histogram(values, bins)) if values is not None else (lambda: _counted(edges, counts))
    _media("log_histogram", "histogram", key, step, run, make)


@_checked
def log_confusion_matrix(key, matrix=None, labels=None, step=None, y_true=None, y_pred=None, run=None):
    """Log a matrix (a row per true class, a column per predicted one), or the
    true and predicted classes to count."""
    if (matrix is None) == (y_true is None or y_pred is None):
        raise TypeError("log_confusion_matrix() needs either a matrix, or both y_true and y_pred")

    def make():
        names = None if labels is None else list(_list(labels))
        rows = _list(matrix) if matrix is not None else None
        if rows is None:
            names, rows = _count_classes(_list(y_true), _list(y_pred), names)
        rows = [[_number(n) for n in _list(row)] for row in rows]
        names = [str(n) for n in (range(len(rows)) if names is None else names)]
        if len(rows) > MAX_CLASSES or any(len(row) != len(names) for row in rows) or len(rows) != len(names):
            raise CannotLog("a matrix needs as many rows and columns as labels, %d at most" % MAX_CLASSES)
        return {"labels": names, "matrix": rows}

    _media("log_confusion_matrix", "confusion_matrix", key, step, run, make)


@_checked
def log_roc(key, y_true, y_score, labels=None, step=None, run=None):
    """Log the ROC curve of scores; a column of scores per class gives a curve each."""
    _media("log_roc", "roc", key, step, run, lambda: _curves(y_true, y_score, labels, _roc))


@_checked
def log_pr(key, y_true, y_score, labels=None, step=None, run=None):
    """Log the curve of precision over recall; see log_roc."""
    _media("log_pr", "pr", key, step, run, lambda: _curves(y_true, y_score, labels, _pr))


@_checked
def log_text(key, text, step=None, run=None, markdown=False):
    """Log a text, plain or Markdown."""

    def make():
        words = str(text)
        if len(words) > MAX_TEXT:
            _warn("log_text() keeps %d of the %d characters of %r" % (MAX_TEXT, len(words), key))
        return {"text": words[:MAX_TEXT], "format": "markdown" if markdown else "plain"}

    _media("log_text", "text", key, step, run, make)


def _media(function, kind, key, step, run, make):
    if not isinstance(key, str):
        raise TypeError("%s(): the key is a string such as 'val/pred', not %s" % (function, _kind(key)))
    try:
        record = {"type": kind, "step": _take_step(step, run, False), "key": key}
        if run is not None:
            record["run"] = _text(run)
    except CannotLog as why:
        return _warn("%s() left out %r: %s" % (function, key, why))
    try:
        record["data"] = make()
        _emit({"log": record})
    except CannotLog as why:
        _warn("%s() left out %r: %s" % (function, key, why))
    except Exception as why:  # whatever a foreign type raises
        _warn("%s() left out %r: %s: %s" % (function, key, _kind(why), _said(why)))


# --- images ------------------------------------------------------------------


def _image(key, image, caption, limit):
    if isinstance(image, (str, os.PathLike)):
        if not stat.S_ISREG(os.stat(image).st_mode):
            raise CannotLog("%s is not a regular file" % os.fspath(image))
        with open(image, "rb") as file:
            return _encoded(key, file.read(MAX_FILE + 1), caption)
    if isinstance(image, (bytes, bytearray, memoryview)):
        return _encoded(key, bytes(image), caption)
    width, height, channels, pixels = _pixels(image)
    if width < 1 or height < 1 or len(pixels) != width * height * channels:
        raise CannotLog("an image of %d x %d pixels with %d bytes" % (width, height, len(pixels)))
    asked, factor = (width, height), math.ceil(math.sqrt(width * height / 8000000))
    while True:
        if factor > 1:
            width, height, pixels = _thin(width, height, channels, pixels, factor)
        png = _png(width, height, channels, pixels)
        if len(png) <= limit or width * height == 1:
            break
        factor = max(2, math.ceil(math.sqrt(len(png) / limit)))
    if asked != (width, height):
        _warn("the image %r was reduced from %d x %d to %d x %d pixels" % ((key,) + asked + (width, height)))
    return _encoded(key, png, caption)


def _encoded(key, raw, caption):
    import binascii

    if len(raw) > MAX_FILE:
        raise CannotLog("the image has more than %d bytes; make it smaller" % MAX_FILE)
    data = {}
    if raw[:8] == b"\x89PNG\r\n\x1a\n" and len(raw) > 24:
        data["mime"] = "image/png"
        data["width"], data["height"] = int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    elif raw[:3] == b"\xff\xd8\xff":
        data["mime"] = "image/jpeg"
    elif raw[:4] == b"GIF8":
        data["mime"] = "image/gif"
    elif raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        data["mime"] = "image/webp"
    else:
        raise CannotLog("the bytes are no PNG, JPEG, GIF or WebP")
    data["base64"] = binascii.b2a_base64(raw, newline=False).decode("ascii")
    if caption is not None:
        data["caption"] = str(caption)[:MAX_CELL]
    return data


def _pixels(image):
    """Width, height, channels (1, 3 or 4) and one byte for each value."""
    if hasattr(image, "convert") and hasattr(image, "mode"):  # PIL
        mode = image.mode
        if mode not in ("L", "RGB", "RGBA"):
            gray, clear = ("1", "I", "F", "I;16", "I;16B", "I;16L"), ("P", "LA", "PA", "La", "RGBa")
            mode = "L" if mode in gray else "RGBA" if mode in clear else "RGB"
            image = image.convert(mode)
        return int(image.size[0]), int(image.size[1]), {"L": 1, "RGB": 3, "RGBA": 4}[mode], image.tobytes()
    image = _host(image)
    if not (hasattr(image, "dtype") and hasattr(image, "shape")):
        return _nested(image)
    kind = str(image.dtype)
    if kind == "bool":
        image = image.astype("uint8") * 255
    elif "float" in kind or getattr(image.dtype, "kind", "") == "f":
        if image.max() > 1:
            _warn("an image of floats is taken as 0 to 1; what is above 1 is shown as 1")
        image = (image.clip(0, 1) * 255 + 0.5).astype("uint8")
    elif kind != "uint8":
        image = image.clip(0, 255).astype("uint8")
    shape, raw = [int(n) for n in image.shape], image.tobytes()
    while len(shape) > 3 and shape[0] == 1:  # a batch of one
        shape = shape[1:]
    if len(shape) == 2:
        return shape[1], shape[0], 1, raw
    if len(shape) == 3 and shape[2] in (1, 3, 4):
        return shape[1], shape[0], shape[2], raw
    if len(shape) == 3 and shape[0] in (1, 3, 4):  # channels first, as torch has them
        channels, plane = shape[0], shape[1] * shape[2]
        mixed = bytearray(len(raw))
        for k in range(channels):
            mixed[k::channels] = raw[k * plane : (k + 1) * plane]
        return shape[2], shape[1], channels, bytes(mixed)
    raise CannotLog("an image has the shape (height, width) or (height, width, 1, 3 or 4), not %r" % (tuple(shape),))


def _nested(image):
    rows = [[_list(p) if hasattr(p, "__len__") else [p] for p in _list(row)] for row in image]
    sizes = {(len(row), len(p)) for row in rows for p in row}
    if len(sizes) != 1 or next(iter(sizes))[1] not in (1, 3, 4):
        raise CannotLog("an image of lists needs rows of one length and pixels of 1, 3 or 4 numbers")
    values = [_number(v) for row in rows for p in row for v in p]
    scale = 255 if any(isinstance(v, float) for v in values) else 1
    level = lambda v: int(min(255, max(0, v * scale + 0.5))) if v == v else 0  # noqa: E731
    (width, channels) = next(iter(sizes))
    return width, len(rows), channels, bytes(level(v) for v in values)


def _thin(width, height, channels, pixels, factor):
    """Every factor-th pixel of every factor-th row."""
    less, stride, out = (width + factor - 1) // factor, width * channels, bytearray()
    for y in range(0, height, factor):
        row, thin = pixels[y * stride : (y + 1) * stride], bytearray(less * channels)
        for k in range(channels):
            thin[k::channels] = row[k :: channels * factor]
        out += thin
    return less, (height + factor - 1) // factor, bytes(out)


def _png(width, height, channels, pixels):
    import struct
    import zlib

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    stride = width * channels
    rows = b"".join(b"\0" + pixels[y * stride : (y + 1) * stride] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b"")


def _drawn(figure):
    import io

    for dpi in (None, 72, 36):
        file = io.BytesIO()
        figure.savefig(file, format="png", **({} if dpi is None else {"dpi": dpi}))
        if len(file.getvalue()) <= MAX_PNG:
            break
    return file.getvalue()


def _plotly(figure):
    if not isinstance(figure, dict) or not isinstance(figure.get("data"), list):
        raise CannotLog("a plotly figure has a list 'data' and a 'layout'")
    return figure


# --- statistics --------------------------------------------------------------


def _flat(values):
    for value in _list(values):
        if isinstance(value, (list, tuple)) or hasattr(value, "tolist") and getattr(value, "shape", ()):
            yield from _flat(value)
        else:
            yield float(_number(value))


def _histogram(values, bins):
    found = list(_flat(values))
    finite = [v for v in found if math.isfinite(v)]
    if not finite:
        raise CannotLog("there is no finite value")
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    width = high / bins - low / bins
    counts = [0] * bins
    for v in finite:
        counts[min(bins - 1, max(0, int(v / width - low / width)))] += 1
    data = {"edges": [low + i * width for i in range(bins)] + [high], "counts": counts}
    if len(finite) < len(found):
        data["nonfinite"] = len(found) - len(finite)
    return data


def _counted(edges, counts):
    data = {"edges": list(_flat(edges)), "counts": [_number(n) for n in _list(counts)]}
    if len(data["edges"]) != len(data["counts"]) + 1 or len(data["counts"]) > 10 * MAX_BINS:
        raise CannotLog("a histogram needs one edge more than counts, got %d and %d" % (len(data["edges"]), len(data["counts"])))
    return data


def _count_classes(true, pred, names):
    if len(true) != len(pred):
        raise CannotLog("y_true and y_pred differ in length: %d and %d" % (len(true), len(pred)))
    found = set(true) | set(pred)
    order = names
    if names is None:
        order = names = sorted(found, key=lambda c: (str(type(c)), c))
    elif not found <= set(names):
        order = range(len(names))  # the classes are numbers of labels
    at = {c: i for i, c in enumerate(order)}
    if not found <= set(at):
        raise CannotLog("the class %r has no label" % sorted(found - set(at), key=str)[0])
    rows = [[0] * len(names) for _ in names]
    for t, p in zip(true, pred):
        rows[at[t]][at[p]] += 1
    return names, rows


def _curves(y_true, y_score, labels, curve):
    true, score = _list(y_true), _list(y_score)
    if not true or len(true) != len(score):
        raise CannotLog("y_true has %d values and y_score %d" % (len(true), len(score)))
    if not hasattr(score[0], "__len__"):
        classes = sorted(set(true))
        positive = classes[-1]
        label = str(positive if labels is None else list(labels)[-1])
        return {"curves": [dict(curve([t == positive for t in true], [float(_number(s)) for s in score]), label=label)]}
    names = list(range(len(score[0]))) if labels is None else list(labels)
    order = names if set(true) <= set(names) else range(len(names))
    columns = zip(*(_list(row) for row in score))
    done = []
    for c, name, column in zip(order, names, columns):
        if 0 < sum(t == c for t in true) < len(true):
            done.append(dict(curve([t == c for t in true], [float(_number(s)) for s in column]), label=str(name)))
    if not done:
        raise CannotLog("no class has both true and false examples")
    return {"curves": done}


def _steps_down(true, score):
    """Hits and misses above each threshold, from the highest down."""
    if any(s != s for s in score):
        raise CannotLog("a score is NaN")
    if all(true) or not any(true):
        raise CannotLog("there must be both true and false examples")
    pairs, out, hits, misses = sorted(zip(score, true), key=lambda p: -p[0]), [], 0, 0
    for i, (s, t) in enumerate(pairs):
        hits, misses = hits + t, misses + (not t)
        if i + 1 == len(pairs) or pairs[i + 1][0] != s:
            out.append((hits, misses))
    return out


def _roc(true, score):
    points = [(0, 0)] + _steps_down(true, score)
    hits, misses = points[-1]
    area = sum((b[1] - a[1]) * (a[0] + b[0]) / 2 for a, b in zip(points, points[1:])) / (hits * misses)
    kept = _fewer(points)
    return {"fpr": [m / misses for _, m in kept], "tpr": [h / hits for h, _ in kept], "auc": area}


def _pr(true, score):
    points = _steps_down(true, score)
    total = points[-1][0]
    area = sum((b[0] - a[0]) / total * b[0] / sum(b) for a, b in zip([(0, 0)] + points, points))
    kept = _fewer(points)
    return {"recall": [0] + [h / total for h, _ in kept], "precision": [1] + [h / (h + m) for h, m in kept], "ap": area}


def _fewer(points):
    n = len(points)
    return points if n <= MAX_CURVE else [points[round(i * (n - 1) / (MAX_CURVE - 1))] for i in range(MAX_CURVE)]


# --- values and lines --------------------------------------------------------


def _kind(value):
    return type(value).__name__


def _host(value):
    """A tensor as an array in main memory."""
    for name in ("detach", "cpu", "numpy"):
        if callable(getattr(value, name, None)):
            value = getattr(value, name)()
    return value


def _list(values):
    values = _host(values)
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _plain(value, depth=0):
    """What JSON can hold; other values as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return _number(value)
    if depth < 20:
        if isinstance(value, dict):
            return {str(k): _plain(v, depth + 1) for k, v in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(v, depth + 1) for v in value]
        if hasattr(value, "tolist"):
            return _plain(value.tolist(), depth + 1)
    return str(value)[:MAX_CELL]


def _emit(record):
    line = (json.dumps(record, separators=(",", ":")) + "\n").encode("ascii")
    if len(line) > MAX_LINE:
        raise CannotLog("the line would have %d bytes, more than %d" % (len(line), MAX_LINE))
    with _lock:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()  # what print() holds back comes first
            if os.environ.get("WEIR_RUN"):
                _write(1, line)  # also where the program catches what it prints
            elif sys.stdout is not None and sys.stdout is sys.__stdout__:
                _write(sys.stdout.fileno(), line)
            elif sys.stdout is not None:
                sys.stdout.write(line.decode("ascii"))
                sys.stdout.flush()
        except (OSError, ValueError) as why:  # closed, full, or nobody reads it
            _warn("standard output takes no lines: %s" % why)


def _write(fd, line):
    """All of the line, with no other process of ours in between: what is longer
    than PIPE_BUF the system may mix."""
    held = False
    if fcntl is not None:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX)
            held = True
        except OSError:  # not on this kind of file
            pass
    try:
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:
                import select

                select.select([], [fd], [])
    finally:
        if held:
            fcntl.lockf(fd, fcntl.LOCK_UN)


def _warn(text):
    """A line on standard error, each text once."""
    with _lock:
        if text in _warned or len(_warned) > 100:
            return
        _warned.add(text)
        if len(_warned) > 100:
            text = "there are more warnings, which are not shown"
        try:
            sys.stderr.write("weir: %s\n" % text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass


def _config():
    """The run's config, which Weir hands over as JSON."""
    text = os.environ.get("WEIR_CONFIG")
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as why:
        _warn("WEIR_CONFIG is not JSON, so weir.config is empty: %s" % why)
        return {}
    if not isinstance(found, dict):
        _warn("WEIR_CONFIG is not a JSON object but a %s, so weir.config is empty" % _kind(found))
        return {}
    return found


config = _config()
