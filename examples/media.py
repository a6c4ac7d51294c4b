"""One of each kind of media that Weir shows, without any package installed.

Run it in Weir, or as it is beside weir.py: it only prints.
"""

import math
import random

import weir

STEPS = 5
CLASSES = ["cat", "dog", "owl"]


def waves(size, phase):
    """A picture as nested lists: rows of (red, green, blue) from 0 to 1."""
    turn = 2 * math.pi / size
    return [
        [(0.5 + 0.5 * math.sin(x * turn + phase), 0.5 + 0.5 * math.cos(y * turn), 0.5 + 0.5 * math.sin((x + y) * turn - phase)) for x in range(size)]
        for y in range(size)
    ]


def guesses(rng, sharpness):
    """True classes, and a score for each class that gets better."""
    true = [rng.randrange(3) for _ in range(200)]
    scores = []
    for t in true:
        raw = [math.exp(sharpness * (k == t) + rng.gauss(0, 1)) for k in range(3)]
        scores.append([r / sum(raw) for r in raw])
    return true, scores


def main():
    rng = random.Random(1)
    weir.configure_dashboard({"Training": ["accuracy"], "Weights": ["weights/mean", "weights/spread"]})
    for step in range(1, STEPS + 1):
        true, scores = guesses(rng, step / 2)
        named = [row.index(max(row)) for row in scores]
        accuracy = sum(t == n for t, n in zip(true, named)) / len(true)
        weights = [rng.gauss(0, 1 / step) for _ in range(2000)]
        mean = sum(weights) / len(weights)
        spread = math.sqrt(sum((w - mean) ** 2 for w in weights) / len(weights))
        weir.log({"accuracy": accuracy, "weights": {"mean": mean, "spread": spread}}, step=step)
        weir.log_histogram("weights", weights)
    weir.log_image("waves", waves(64, 0.0), caption="a picture made of lists")
    weir.log_images("waves in time", [waves(32, k * math.pi / 2) for k in range(4)], captions=["0", "90", "180", "270"])
    weir.log_table("first guesses", ["true", "named", "score"], [[CLASSES[t], CLASSES[n], round(max(s), 3)] for t, n, s in zip(true, named, scores)][:10])
    weir.log_confusion_matrix("animals", y_true=true, y_pred=named, labels=CLASSES)
    weir.log_roc("animals", true, scores, labels=CLASSES)
    weir.log_pr("owl or not", [t == 2 for t in true], [s[2] for s in scores])
    weir.log_figure("spiral", {
        "data": [{"type": "scatter", "mode": "lines", "x": [t / 9 * math.cos(t / 9) for t in range(180)], "y": [t / 9 * math.sin(t / 9) for t in range(180)]}],
        "layout": {"title": {"text": "A figure for plotly"}},
    })
    weir.log_text("summary", "**%d of %d** animals named right after %d steps." % (sum(t == n for t, n in zip(true, named)), len(true), STEPS), markdown=True)


if __name__ == "__main__":
    main()
