"""Golden values of ensembles, comparisons and predictions, by numpy, scipy and scikit-learn:
python ensembles.py > ensembles.json

Outputs and labels are those of a formula that ../core/evaluation/ensembles.rs has too; everything is computed from stored
draws by definition. Needs numpy, scipy and scikit-learn 1.7 or newer.
"""

import json
import math

import numpy as np
from metrics import EXAMPLES, NUM_TRAIN, adaptive_ece, aurc, ece, jackknife, label, logits, number, sem, softmax
from scipy.optimize import brentq
from scipy.stats import entropy, norm
from sklearn.metrics import accuracy_score, log_loss

CLASSES = 4
KLS = [100.0, 250.0, 700.0]
NOISES = [float(np.float32(math.log(s))) for s in (0.75, 0.5, 1.25)]  # stored as ln s in single precision
EVERY, ROWS = list(range(CLASSES)), np.arange(EXAMPLES)
LABELS = np.array([label(i, CLASSES) for i in range(EXAMPLES)])


def probabilities(members, samples):
    """[S, M, examples, classes]; draw d of member m has the formula's number 1000 m + d."""
    z = [[[logits(1000 * m + d, i, CLASSES) for i in range(EXAMPLES)] for m in members] for d in range(samples)]
    return softmax(np.array(z))


def flat(draws):
    return draws.reshape(-1, *draws.shape[2:])


def estimate(metric, of_examples, draws):
    """metric: a number of flat draws; draws are left out by rounds, or by members if each has one."""
    by_rounds = draws if len(draws) > 1 else draws[0][:, None]
    error = sem(of_examples(flat(draws))) if of_examples else None
    leave_out = lambda rounds: metric(flat(rounds))
    sem_draws = jackknife(leave_out, by_rounds) if len(by_rounds) > 1 else None
    return {"value": float(metric(flat(draws))), "sem_examples": error, "sem_draws": sem_draws}


def classes(members, samples):
    draws, kl = probabilities(members, samples), np.mean([KLS[m] for m in members])
    of_label = lambda p: p[..., ROWS, LABELS]
    losses = {
        "nll": lambda d: -np.log(of_label(d.mean(0))),
        "nll_of_draws": lambda d: -np.log(of_label(d)).mean(0),
        "neg_elbo": lambda d: -np.log(of_label(d)).mean(0) + kl / NUM_TRAIN,
        "accuracy": lambda d: (d.mean(0).argmax(1) == LABELS).astype(float),
        "brier": lambda d: np.sum(d.mean(0) ** 2, -1) - 2 * of_label(d.mean(0)),
        "entropy": lambda d: entropy(d.mean(0), axis=-1),
        "expected_entropy": lambda d: entropy(d, axis=-1).mean(0),
        "mutual_information": lambda d: entropy(d.mean(0), axis=-1) - entropy(d, axis=-1).mean(0),
    }
    p = flat(draws).mean(0)
    assert math.isclose(losses["nll"](flat(draws)).mean(), log_loss(LABELS, p, labels=EVERY))
    assert math.isclose(losses["accuracy"](flat(draws)).mean(), accuracy_score(LABELS, p.argmax(1)))
    ranks = {"ece": ece, "adaptive_ece": adaptive_ece, "aurc": aurc}
    return {name: estimate(lambda d, f=f: float(f(d).mean()), f, draws) for name, f in losses.items()} | {
        name: estimate(lambda d, f=f: f(d.mean(0), LABELS), None, draws) for name, f in ranks.items()
    }


Y = np.array([[number(99_999, i, j) for j in range(2)] for i in range(EXAMPLES)])


def means(members, samples):
    """[S, M, examples, 2]; far enough from what was observed that intervals miss some of it."""
    grid = lambda a: np.array([[number(a, i, j) for j in range(2)] for i in range(EXAMPLES)])
    return np.array([[Y / 2 + grid(1000 * m + d) / 4 for m in members] for d in range(samples)])


def values(members, samples):
    draws, kl = means(members, samples), np.mean([KLS[m] for m in members])
    noise = np.exp([NOISES[m] for m in members])

    def log_density(d):  # [T, examples]; draws are in turn of the members
        s = np.resize(noise, len(d))[:, None, None]
        return norm.logpdf(Y, d, s).sum(-1)

    def variance(d):
        return d.var(0) + np.mean(np.resize(noise, len(d)) ** 2)

    def covered(d, level):
        s = np.resize(noise, len(d))[:, None, None]
        return np.mean(abs(norm.cdf(Y, d, s).mean(0) - 0.5) <= level / 2, -1)

    losses = {
        "nll": lambda d: -np.log(np.exp(log_density(d)).mean(0)),
        "nll_of_draws": lambda d: -log_density(d).mean(0),
        "neg_elbo": lambda d: -log_density(d).mean(0) + kl / NUM_TRAIN,
        "sharpness": lambda d: np.sqrt(variance(d)).mean(-1),
    } | {f"coverage_{c}": lambda d, c=c: covered(d, c / 100) for c in (50, 90, 95)}
    rmse = lambda d: float(np.sqrt(np.mean((Y - d.mean(0)) ** 2)))
    return {name: estimate(lambda d, f=f: float(f(d).mean()), f, draws) for name, f in losses.items()} | {
        "rmse": estimate(rmse, None, draws)
    }


def difference(first, second, shift=0.0):
    d = first - second
    mean, error = float(d.mean()) + shift, sem(d)
    return {"mean": mean, "sem": error, "z": mean / error, "p_value": 2 * norm.sf(abs(mean / error))}


def comparison():
    """All three members against the second alone, 12 draws each; a network alone has the key of a first member."""
    first, second = flat(probabilities([0, 1, 2], 12)), flat(probabilities([1], 12))
    of_label = lambda p: p[..., ROWS, LABELS]
    nll = lambda d: -np.log(of_label(d.mean(0)))
    correct = lambda d: (d.mean(0).argmax(1) == LABELS).astype(float)
    brier = lambda d: np.sum(d.mean(0) ** 2, -1) - 2 * of_label(d.mean(0))
    of_draws = lambda d: -np.log(of_label(d)).mean(0)
    return {
        "neg_elbo": difference(of_draws(first), of_draws(second), (np.mean(KLS) - KLS[1]) / NUM_TRAIN),
        "nll": difference(nll(first), nll(second)),
        "accuracy": difference(correct(first), correct(second)),
        "brier": difference(brier(first), brier(second)),
    }


def class_predictions():
    draws = flat(probabilities([0, 1, 2], 12))[:, :6]
    p = draws.mean(0)
    information = entropy(p, axis=-1) - entropy(draws, axis=-1).mean(0)
    rows = zip(p, entropy(p, axis=-1), information)
    return [
        {"class": int(p.argmax()), "probabilities": p.tolist(), "entropy": h, "mutual_information": i} for p, h, i in rows
    ]


def value_predictions():
    draws = flat(means([0, 1, 2], 12))[:, :6]
    noise = np.resize(np.exp(NOISES), len(draws))

    def one(m):
        cdf = lambda x: norm.cdf(x, m, noise).mean()
        lower, upper = (brentq(lambda x: cdf(x) - q, -30, 30, xtol=1e-13) for q in (0.05, 0.95))
        return {"mean": m.mean(), "sd": math.sqrt(m.var() + np.mean(noise**2)), "lower": lower, "upper": upper}

    return [[one(draws[:, i, j]) for j in range(2)] for i in range(6)]


print(
    json.dumps(
        {
            "classes, 3 members, 12 draws": classes([0, 1, 2], 12),
            "classes, 3 members, 1 draws": classes([0, 1, 2], 1),
            "classes, 1 members, 12 draws": classes([0], 12),
            "values, 3 members, 12 draws": values([0, 1, 2], 12),
            "comparison": comparison(),
            "class predictions": class_predictions(),
            "value predictions": value_predictions(),
        },
        indent=1,
    )
)
