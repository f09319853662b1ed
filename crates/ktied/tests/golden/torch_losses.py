"""The losses of tests/core/golden.rs, computed once more in PyTorch: no code is shared, only the inputs.

A classifier with a Gaussian posterior over every weight is trained by Adam on -ELBO per example. Everything random
comes from inputs.json beside this file; the losses go to losses.json. All arithmetic is in double precision and all
gradients are autograd's. Needs Python 3 and torch (any recent version):

    python crates/ktied/tests/golden/torch_losses.py
"""

import json
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy, relu

HERE = Path(__file__).resolve().parent
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
VARIANCE_FLOOR = 1e-12


def exact(rows):
    """The file has the shortest decimals that single precision reads back; read so, they are the same numbers."""
    return torch.tensor(rows, dtype=torch.float32).double()


def gaussians(layer):
    """(mean, standard deviation) of the kernel, [M, N], and of the bias, [1, N]."""
    if "kernel.log_u" in layer:
        scale = layer["kernel.log_u"].exp() @ layer["kernel.log_v"].exp().T
    else:
        scale = layer["kernel.log_scale"].exp()
    return (layer["kernel.loc"], scale), (layer["bias.loc"], layer["bias.log_scale"].exp())


def divergence(layer, prior_scale):
    """KL(q || p) of a layer's weights, by torch's own formula."""
    prior = torch.distributions.Normal(0.0, prior_scale)
    normals = (torch.distributions.Normal(*gaussian) for gaussian in gaussians(layer))
    return sum(torch.distributions.kl_divergence(q, prior).sum() for q in normals)


def affine(x, layer, noise, estimator):
    """One random output of a layer for x, [B, M]."""
    (loc, scale), (bias_loc, bias_scale) = gaussians(layer)
    if estimator == "local":
        variance = x**2 @ scale**2 + bias_scale**2 + VARIANCE_FLOOR
        return x @ loc + bias_loc + variance.sqrt() * noise["activations"]
    perturbation = scale * noise["kernel"]
    bias = bias_loc + bias_scale * noise["bias"]
    if estimator == "reparam":
        return x @ (loc + perturbation) + bias
    assert estimator == "flipout"
    # The definition, an example at a time: its own perturbation of the weights is that of the batch times s r^T.
    signs = noise["input_signs"][:, :, None] * noise["output_signs"][:, None, :]
    return torch.einsum("bm,bmn->bn", x, loc + perturbation * signs) + bias


def neg_elbo(x, labels, layers, noise, estimator, inputs):
    """Mean negative log-likelihood of a batch plus KL/N, N being the number of training examples."""
    for i, layer in enumerate(layers):
        x = affine(x if i == 0 else relu(x), layer, noise[i], estimator)
    kl = sum(divergence(layer, inputs["prior_scale"]) for layer in layers)
    return cross_entropy(x, labels) + kl / inputs["num_train"]


class Adam:
    """Algorithm 1 of Kingma and Ba (2015)."""

    def __init__(self, parameters, rate):
        self.parameters, self.rate, self.time = parameters, rate, 0
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]

    def update(self, loss):
        self.time += 1
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            for p, g, m, v in zip(self.parameters, gradients, self.first, self.second):
                m.copy_(BETA_1 * m + (1 - BETA_1) * g)
                v.copy_(BETA_2 * v + (1 - BETA_2) * g**2)
                corrected_m, corrected_v = m / (1 - BETA_1**self.time), v / (1 - BETA_2**self.time)
                p -= self.rate * corrected_m / (corrected_v.sqrt() + EPSILON)


def train(inputs, posterior, estimator):
    """The loss of every step, before its update."""
    x, labels = exact(inputs["x"]), torch.tensor(inputs["labels"])
    first = inputs["parameters"][posterior]
    layers = [{name: exact(rows).requires_grad_() for name, rows in layer.items()} for layer in first]
    adam = Adam([tensor for layer in layers for tensor in layer.values()], inputs["learning_rate"])
    losses = []
    for step in inputs["steps"]:
        batch = slice(step["examples"]["start"], step["examples"]["end"])
        noise = [{name: exact(rows) for name, rows in layer.items()} for layer in step["noise"]]
        loss = neg_elbo(x[batch], labels[batch], layers, noise, estimator, inputs)
        losses.append(loss.item())
        adam.update(loss)
    return losses


def main():
    inputs = json.loads((HERE / "inputs.json").read_text())
    estimators = ["reparam", "flipout", "local"]
    losses = {p: {e: train(inputs, p, e) for e in estimators} for p in inputs["parameters"]}
    (HERE / "losses.json").write_text(json.dumps(losses, indent=1) + "\n")


if __name__ == "__main__":
    main()
