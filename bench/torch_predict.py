#!/usr/bin/env python3
"""Prediction by many draws in PyTorch: the peer of `ktied bench predict`.

    python torch_predict.py [--posterior mean-field|k-tied:K] [--estimator local|reparam] [--samples S] [--examples N]
                            [--batch B] [--repeats R] [--threads T]

Averages the class probabilities of S draws of the MLP 784-400-400-10 over N made-up images, and gives each image's class,
entropy and mutual information. Written for a fair fight: no gradients, the first layer's mean and standard deviation
computed once for all draws under local reparameterisation, k-tied variances by their low-rank identity, noise drawn
into buffers that are used again, products and activations in place; batches are divided among threads of Python, each with
one of PyTorch's, because PyTorch draws normal numbers on one thread only. `reparam` draws the weights once for all images.
Prints one JSON line.
"""
import argparse, json, math, resource, time
from concurrent.futures import ThreadPoolExecutor
import torch

RSS_AFTER_IMPORT = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
SIZES = [784, 400, 400, 10]


class Layer:
    def __init__(self, m, n, posterior):
        self.mu = torch.randn(m, n) * math.sqrt(2 / m)
        self.bias, self.bias_var = torch.zeros(n), torch.full((n,), 1e-4)
        self.p = None
        if posterior.startswith("k-tied"):
            k = int(posterior.split(":")[1])
            c = 0.5 * (math.log(0.01) - math.log(k))
            u, v = (c + 0.1 * torch.randn(m, k)).exp(), (c + 0.1 * torch.randn(n, k)).exp()
            pairs = [(a, b) for a in range(k) for b in range(a, k)]
            self.p = torch.stack([u[:, a] * u[:, b] * (1 if a == b else 2) for a, b in pairs], 1)
            self.q = torch.stack([v[:, a] * v[:, b] for a, b in pairs], 1).T.contiguous()
            self.sd = u @ v.T
        else:
            self.sd = torch.full((m, n), 0.01)
        self.var = self.sd * self.sd

    def moments(self, x):
        """Mean and standard deviation of the sums."""
        x2 = x * x
        var = (x2 @ self.p) @ self.q if self.p is not None else x2 @ self.var
        return torch.addmm(self.bias, x, self.mu), var.add_(self.bias_var).add_(1e-12).sqrt_()


def by_local(layers, x, samples, generator):
    """Yields the logits of every draw."""
    mean, sd = layers[0].moments(x)
    noise = [torch.empty(x.shape[0], layer.mu.shape[1]) for layer in layers]
    for _ in range(samples):
        h = torch.addcmul(mean, sd, noise[0].normal_(generator=generator)).relu_()
        for i, layer in enumerate(layers[1:], 1):
            m, s = layer.moments(h)
            h = m.addcmul_(s, noise[i].normal_(generator=generator))
            h = h.relu_() if i + 1 < len(layers) else h
        yield h


def by_reparam(layers, x, samples, generator):
    noise = [torch.empty_like(layer.mu) for layer in layers]
    for _ in range(samples):
        h = x
        for i, layer in enumerate(layers):
            w = torch.addcmul(layer.mu, layer.sd, noise[i].normal_(generator=generator))
            b = layer.bias + layer.bias_var.sqrt() * torch.empty_like(layer.bias).normal_(generator=generator)
            h = torch.addmm(b, h, w)
            h = h.relu_() if i + 1 < len(layers) else h
        yield h


@torch.inference_mode()
def predict(layers, x, samples, draws, seed):
    """Class, entropy and mutual information of every row."""
    generator = torch.Generator().manual_seed(seed)
    total, entropy = torch.zeros(x.shape[0], SIZES[-1]), torch.zeros(x.shape[0])
    for logits in draws(layers, x, samples, generator):
        logp = torch.log_softmax(logits, 1)
        p = logp.exp()
        entropy -= (p * logp).sum(1)
        total += p
    p = total / samples
    all_entropy = -(p * p.clamp_min(1e-38).log()).sum(1)
    return p.argmax(1), all_entropy, all_entropy - entropy / samples


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posterior", default="k-tied:2")
    parser.add_argument("--estimator", default="local", choices=("local", "reparam"))
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--examples", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    a = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [Layer(m, n, a.posterior) for m, n in zip(SIZES, SIZES[1:])]
    x = torch.randn(a.examples, SIZES[0])
    draws = {"local": by_local, "reparam": by_reparam}[a.estimator]
    times = []
    with ThreadPoolExecutor(a.threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for _ in range(a.repeats):
            begin = time.perf_counter()
            parts = x.split(a.batch)
            found = list(pool.map(lambda i: predict(layers, parts[i], a.samples, draws, i), range(len(parts))))
            times.append((time.perf_counter() - begin) * 1e3)
    entropy, information = (torch.cat([f[i] for f in found]).mean().item() for i in (1, 2))
    times.sort()
    print(json.dumps(dict(engine=f"torch {torch.__version__}", model="mlp", posterior=a.posterior, estimator=a.estimator,
                          samples=a.samples, examples=a.examples, threads=a.threads,
                          median_ms=round(times[len(times) // 2], 2), min_ms=round(times[0], 2), entropy=entropy,
                          mutual_information=information,
                          peak_rss_mb=(rss := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024),
                          peak_rss_over_import_mb=rss - RSS_AFTER_IMPORT)))


if __name__ == "__main__":
    main()
