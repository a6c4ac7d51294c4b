"""The table of metric lines once more, slow and on CPython's json.

Reads frames (4 bytes little-endian length, then the line) from standard input and
answers each with one line: "-" for plain or refused, else what it holds. It is
the other side of TestAgreesWithCPython; numbers are compared by their bits.
"""

import codecs
import json
import math
import re
import struct
import sys

sys.set_int_max_str_digits(0)
sys.setrecursionlimit(5000)

# Each byte that is no part of a character is one U+FFFD.
codecs.register_error("each", lambda e: ("\ufffd", e.start + 1))

BLANKS = b" \t\r\n\v\f"
COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
COLOUR_END = re.compile(rb"\x1b\[[0-9;:]*m\Z")
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
BAD = re.compile("[\x00\ud800-\udfff]")
WHOLE = re.compile(r"[+-]?[0-9]+\Z", re.A)
DECIMAL = re.compile(r"[+-]?(?:nan|inf|infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\Z", re.A | re.I)
KINDS = {"image", "image_grid", "table", "histogram", "confusion_matrix", "roc", "pr", "text", "plotly"}


class Real(float):
    """A number with the letters it was written in."""


class Whole(int):
    pass


def real(s):
    x = Real(s)
    x.raw = s
    return x


def whole(s):
    x = Whole(s)
    x.raw = s
    return x


def name(s):
    s = BAD.sub("\ufffd", s)
    return s if len(s) <= 512 else s[:511] + "\u2026"


def pairs(members):
    return {name(k): v for k, v in members}


DECODER = json.JSONDecoder(parse_float=real, parse_int=whole, parse_constant=real, object_pairs_hook=pairs)


def undress(b):
    if b.startswith(b"\xef\xbb\xbf"):
        b = b[3:]
    while True:
        b = b.lstrip(BLANKS)
        m = COLOUR.match(b)
        if not m:
            break
        b = b[m.end() :]
    while True:
        b = b.rstrip(BLANKS)
        m = COLOUR_END.search(b)
        if not m:
            return b
        b = b[: m.start()]


def to_float(v):
    if isinstance(v, bool):
        return float(v)
    if isinstance(v, Whole):
        try:
            return float(v)
        except OverflowError:
            return math.inf if v > 0 else -math.inf
    if isinstance(v, Real):
        return float(v)
    return None


def to_step(v):
    if isinstance(v, bool):
        return int(v)
    if isinstance(v, Real):
        if not math.isfinite(v):
            return None
        v = int(v)
    elif isinstance(v, str):
        v = v.strip(SPACE)
        if not WHOLE.match(v):
            return None
        v = int(v)
    elif not isinstance(v, Whole):
        return None
    return int(v) if -(2**63) <= v < 2**63 else None


def scalar(v):
    if isinstance(v, str):
        return name(v)
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, (Real, Whole)):
        return name(v.raw)
    return None


def bits(f):
    if f != f:
        return "nan"
    return struct.pack(">d", f + 0.0).hex()  # -0 equals 0


def hexed(s):
    return s.encode().hex()


def meaning(line):
    body = undress(line)
    if not body.startswith(b"{") or not body.endswith(b"}"):
        return None
    text = body.decode("utf-8", "each")
    out = []
    i = 0
    while i < len(text):
        if text[i] != "{":
            return None
        o, i = DECODER.raw_decode(text, i)
        while i < len(text) and text[i] in " \t\r\n":
            i += 1
        tag = scalar(o.get("run")) or ""
        if isinstance(o.get("chart_config"), dict):
            out.append("c")
        elif isinstance(o.get("log"), dict):
            m = o["log"]
            step, key = to_step(m.get("step")), scalar(m.get("key"))
            kind = m.get("type")
            if isinstance(kind, str) and kind in KINDS and step is not None and key is not None and isinstance(m.get("data"), dict):
                out.append("m:%s:%d:%s:%s" % (kind, step, hexed(key), hexed(scalar(m.get("run")) or "")))
        elif isinstance(o.get("metrics"), dict):
            step = to_step(o.get("step"))
            if step is None:
                continue
            for k, v in o["metrics"].items():
                f = to_float(v)
                if f is not None:
                    out.append("p:%d:%s:%s:%s" % (step, hexed(k), bits(f), hexed(tag)))
        elif "metric" in o:
            step, key, v = to_step(o.get("step")), scalar(o["metric"]), o.get("value")
            f = to_float(v)
            if isinstance(v, str) and DECIMAL.match(v.strip(SPACE)):
                f = float(v.strip(SPACE))
            if step is not None and key is not None and f is not None:
                out.append("p:%d:%s:%s:%s" % (step, hexed(key), bits(f), hexed(tag)))
    return out


def main():
    read, write = sys.stdin.buffer.read, sys.stdout.write
    while True:
        head = read(4)
        if len(head) < 4:
            return
        line = read(int.from_bytes(head, "little"))
        try:
            got = meaning(line)
        except (ValueError, RecursionError):
            got = None
        write((" ".join(got) if got else "-") + "\n")


main()
