"""Tests of weir.py, with stand-ins for numpy, torch, PIL, matplotlib, plotly and
pandas: they have the methods that the module uses, and no others."""

import base64
import collections
import contextlib
import datetime
import decimal
import fractions
import io
import json
import math
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
import zlib

import weir


class Array:
    """A numpy array of any shape."""

    def __init__(self, flat, shape, dtype="uint8"):
        self.flat, self.shape, self.dtype = list(flat), tuple(shape), dtype

    def _each(self, change):
        return Array([change(v) for v in self.flat], self.shape, self.dtype)

    def astype(self, dtype):
        assert dtype == "uint8"
        return Array([int(v) & 255 for v in self.flat], self.shape, dtype)

    def clip(self, low, high):
        return self._each(lambda v: min(high, max(low, v)))

    def max(self):
        return max(self.flat)

    def __mul__(self, n):
        return self._each(lambda v: v * n)

    def __add__(self, n):
        return self._each(lambda v: v + n)

    def tobytes(self):
        assert self.dtype == "uint8", "the bytes of floats are no pixels"
        return bytes(self.flat)

    def item(self):
        if len(self.flat) != 1:
            raise ValueError("can only convert an array of size 1")
        return self.flat[0]

    def tolist(self):
        def nest(flat, shape):
            if not shape:
                return flat[0]
            n = len(flat) // shape[0]
            return [nest(flat[i * n : (i + 1) * n], shape[1:]) for i in range(shape[0])]

        return nest(self.flat, self.shape)

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        n = len(self.flat) // self.shape[0]
        return (Array(self.flat[i * n : (i + 1) * n], self.shape[1:], self.dtype) for i in range(self.shape[0]))


class Tensor:
    """A torch tensor: on another device, with a gradient."""

    def __init__(self, array, steps=()):
        self.array, self.steps = array, steps

    def detach(self):
        return Tensor(self.array, self.steps + ("detach",))

    def cpu(self):
        return Tensor(self.array, self.steps + ("cpu",))

    def numpy(self):
        assert self.steps == ("detach", "cpu"), "can't convert"
        return self.array

    def item(self):
        return self.array.item()


class Picture:
    """A PIL image."""

    def __init__(self, mode, size, data):
        self.mode, self.size, self.data = mode, size, data

    def convert(self, mode):
        n = self.size[0] * self.size[1] * {"L": 1, "RGB": 3, "RGBA": 4}[mode]
        return Picture(mode, self.size, (self.data * n)[:n])

    def tobytes(self):
        return self.data


class Figure:
    """A matplotlib figure whose size follows the dpi."""

    def __init__(self, sizes=None):
        self.sizes = sizes or {None: (4, 3)}

    def savefig(self, file, format, dpi=None):
        assert format == "png"
        w, h = self.sizes[dpi]
        file.write(weir._png(w, h, 1, os.urandom(w * h)))


class Frame:
    """A pandas DataFrame."""

    columns = ["name", "n"]

    def itertuples(self, index, name):
        assert index is False and name is None
        return iter([("a", 1), ("b", float("nan"))])


def decode(data):
    """The pixels of a PNG without filters, by rows."""
    raw, at, body = base64.b64decode(data["base64"]), 8, b""
    while at < len(raw):
        (n,) = struct.unpack(">I", raw[at : at + 4])
        name, chunk = raw[at + 4 : at + 8], raw[at + 8 : at + 8 + n]
        assert struct.unpack(">I", raw[at + 8 + n : at + 12 + n])[0] == zlib.crc32(name + chunk)
        if name == b"IHDR":
            w, h, depth, colour = struct.unpack(">IIBB", chunk[:10])
            assert (w, h, depth) == (data["width"], data["height"], 8)
            stride = 1 + w * {0: 1, 2: 3, 6: 4}[colour]
        elif name == b"IDAT":
            body += chunk
        at += 12 + n
    body = zlib.decompress(body)
    rows = [body[y * stride : (y + 1) * stride] for y in range(h)]
    assert len(body) == h * stride and all(row[0] == 0 for row in rows)
    return [list(row[1:]) for row in rows]


class Case(unittest.TestCase):
    def setUp(self):
        weir._steps.clear()
        weir._warned.clear()
        os.environ.pop("WEIR_RUN", None)
        self.err = ""

    def lines(self, call, *args, **kwargs):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            call(*args, **kwargs)
        self.err = err.getvalue()
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def line(self, call, *args, **kwargs):
        found = self.lines(call, *args, **kwargs)
        self.assertEqual(len(found), 1, self.err)
        return found[0]

    def data(self, kind, call, *args, **kwargs):
        log = self.line(call, "k", *args, **kwargs)["log"]
        self.assertEqual((log["type"], log["key"]), (kind, "k"))
        return log["data"]

    def left_out(self, call, *args, **kwargs):
        self.assertEqual(self.lines(call, *args, **kwargs), [])
        self.assertTrue(self.err.startswith("weir: "), self.err)
        return self.err


class Log(Case):
    def test_forms(self):
        want = {"step": 1, "metrics": {"loss": 0.5}}
        for args, kwargs in [
            (({"loss": 0.5},), {"step": 1}), (({"loss": 0.5}, 1), {}), ((1, {"loss": 0.5}), {}), ((1,), {"loss": 0.5}),
            (("loss", 0.5), {"step": 1}), (("loss", 0.5, 1), {}), ((), {"loss": 0.5, "step": 1}),
            ((), {"metrics": {"loss": 0.5}, "step": 1}), ((1,), {"metrics": collections.OrderedDict(loss=0.5)}),
            ((1.0,), {"loss": 0.5}), ((Array([1], ()),), {"loss": 0.5}),
        ]:
            self.assertEqual(self.line(weir.log, *args, **kwargs), want, (args, kwargs))
        self.assertEqual(self.line(weir.log, {"a": {"b": {"c": 1}, "d": 2}}, 1)["metrics"], {"a/b/c": 1, "a/d": 2})
        self.assertEqual(self.line(weir.log, {"a": 1}, b=2, metrics={"c": 3}, step=4)["metrics"], {"a": 1, "c": 3, "b": 2})
        self.assertEqual(self.line(weir.log, 1, a=1, run="x"), {"step": 1, "metrics": {"a": 1}, "run": "x"})
        self.assertEqual(self.line(weir.log, 1, a=1, run=7)["run"], "7")

    def test_misuse(self):
        for args, kwargs in [
            ((), {}), ((1,), {}), ((0.5,), {}), (("loss",), {}), (([1, 2],), {"a": 1}), (({"a": 1}, "x"), {}), ((1, 2), {"a": 1}),
            ((), {"metrics": 0.5}), ((), {"metrics": [1], "a": 1}), ((), {"a": 1, "step": "1"}), ((), {"run": "a"}),
        ]:
            with self.assertRaises(TypeError, msg=(args, kwargs)):
                self.lines(weir.log, *args, **kwargs)

    def test_steps_count_for_each_run(self):
        steps = [self.line(weir.log, a=1, run=r, **k)["step"] for r, k in [(None, {}), (None, {}), ("x", {}), (None, {"step": 10}), (None, {}), ("x", {})]]
        self.assertEqual(steps, [1, 2, 1, 10, 11, 2])
        self.assertEqual(self.line(weir.log_text, "t", "x")["log"]["step"], 11)
        self.assertEqual(self.line(weir.log_text, "t", "x", run="x")["log"]["step"], 2)
        self.assertEqual(self.line(weir.log_text, "t", "x", run="y")["log"]["step"], 0)
        for step in (math.nan, 2**63, -math.inf):
            self.left_out(weir.log, step, a=1)

    def test_numbers(self):
        inf = math.inf
        for value, want in [
            (True, 1), (False, 0), (3, 3), (2**70, 2**70), (10**400, inf), (-(10**400), -inf), (inf, inf), (-inf, -inf),
            (decimal.Decimal("0.5"), 0.5), (fractions.Fraction(1, 4), 0.25), (Array([2.5], (), "float32"), 2.5), (Array([7], (1, 1)), 7),
            (Tensor(Array([0.5], (), "float32")), 0.5), (Array([True], (), "bool"), 1),
        ]:
            got = self.line(weir.log, 1, m=value)["metrics"]["m"]
            self.assertEqual(got, want, value)
            self.assertNotIsInstance(got, bool)
        self.assertTrue(math.isnan(self.line(weir.log, 1, m=math.nan)["metrics"]["m"]))

    def test_what_is_no_number_is_left_out(self):
        for value in ("0.5", b"1", 1j, [1], object(), Array([1, 2], (2,)), decimal.Decimal("sNaN"), datetime.datetime.now()):
            got = self.line(weir.log, 1, bad=value, good=1)
            self.assertEqual(got["metrics"], {"good": 1})
            self.assertIn("'bad'", self.err)
            weir._warned.clear()
        self.left_out(weir.log, 1, bad="x")
        self.assertEqual(self.lines(weir.log, {}), [])
        deep = {}
        deep["a"] = deep
        self.left_out(weir.log, deep, 1)

    def test_none_warns_once(self):
        self.assertEqual(self.line(weir.log, 1, a=None, b=1)["metrics"], {"b": 1})
        self.assertIn("'a'", self.err)
        self.line(weir.log, 2, a=None, b=1)
        self.assertEqual(self.err, "")

    def test_warnings_are_bounded(self):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            for i in range(500):
                weir.log({"n%d" % i: "x"}, 1)
        self.assertEqual(len(err.getvalue().splitlines()), 101)

    def test_names(self):
        names = {'a"b\\c\n': 1, "Verlust \u00fc \U0001f600": 2, "\ud800": 3, 5: 4, "\0": 5}
        got = self.line(weir.log, names, 1)["metrics"]
        self.assertEqual(got, {str(k): v for k, v in names.items()})

    def test_what_has_no_text(self):
        for error in (RuntimeError, TypeError):

            class Evil:
                def __str__(self):
                    raise error(self)

                __repr__ = __str__

                def __format__(self, spec):
                    raise error("x")

            class Raising:
                def __getattr__(self, name):
                    raise LookupError(Evil())

            self.assertEqual(self.line(weir.log, {Evil(): 1, "a": 2}, 1), {"step": 1, "metrics": {"a": 2}})
            self.assertIn("str() of a Evil raises " + error.__name__, self.err)
            for call, args, kwargs in [
                (weir.log, ({"a": 1}, 1), {"run": Evil()}), (weir.log, (), {"a": 1, "run": Evil()}), (weir.log, ({Evil(): {"a": 1}}, 1), {}),
                (weir.log_text, ("k", Evil()), {}), (weir.log_text, ("k", "x"), {"run": Evil()}), (weir.log_text, ("k", "x", 1), {"run": Evil()}),
                (weir.log_table, ("k", ["a"], [[Evil()]]), {"run": Evil()}), (weir.log_image, ("k", Evil()), {}), (weir.log_figure, ("k", Raising()), {}),
                (weir.log, (1,), {"a": Raising()}),
            ]:
                weir._warned.clear()
                self.left_out(call, *args, **kwargs)
            weir._warned.clear()

    def test_too_many_for_a_line(self):
        metrics = {"%06d %s" % (i, "x" * 500): i for i in range(20000)}
        found = self.lines(weir.log, metrics, 3)
        self.assertGreater(len(found), 1)
        self.assertEqual({k: v for f in found for k, v in f["metrics"].items()}, metrics)
        self.assertEqual({f["step"] for f in found}, {3})
        self.left_out(weir.log, {"x" * 9000000: 1}, 1)

    def test_threads(self):
        def work(name):
            for _ in range(200):
                weir.log({name: 1})

        def all_threads():
            threads = [threading.Thread(target=work, args=(n,)) for n in "abcd"]
            for t in threads:
                t.start()
            for t in threads:
                t.join()

        self.assertEqual(sorted(f["step"] for f in self.lines(all_threads)), list(range(1, 801)))

    def test_fork_while_another_thread_logs(self):
        held, free = threading.Event(), threading.Event()

        def hold():
            with weir._lock:
                held.set()
                free.wait(20)

        thread = threading.Thread(target=hold, daemon=True)
        thread.start()
        held.wait()
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
            child = os.fork()
            if child == 0:
                signal.alarm(10)  # ends it, should it wait for ever
                weir.log(1, a=1)
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        free.set()
        thread.join()
        self.assertEqual(status, 0)

    def test_output_that_takes_nothing(self):
        class Full(io.StringIO):
            def write(self, text):
                raise OSError(28, "No space left on device")

        with contextlib.redirect_stdout(Full()), contextlib.redirect_stderr(io.StringIO()) as err:
            weir.log(1, a=1)
            weir.log(2, a=1)
        self.assertEqual(err.getvalue().count("No space left"), 1)
        with contextlib.redirect_stdout(None):
            weir.log(1, a=1)
        closed = io.StringIO()
        closed.close()
        with contextlib.redirect_stdout(closed), contextlib.redirect_stderr(None):
            weir.log(1, a=1)


class Dashboard(Case):
    def test_forms(self):
        loss = {"title": "Loss", "metrics": ["loss", "val_loss"], "type": "line"}
        for form in ({"Loss": ["loss", "val_loss"]}, [loss], {"charts": [loss]}, ({"title": "Loss", "metrics": ("loss", "val_loss")},)):
            self.assertEqual(self.line(weir.configure_dashboard, form), {"chart_config": {"charts": [loss]}})
        self.assertEqual(
            self.line(weir.configure_dashboard, ["acc", {"metrics": "x", "type": "area", "log": True}])["chart_config"]["charts"],
            [{"title": "acc", "type": "line", "metrics": ["acc"]}, {"title": "x", "type": "area", "metrics": ["x"], "log": True}],
        )
        for bad in ("loss", None, 5, [5], [{"title": "x"}], [{"metrics": [1]}]):
            with self.assertRaises(TypeError, msg=bad):
                weir.configure_dashboard(bad)


class Images(Case):
    def pixels(self, image, **kwargs):
        return decode(self.data("image", weir.log_image, image, **kwargs))

    def test_arrays(self):
        rgb = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]
        flat = [v for row in rgb for v in row]
        self.assertEqual(self.pixels(Array(flat, (2, 2, 3))), rgb)
        self.assertEqual(self.pixels(Array([0, 255], (1, 2))), [[0, 255]])
        self.assertEqual(self.pixels(Array([0, 255], (1, 2, 1))), [[0, 255]])
        self.assertEqual(self.pixels(Array([1, 2, 3, 4], (1, 1, 4))), [[1, 2, 3, 4]])
        self.assertEqual(self.pixels(Tensor(Array([1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12], (3, 2, 2)))), rgb)
        self.assertEqual(self.pixels(Array([1, 0], (1, 2), "bool")), [[255, 0]])
        self.assertEqual(self.pixels(Array([0, 0.5, 1, -3], (2, 2), "float32")), [[0, 128], [255, 0]])
        self.assertEqual(self.pixels(Array([300, -1, 7], (3, 1), "int64")), [[255], [0], [7]])
        self.assertEqual(self.pixels(Array(flat, (1, 2, 2, 3))), rgb)
        self.assertEqual(self.err, "")
        self.assertEqual(self.pixels(Array([0, 200], (1, 2), "float64")), [[0, 255]])
        self.assertIn("0 to 1", self.err)

    def test_lists_and_pictures(self):
        self.assertEqual(self.pixels([[0, 300], [-5, 7]]), [[0, 255], [0, 7]])
        self.assertEqual(self.pixels([[0, 1.0], [math.nan, 0.5]]), [[0, 255], [0, 128]])
        self.assertEqual(self.pixels([[(1, 2, 3), [4, 5, 6]]]), [[1, 2, 3, 4, 5, 6]])
        self.assertEqual(self.pixels(Picture("RGB", (1, 2), bytes(range(6)))), [[0, 1, 2], [3, 4, 5]])
        for mode, n in (("1", 1), ("I;16", 1), ("P", 4), ("LA", 4), ("CMYK", 3)):
            self.assertEqual(self.pixels(Picture(mode, (1, 1), b"\7")), [[7] * n])

    def test_files_and_bytes(self):
        png = weir._png(2, 1, 1, b"\1\2")
        with tempfile.TemporaryDirectory() as dir:
            path = os.path.join(dir, "x.png")
            with open(path, "wb") as f:
                f.write(png)
            self.assertEqual(self.pixels(path), [[1, 2]])
            self.left_out(weir.log_image, "k", path + ".none")
            os.mkfifo(path + ".fifo")
            self.assertIn("regular", self.left_out(weir.log_image, "k", path + ".fifo"))
            with open(path + ".big", "wb") as f:
                f.write(png)
                f.truncate(1 << 33)
            self.assertIn("smaller", self.left_out(weir.log_image, "k", path + ".big"))
        self.assertEqual(self.pixels(bytearray(png)), [[1, 2]])
        self.assertEqual(self.data("image", weir.log_image, b"\xff\xd8\xff123", caption="c"), {"mime": "image/jpeg", "base64": "/9j/MTIz", "caption": "c"})
        self.left_out(weir.log_image, "k", b"<svg onload='alert(1)'/>")

    def test_what_is_no_image(self):
        for bad in (5, None, [], [[]], [[1], [1, 2]], [[(1, 2)]], Array([], (0, 4)), Array([1] * 8, (2, 2, 2)), object()):
            self.left_out(weir.log_image, "k", bad)
            weir._warned.clear()
        for call in (weir.log_image, weir.log_images, weir.log_text, weir.log_table):
            with self.assertRaises(TypeError):
                call(None, [[1]], [[1]])

    def test_large_images_are_reduced(self):
        raw = os.urandom(1000 * 3000)
        got = self.data("image", weir.log_image, Picture("RGB", (1000, 1000), raw))
        self.assertIn("reduced from 1000 x 1000", self.err)
        rows = decode(got)
        self.assertEqual((got["width"], got["height"]), (500, 500))
        self.assertEqual(rows[1][3:6], list(raw[2 * 3000 + 6 : 2 * 3000 + 9]))

    def test_grid(self):
        got = self.data("image_grid", weir.log_images, Array(range(8), (2, 2, 2)), captions=["a"])
        self.assertEqual([decode(i) for i in got["images"]], [[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
        self.assertEqual([i.get("caption") for i in got["images"]], ["a", None])
        noise = [Picture("L", (400, 400), os.urandom(160000)) for _ in range(70)]
        got = self.data("image_grid", weir.log_images, noise)
        self.assertEqual(len(got["images"]), 64)
        self.assertLess(len(json.dumps(got)), weir.MAX_LINE)
        self.assertIn("first 64 of 70", self.err)

    def test_figures(self):
        self.assertEqual(self.data("image", weir.log_figure, Figure())["width"], 4)
        self.assertEqual(self.data("image", weir.log_image, Figure())["height"], 3)
        small = Figure({None: (3000, 1000), 72: (300, 100), 36: (1, 1)})
        self.assertEqual(self.data("image", weir.log_figure, small)["width"], 300)

        class Axes:
            def get_figure(self):
                return Figure()

        class Plotly:
            def to_json(self):
                return '{"data": [{"y": [1]}], "layout": {}}'

        self.assertEqual(self.data("image", weir.log_figure, Axes())["width"], 4)
        self.assertEqual(self.data("plotly", weir.log_figure, Plotly()), {"data": [{"y": [1]}], "layout": {}})
        self.assertEqual(self.data("plotly", weir.log_figure, {"data": [Array([1], (1,))]}), {"data": [[1]]})
        self.left_out(weir.log_figure, "k", {"layout": {}})
        with self.assertRaises(TypeError):
            weir.log_figure("k", 5)


class Statistics(Case):
    def test_tables(self):
        want = {"columns": ["name", "n"], "rows": [["a", 1], ["b", 2]]}
        for args, kwargs in [
            ((["name", "n"], [("a", 1), ["b", Array([2], ())]]), {}), (({"name": ["a", "b"], "n": Array([1, 2], (2,))},), {}),
            (([{"name": "a", "n": 1}, {"name": "b", "n": 2}],), {}), ((), {"rows": [{"name": "a", "n": 1}, {"n": 2, "name": "b"}]}),
            ((["name", "n"],), {"rows": [{"n": 1, "name": "a", "x": 0}, {"n": 2, "name": "b"}]}),
        ]:
            self.assertEqual(self.data("table", weir.log_table, *args, **kwargs), want, (args, kwargs))
        got = self.data("table", weir.log_table, Frame())
        self.assertEqual(str(got), "{'columns': ['name', 'n'], 'rows': [['a', 1], ['b', nan]]}")
        cells = [None, True, 1.5, datetime.date(2026, 1, 2), {"a": (1,)}, b"x", "y" * 20000]
        self.assertEqual(
            self.data("table", weir.log_table, list("abcdefg"), [cells])["rows"],
            [[None, True, 1.5, "2026-01-02", {"a": [1]}, "b'x'", "y" * 10000]],
        )
        got = self.data("table", weir.log_table, ["n"], ([i] for i in range(10005)))
        self.assertEqual((len(got["rows"]), got["total"]), (10000, 10005))
        got = self.data("table", weir.log_table, ["n"], [["x" * 9000]] * 3000)
        self.assertEqual((len(got["rows"]), got["total"]), (750, 3000))
        self.left_out(weir.log_table, "k", [1, 2])
        with self.assertRaises(TypeError):
            weir.log_table("k")

    def test_histograms(self):
        self.assertEqual(self.data("histogram", weir.log_histogram, [0, 1, 1.5, 4, math.nan], bins=2), {"edges": [0, 2, 4], "counts": [3, 1], "nonfinite": 1})
        self.assertEqual(self.data("histogram", weir.log_histogram, Array([0, 1, 2, 4], (2, 2)), bins=2)["counts"], [2, 2])
        got = self.data("histogram", weir.log_histogram, [5, 5, 5])
        self.assertEqual((sum(got["counts"]), len(got["edges"])), (3, 31))
        got = self.data("histogram", weir.log_histogram, [-1.7e308, 1.7e308, 0])
        self.assertEqual(sum(got["counts"]), 3)
        self.assertEqual(self.data("histogram", weir.log_histogram, edges=[0, 1, 2], counts=[3, 4]), {"edges": [0, 1, 2], "counts": [3, 4]})
        self.left_out(weir.log_histogram, "k", edges=[0, 1], counts=[3, 4])
        self.left_out(weir.log_histogram, "k", [])
        self.left_out(weir.log_histogram, "k", ["x"])
        for kwargs in ({}, {"edges": [1]}, {"values": [1], "edges": [1], "counts": []}):
            with self.assertRaises(TypeError):
                weir.log_histogram("k", **kwargs)
        with self.assertRaises(ValueError):
            weir.log_histogram("k", [1], bins=0)

    def test_confusion(self):
        self.assertEqual(self.data("confusion_matrix", weir.log_confusion_matrix, [[1, 2], [3, 4]]), {"labels": ["0", "1"], "matrix": [[1, 2], [3, 4]]})
        self.assertEqual(self.data("confusion_matrix", weir.log_confusion_matrix, Array([1, 2, 3, 4], (2, 2)), ["x", "y"])["labels"], ["x", "y"])
        for kwargs in (
            {"y_true": ["x", "y", "y"], "y_pred": ["x", "x", "y"]}, {"y_true": [0, 1, 1], "y_pred": Array([0, 0, 1], (3,)), "labels": ["x", "y"]},
        ):
            self.assertEqual(self.data("confusion_matrix", weir.log_confusion_matrix, **kwargs), {"labels": ["x", "y"], "matrix": [[1, 0], [1, 1]]})
        for kwargs in (
            {"matrix": [[1, 2], [3]]}, {"matrix": [[1]], "labels": ["x", "y"]}, {"matrix": [["x"]]}, {"y_true": [1], "y_pred": []},
            {"y_true": [5], "y_pred": [0], "labels": ["x"]},
        ):
            self.left_out(weir.log_confusion_matrix, "k", **kwargs)
            weir._warned.clear()
        for kwargs in ({}, {"y_true": [1]}, {"matrix": [[1]], "y_true": [1], "y_pred": [1]}):
            with self.assertRaises(TypeError):
                weir.log_confusion_matrix("k", **kwargs)

    def test_confusion_of_different_lengths(self):
        said = self.left_out(weir.log_confusion_matrix, "c", y_true=[0, 1, 1], y_pred=[0, 1])
        self.assertIn("y_true and y_pred differ in length: 3 and 2", said)

    def test_curves(self):
        # The example of scikit-learn's documentation.
        true, score = [0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]
        self.assertEqual(
            self.data("roc", weir.log_roc, true, score),
            {"curves": [{"label": "1", "fpr": [0, 0, 0.5, 0.5, 1], "tpr": [0, 0.5, 0.5, 1, 1], "auc": 0.75}]},
        )
        (pr,) = self.data("pr", weir.log_pr, true, Array(score, (4,), "float32"), labels=["no", "yes"])["curves"]
        self.assertEqual((pr["label"], pr["recall"], pr["precision"]), ("yes", [0, 0.5, 0.5, 1, 1], [1, 1, 0.5, 2 / 3, 0.5]))
        self.assertAlmostEqual(pr["ap"], 0.5 + 0.5 * 2 / 3)
        many = self.data("roc", weir.log_roc, [0, 1, 2, 2], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.9, 0, 0.8]], labels=["a", "b", "c"])["curves"]
        self.assertEqual([(c["label"], c["auc"]) for c in many], [("a", 1), ("b", 1), ("c", 1)])
        ties = self.data("roc", weir.log_roc, [0, 1], [0.5, 0.5])["curves"][0]
        self.assertEqual((ties["fpr"], ties["tpr"], ties["auc"]), ([0, 1], [0, 1], 0.5))
        long = self.data("roc", weir.log_roc, [i % 2 for i in range(5000)], list(range(5000)))["curves"][0]
        self.assertEqual((len(long["fpr"]), long["fpr"][0], long["tpr"][-1]), (1000, 0, 1))
        for bad in (([1, 1], [0.1, 0.2]), ([0, 1], [0.1]), ([], []), ([0, 1], [math.nan, 1]), ([0, 1], ["x", "y"])):
            self.left_out(weir.log_roc, "k", *bad)
            weir._warned.clear()

    def test_text(self):
        self.assertEqual(self.data("text", weir.log_text, "a\nb", markdown=True), {"text": "a\nb", "format": "markdown"})
        self.assertEqual(len(self.data("text", weir.log_text, "x" * 2000000)["text"]), 1000000)
        self.assertIn("1000000 of the 2000000", self.err)
        self.assertEqual(self.data("text", weir.log_text, 5), {"text": "5", "format": "plain"})


class Config(Case):
    def test_config(self):
        for text, want, says in (
            (None, {}, ""), ("", {}, ""), ('{"lr":0.1,"deep":{"a":[1]}}', {"lr": 0.1, "deep": {"a": [1]}}, ""),
            ("{lr", {}, "WEIR_CONFIG is not JSON"), ("[1]", {}, "not a JSON object but a list"), ("[" * 100000, {}, "WEIR_CONFIG is not JSON"),
        ):
            env = {k: v for k, v in os.environ.items() if k != "WEIR_CONFIG"}
            if text is not None:
                env["WEIR_CONFIG"] = text
            done = subprocess.run(
                [sys.executable, "-B", "-c", "import weir, json; print(json.dumps(weir.config))"],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=True,
            )
            self.assertEqual(json.loads(done.stdout), want)
            self.assertEqual(done.stderr != "", says != "", done.stderr)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
