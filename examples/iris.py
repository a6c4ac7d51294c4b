"""Logistic regression on Fisher's Iris flowers (1936), in plain Python.

Logs the curves of two learning rates with weir.py; the awk twin iris.awk prints
the same numbers. Without Weir: copy helpers/weir.py beside it.
Settings by environment: STEPS (default 120) and PAUSE in seconds (default 0.15).
"""

import math
import os
import time

import weir

# 150 flowers, 50 of each species: sepal length and width, petal length and
# width in millimetres, two digits each.
FLOWERS = """
51351402 49301402 47321302 46311502 50361402 54391704 46341403 50341502 44291402 49311501
54371502 48341602 48301401 43301101 58401202 57441504 54391304 51351403 57381703 51381503
54341702 51371504 46361002 51331705 48341902 50301602 50341604 52351502 52341402 47321602
48311602 54341504 52411501 55421402 49311502 50321202 55351302 49361401 44301302 51341502
50351303 45231303 44321302 50351606 51381904 48301403 51381602 46321402 53371502 50331402
70324714 64324515 69314915 55234013 65284615 57284513 63334716 49243310 66294613 52273914
50203510 59304215 60224010 61294714 56293613 67314414 56304515 58274110 62224515 56253911
59324818 61284013 63254915 61284712 64294313 66304414 68284814 67305017 60294515 57263510
55243811 55243710 58273912 60275116 54304515 60344516 67314715 63234413 56304113 55254013
55264412 61304614 58264012 50233310 56274213 57304212 57294213 62294313 51253011 57284113
63336025 58275119 71305921 63295618 65305822 76306621 49254517 73296318 67255818 72366125
65325120 64275319 68305521 57255020 58285124 64325323 65305518 77386722 77266923 60225015
69325723 56284920 77286720 63274918 67335721 72326018 62284818 61304918 64285621 72305816
74286119 79386420 64285622 63285115 61265614 77306123 63345624 64315518 60304818 69315421
67315624 69315123 58275119 68325923 67335725 67305223 63255019 65305220 62345423 59305118
"""

SPECIES = ["setosa", "versicolor", "virginica"]
STEPS = int(os.environ.get("STEPS", "120"))
PAUSE = float(os.environ.get("PAUSE", "0.15"))


def load():
    """Standardised features with a leading 1, and the index of the species."""
    raw = [[int(f[i : i + 2]) for i in (0, 2, 4, 6)] for f in FLOWERS.split()]
    n = len(raw)
    mean = [sum(r[j] for r in raw) / n for j in range(4)]
    dev = [math.sqrt(sum((r[j] - mean[j]) ** 2 for r in raw) / n) for j in range(4)]
    return [([1.0] + [(r[j] - mean[j]) / dev[j] for j in range(4)], i // 50) for i, r in enumerate(raw)]


def predict(weights, x):
    scores = [sum(w * v for w, v in zip(row, x)) for row in weights]
    top = max(scores)
    powers = [math.exp(s - top) for s in scores]
    total = sum(powers)
    return [p / total for p in powers]


def measure(weights, rows):
    loss, hits = 0.0, 0
    for x, label in rows:
        p = predict(weights, x)
        loss -= math.log(p[label])
        hits += p.index(max(p)) == label
    return loss / len(rows), hits / len(rows)


def step(weights, rows, rate):
    grad = [[0.0] * 5 for _ in SPECIES]
    for x, label in rows:
        p = predict(weights, x)
        for k in range(3):
            error = p[k] - (k == label)
            for j in range(5):
                grad[k][j] += error * x[j]
    for k in range(3):
        for j in range(5):
            weights[k][j] -= rate * grad[k][j] / len(rows)


def main():
    data = load()
    train = [row for i, row in enumerate(data) if i % 5]
    held = [row for i, row in enumerate(data) if i % 5 == 0]
    print("%d flowers to learn from, %d held back" % (len(train), len(held)), flush=True)
    weir.configure_dashboard({"Loss": ["loss", "val_loss"], "Accuracy": ["accuracy", "val_accuracy"]})
    runs = [("slow", 0.1), ("fast", 1.0)]
    models = {name: [[0.0] * 5 for _ in SPECIES] for name, _ in runs}
    for n in range(1, STEPS + 1):
        for name, rate in runs:
            step(models[name], train, rate)
            loss, accuracy = measure(models[name], train)
            val_loss, val_accuracy = measure(models[name], held)
            weir.log({
                "loss": round(loss, 6), "accuracy": round(accuracy, 6),
                "val_loss": round(val_loss, 6), "val_accuracy": round(val_accuracy, 6),
            }, step=n, run=name)
        if n % 40 == 0:
            print("step %d of %d" % (n, STEPS), flush=True)
        time.sleep(PAUSE)
    table = [[0] * 3 for _ in SPECIES]
    for x, label in held:
        p = predict(models["fast"], x)
        table[label][p.index(max(p))] += 1
    weir.log_confusion_matrix("held back", table, SPECIES, step=STEPS)
    print("%d of %d held-back flowers named right" % (sum(table[k][k] for k in range(3)), len(held)), flush=True)


if __name__ == "__main__":
    main()
