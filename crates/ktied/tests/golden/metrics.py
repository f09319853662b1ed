"""Golden values of the metrics, by numpy, scipy and scikit-learn: python metrics.py > metrics.json

Outputs and labels are those of a formula that ../core/evaluation.rs has too. Everything is computed from stored draws by
definition: no streaming, no shared sums. Needs numpy, scipy and scikit-learn 1.7 or newer.
"""

import json
import math

import numpy as np
from scipy.stats import entropy, norm
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, root_mean_squared_error

EXAMPLES = 300
KL, NUM_TRAIN = 1234.5, 1000
NOISE = float(np.float32(math.log(0.75)))  # the library stores ln s in single precision


def mix(x):
    """A hash of 32 bits (Wellons' lowbias32)."""
    x &= 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x = x * 0x846CA68B & 0xFFFFFFFF
    return x ^ x >> 16


def number(a, b, c):
    """A number of [-4, 4) that single precision has exactly."""
    return (mix(a * 1_000_003 + b * 1009 + c + 1) % 2048 - 1024) / 256


def label(example, classes):
    return mix(777 + example) % classes


def ease(example):
    """What speaks for the right class, or against it."""
    return 1.5 + number(55_555, example, 0)


def logits(draw, example, classes):
    return [number(draw, example, j) + ease(example) * (j == label(example, classes)) for j in range(classes)]


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sem(x):
    return float(np.std(x, ddof=1) / math.sqrt(len(x)))


def jackknife(metric, draws):
    """The textbook's formula for groups of one size, that of Busing et al. (1999) for others."""
    count, num_groups = len(draws), min(10, len(draws))
    group = np.arange(count) * num_groups // count
    without = np.array([metric(draws[group != g]) for g in range(num_groups)])
    sizes = np.bincount(group)
    if len(set(sizes)) == 1:
        return math.sqrt((num_groups - 1) / num_groups * np.sum((without - without.mean()) ** 2))
    whole, h = metric(draws), count / sizes
    pseudo = h * whole - (h - 1) * without
    center = num_groups * whole - np.sum((1 - sizes / count) * without)
    return math.sqrt(np.mean((pseudo - center) ** 2 / (h - 1)))


def ece(p, labels):
    """Guo et al. (2017): 15 bins, each without its lower edge and with its upper one."""
    confidence, correct = p.max(1), p.argmax(1) == labels
    bins = np.digitize(confidence, np.arange(1, 15) / 15, right=True)
    inside = [bins == b for b in range(15) if (bins == b).any()]
    return float(sum(abs(correct[i].mean() - confidence[i].mean()) * i.mean() for i in inside))


def adaptive_ece(p, labels):
    """15 bins of equal mass: bin b has the examples from floor(b n / 15) on, in the order of confidence."""
    confidence, correct = p.max(1), p.argmax(1) == labels
    order, count = np.argsort(confidence)[::-1], len(labels)
    bins = [order[b * count // 15 : (b + 1) * count // 15] for b in range(15)]
    return float(sum(abs(correct[i].sum() - confidence[i].sum()) for i in bins) / count)


def aurc(p, labels):
    """Mean over i of the share of wrong among the i most confident; ties share what is wrong among them."""
    confidence, wrong = p.max(1), (p.argmax(1) != labels).astype(float)
    _, tie, count = np.unique(confidence, return_inverse=True, return_counts=True)
    wrong = (np.bincount(tie, wrong) / count)[tie]
    risk = np.cumsum(wrong[np.argsort(-confidence)]) / np.arange(1, len(labels) + 1)
    return float(risk.mean())


def bootstrap(metric, count, replicates=20_000):
    rng = np.random.default_rng(1)
    return float(np.std([metric(rng.integers(count, size=count)) for _ in range(replicates)], ddof=1))


def estimates(draws, metrics):
    """metrics: name -> (metric of draws, standard error over examples)"""
    return {
        name: {"value": float(metric(draws)), "sem_examples": error, "sem_draws": jackknife(metric, draws)}
        for name, (metric, error) in metrics.items()
    }


def classes(probabilities, labels):
    """probabilities: [S, examples, classes]"""
    rows, num_classes = np.arange(len(labels)), probabilities.shape[2]
    every = list(range(num_classes))
    p = probabilities.mean(0)

    def usual(draws):
        p = draws.mean(0)
        if num_classes == 2:  # scikit-learn scores one class of two, which is half
            return 2 * brier_score_loss(labels, p[:, 1])
        return brier_score_loss(labels, p, labels=every, scale_by_half=False)

    def tfp(draws):  # tfp.stats.brier_score
        p = draws.mean(0)
        return float(np.mean(np.sum(p**2, -1) - 2 * p[rows, labels]))

    nll_of_draws = lambda draws: float(np.mean([log_loss(labels, p, labels=every) for p in draws]))
    brier_sem = sem(np.sum(p**2, -1) - 2 * p[rows, labels])
    total = lambda draws: entropy(draws.mean(0), axis=-1)
    aleatoric = lambda draws: entropy(draws, axis=-1).mean(0)
    epistemic = lambda draws: total(draws) - aleatoric(draws)
    uncertainties = {"entropy": total, "expected_entropy": aleatoric, "mutual_information": epistemic}
    of_ranks = {"ece": ece, "adaptive_ece": adaptive_ece, "aurc": aurc}
    return estimates(
        probabilities,
        {
            "nll_of_draws": (nll_of_draws, sem(-np.log(probabilities[:, rows, labels]).mean(0))),
            "neg_elbo": (
                lambda draws: nll_of_draws(draws) + KL / NUM_TRAIN,
                sem(-np.log(probabilities[:, rows, labels]).mean(0)),
            ),
            "nll": (lambda draws: log_loss(labels, draws.mean(0), labels=every), sem(-np.log(p[rows, labels]))),
            "accuracy": (lambda draws: accuracy_score(labels, draws.mean(0).argmax(1)), sem(p.argmax(1) == labels)),
            "brier": (tfp, brier_sem),
            "brier_usual": (usual, brier_sem),
        }
        | {
            name: (lambda draws, f=f: f(draws.mean(0), labels), bootstrap(lambda i, f=f: f(p[i], labels[i]), len(labels)))
            for name, f in of_ranks.items()
        }
        | {name: (lambda draws, f=f: float(f(draws).mean()), sem(f(probabilities))) for name, f in uncertainties.items()},
    )


def softmax_case(samples, num_classes):
    labels = np.array([label(i, num_classes) for i in range(EXAMPLES)])
    z = [[logits(d, i, num_classes) for i in range(EXAMPLES)] for d in range(samples)]
    return classes(softmax(np.array(z)), labels)


def bernoulli_case(samples):
    labels = np.array([label(i, 2) for i in range(EXAMPLES)])
    z = np.array([[number(d, i, 0) + ease(i) * (labels[i] - 0.5) for i in range(EXAMPLES)] for d in range(samples)])
    p = 1 / (1 + np.exp(-z))
    return classes(np.stack([1 - p, p], -1), labels)


def gaussian_case(samples, outputs):
    grid = lambda a: np.array([[number(a, i, j) for j in range(outputs)] for i in range(EXAMPLES)])
    y = grid(99_999)
    means = np.array([y + grid(d) / 4 for d in range(samples)])

    def log_density(draws):  # [S, examples]
        z = (y - draws) / math.exp(NOISE)
        return np.sum(-0.5 * z**2 - NOISE - 0.5 * math.log(2 * math.pi), -1)

    def nll(draws):
        return -np.log(np.mean(np.exp(log_density(draws)), 0))

    squares = np.mean((y - means.mean(0)) ** 2, -1)
    noise = math.exp(NOISE)
    covered = lambda draws, level: np.mean(abs(norm.cdf(y, draws, noise).mean(0) - 0.5) <= level / 2, -1)
    spread = lambda draws: np.mean(np.sqrt(noise**2 + draws.var(0)), -1)
    rmse = lambda draws: float(np.sqrt(np.mean((y - draws.mean(0)) ** 2)))
    if outputs == 1:
        assert math.isclose(rmse(means), root_mean_squared_error(y, means.mean(0)))
    return estimates(
        means,
        {
            "neg_elbo": (lambda d: float(-log_density(d).mean()) + KL / NUM_TRAIN, sem(-log_density(means).mean(0))),
            "nll": (lambda draws: float(nll(draws).mean()), sem(nll(means))),
            "rmse": (rmse, sem(squares) / (2 * math.sqrt(squares.mean()))),
            "nll_of_draws": (lambda draws: float(-log_density(draws).mean()), sem(-log_density(means).mean(0))),
            "sharpness": (lambda draws: float(spread(draws).mean()), sem(spread(means))),
        }
        | {
            f"coverage_{percent}": (
                lambda draws, level=percent / 100: float(covered(draws, level).mean()),
                sem(covered(means, percent / 100)),
            )
            for percent in (50, 90, 95)
        },
    )


if __name__ == "__main__":
    cases = {
        "softmax, 20 draws, 5 outputs": softmax_case(20, 5),
        "softmax, 23 draws, 5 outputs": softmax_case(23, 5),
        "softmax, 4 draws, 3 outputs": softmax_case(4, 3),
        "bernoulli, 20 draws, 1 outputs": bernoulli_case(20),
        "gaussian, 20 draws, 1 outputs": gaussian_case(20, 1),
        "gaussian, 23 draws, 2 outputs": gaussian_case(23, 2),
    }
    print(json.dumps(cases, indent=1))
