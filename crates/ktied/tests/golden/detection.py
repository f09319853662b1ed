"""Golden values of out-of-distribution detection, by scikit-learn: python detection.py > detection.json

Scores are those of a formula that ../core/evaluation/detection.rs has too. Needs numpy and scikit-learn.
"""

import json

import numpy as np
from metrics import number
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve


def scores(key, count, shift, step):
    """Multiples of `step`, which single precision has exactly; a coarse one makes ties."""
    return np.array([(number(key, i, 0) + shift) // step * step for i in range(count)])


def detection(inside, outside):
    labels = np.concatenate([np.zeros(len(inside)), np.ones(len(outside))])
    every = np.concatenate([inside, outside])
    fpr, tpr, _ = roc_curve(labels, every, drop_intermediate=False)
    return {
        "auroc": roc_auc_score(labels, every),
        "aupr": average_precision_score(labels, every),
        "fpr95": fpr[np.argmax(tpr >= 0.95)],
    }


print(
    json.dumps(
        {
            "fine": detection(scores(1, 700, 0, 1 / 256), scores(2, 300, 2, 1 / 256)),
            "ties": detection(scores(3, 500, 0, 1), scores(4, 800, 1, 1)),
            "worse than guessing": detection(scores(5, 400, 3, 1 / 4), scores(6, 60, 0, 1 / 4)),
        },
        indent=1,
    )
)
