"""The networks of tests/core/golden_networks.rs, built once more in PyTorch: no code is shared, only the inputs.

LeNet, the LSTM classifier and ResNet-18 are made of torch's own layers, in double precision, with gradients by
autograd. Parameters, data and noise come from network_inputs.json beside this file; logits, losses, gradients and
running averages of every case go to network_outputs.json. Needs Python 3 and torch (any recent version):

    python crates/ktied/tests/golden/torch_networks.py
"""

import json
import math
from pathlib import Path

import torch
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
NORM_EPSILON, NORM_MOMENTUM = 1e-3, 0.99
VARIANCE_FLOOR = 1e-12


def exact(rows):
    """The file has the shortest decimals that single precision reads back; read so, they are the same numbers."""
    return torch.tensor(rows, dtype=torch.float32).double()


class Model:
    """What all passes of a case share: parameters, which of them were used, and the running averages."""

    def __init__(self, network, case):
        self.stored, self.case = network["parameters"], case
        self.scale_form, self.prior_scale = network["scale_form"], network["prior_scale"]
        self.used, self.averages = {}, {}

    def parameter(self, path):
        if path not in self.used:
            self.used[path] = exact(self.stored[path]).requires_grad_()
        return self.used[path]

    def gaussian(self, path, posterior):
        """(mean, standard deviation) of a matrix; no deviation for a point."""
        loc = self.parameter(f"{path}.loc")
        if posterior == "point":
            return loc, None
        if posterior == "mean-field":
            raw = self.parameter(f"{path}.raw_scale")
            return loc, raw.exp() if self.scale_form == "log" else F.softplus(raw)
        assert posterior.startswith("k-tied:")
        return loc, self.parameter(f"{path}.log_u").exp() @ self.parameter(f"{path}.log_v").exp().T

    def norm(self, x, path, statistics):
        """Batch normalisation of the channels of x, [B, C, H, W], without the rectifier that follows."""
        channels = x.shape[1]
        gamma, beta = self.parameter(f"{path}.gamma").flatten(), self.parameter(f"{path}.beta").flatten()
        mean = self.averages.setdefault(f"{path}.running_mean", torch.zeros(channels).double())
        var = self.averages.setdefault(f"{path}.running_var", torch.ones(channels).double())
        if self.case["norm"] == "frozen":
            return F.batch_norm(x, torch.zeros_like(mean), torch.ones_like(var), gamma, beta, eps=NORM_EPSILON)
        if statistics == "running":
            return F.batch_norm(x, mean, var, gamma, beta, eps=NORM_EPSILON)
        # torch's own running averages would take the unbiased variance.
        batch_var, batch_mean = torch.var_mean(x.detach(), dim=(0, 2, 3), correction=0)
        self.averages[f"{path}.running_mean"] = NORM_MOMENTUM * mean + (1 - NORM_MOMENTUM) * batch_mean
        self.averages[f"{path}.running_var"] = NORM_MOMENTUM * var + (1 - NORM_MOMENTUM) * batch_var
        return F.batch_norm(x, None, None, gamma, beta, training=True, eps=NORM_EPSILON)


class Pass:
    """One forward pass: draws the weights of each layer, and sums up their divergence."""

    def __init__(self, model, noise, estimator, statistics):
        self.model, self.noise, self.estimator, self.statistics = model, noise, estimator, statistics
        self.kl = torch.zeros(()).double()

    def of(self, layer, what):
        return exact(self.noise[layer][what])

    def gaussian(self, path, posterior):
        loc, scale = self.model.gaussian(path, posterior)
        if scale is not None:
            q, p = torch.distributions.Normal(loc, scale), torch.distributions.Normal(0.0, self.model.prior_scale)
            self.kl = self.kl + torch.distributions.kl_divergence(q, p).sum()
        return loc, scale

    def kernels(self, path, layer, posterior, output_signs=None, area=1):
        """A kernel for every example, [B, M, N]: the same for all, or mu + (s r^T) * sigma * epsilon by Flipout.

        `area` is how many positions a kernel of a convolution has: its rows go through all channels at each of them.
        """
        loc, scale = self.gaussian(f"{path}.kernel", posterior)
        batch = len(self.noise[layer]["input_signs"])
        if scale is None:
            return loc.expand(batch, -1, -1)
        delta = scale * self.of(layer, "kernel")
        if self.estimator == "reparam":
            return (loc + delta).expand(batch, -1, -1)
        s, r = self.of(layer, "input_signs").tile(1, area), self.of(output_signs or layer, "output_signs")
        return loc + delta * torch.einsum("bm,bn->bmn", s, r)

    def bias(self, path, layer, posterior):
        loc, scale = self.gaussian(f"{path}.bias", posterior)
        return (loc if scale is None else loc + scale * self.of(layer, "bias"))[0]

    def conv(self, x, path, layer, size, stride, kernel_posterior, bias_posterior):
        """'Same' convolution of x, [B, C, H, W], padded as TensorFlow does."""
        kernels = self.kernels(path, layer, kernel_posterior, area=size * size)
        bias = self.bias(path, layer, bias_posterior)
        padding = []
        for length in (x.shape[3], x.shape[2]):
            total = max((math.ceil(length / stride) - 1) * stride + size - length, 0)
            padding += [total // 2, total - total // 2]
        x = F.pad(x, padding)
        outputs = []
        for example, kernel in zip(x, kernels):
            weight = kernel.reshape(size, size, x.shape[1], -1).permute(3, 2, 0, 1)
            outputs.append(F.conv2d(example[None], weight, bias, stride=stride))
        return torch.cat(outputs)

    def dense(self, x, path, layer, kernel_posterior, bias_posterior):
        if self.estimator == "local" and kernel_posterior != "point":
            loc, scale = self.gaussian(f"{path}.kernel", kernel_posterior)
            bias_loc, bias_scale = self.gaussian(f"{path}.bias", bias_posterior)
            variance = x**2 @ scale**2 + (0.0 if bias_scale is None else bias_scale**2) + VARIANCE_FLOOR
            return x @ loc + bias_loc + variance.sqrt() * self.of(layer, "activations")
        kernels = self.kernels(path, layer, kernel_posterior)
        return torch.einsum("bm,bmn->bn", x, kernels) + self.bias(path, layer, bias_posterior)

    def lstm(self, words, path, layer, posterior):
        """The last hidden state for words, [B, T, M]; torch's gates are i, f, g, o, where g is the cell's."""
        kernels = self.kernels(f"{path}.kernel", f"{layer}.kernel", posterior)
        recurrent = self.kernels(f"{path}.recurrent", f"{layer}.recurrent", posterior, f"{layer}.kernel")
        bias = self.bias(f"{path}.kernel", f"{layer}.kernel", "point")
        hidden = recurrent.shape[1]
        forget_bias = torch.cat([torch.full((hidden,), value).double() for value in (0.0, 1.0, 0.0, 0.0)])
        lstm = torch.nn.LSTM(words.shape[2], hidden, batch_first=True).double()
        last = []
        for example, w, r in zip(words, kernels, recurrent):
            weights = {"weight_ih_l0": w.T, "weight_hh_l0": r.T, "bias_ih_l0": bias, "bias_hh_l0": forget_bias}
            _, (h, _) = torch.func.functional_call(lstm, weights, example[None])
            last.append(h[0])
        return torch.cat(last)


def images(x, spec):
    """[B, H*W*C] -> [B, C, H, W]"""
    return exact(x).reshape(len(x), spec["side"], spec["side"], spec["channels"]).permute(0, 3, 1, 2)


def lenet(x, spec, draw, posterior):
    """Two 'same' convolutions with 2x2 max-pool each, mean-field where dense layers are tied, and two dense layers."""
    vector = "point" if posterior == "point" else "mean-field"
    x = images(x, spec)
    for i in range(2):
        x = draw.conv(x, f"network.convs.{i}.weights", f"conv_{i + 1}.kernel", spec["kernel"], 1, vector, vector)
        x = F.max_pool2d(F.relu(x), 2)
    x = x.permute(0, 2, 3, 1).flatten(1)
    x = F.relu(draw.dense(x, "network.dense.0.weights", "dense_1.kernel", posterior, vector))
    return draw.dense(x, "network.dense.1.weights", "dense_2.kernel", posterior, vector)


def lstm_classifier(x, spec, draw, posterior):
    """Embedding and biases are points; the head has one column, so nothing to tie."""
    table, _ = draw.gaussian("embedding.weights.kernel", "point")
    last = draw.lstm(F.embedding(torch.tensor(x), table), "lstm", "lstm", posterior)
    return draw.dense(last, "head.weights", "head.kernel", "point" if posterior == "point" else "mean-field", "point")


def resnet18(x, spec, draw, posterior):
    def conv(x, path, layer, size, stride):
        return draw.conv(x, f"network.{path}.weights", f"{layer}.kernel", size, stride, posterior, "point")

    def norm_relu(x, path):
        return F.relu(draw.model.norm(x, f"network.{path}", draw.statistics))

    x = conv(images(x, spec), "stem", "stem", 3, 1)
    for i, stride in enumerate([1, 2, 2, 2]):
        path, layer = f"blocks.{i}", f"block_{i + 1}"
        h = norm_relu(x, f"{path}.norm_1")
        shortcut = conv(h, f"{path}.shortcut", f"{layer}.shortcut", 1, stride)
        main = norm_relu(conv(h, f"{path}.conv_1", f"{layer}.conv_1", 3, stride), f"{path}.norm_2")
        x = conv(main, f"{path}.conv_2", f"{layer}.conv_2", 3, 1) + shortcut
    x = F.avg_pool2d(norm_relu(x, "norm"), 4).flatten(1)
    return draw.dense(x, "network.dense.weights", "dense.kernel", posterior, "point")


FORWARD = {"lenet": lenet, "lstm": lstm_classifier, "resnet18": resnet18}


def nll(logits, labels):
    labels = torch.tensor(labels)
    if logits.shape[1] == 1:
        return F.binary_cross_entropy_with_logits(logits[:, 0], labels.double())
    return F.cross_entropy(logits, labels)


def outcome(network, case):
    """Everything there is to compare about the last pass of a case."""
    model, spec = Model(network, case), network["model"]
    for number in case["passes"]:
        given = network["passes"][number]
        examples = slice(given["examples"]["start"], given["examples"]["end"])
        draw = Pass(model, given["noise"], case["estimator"], given["statistics"])
        logits = FORWARD[spec["kind"]](network["x"][examples], spec, draw, case["posterior"])
        likelihood = nll(logits, network["labels"][examples])
        loss = likelihood + draw.kl / network["num_train"]
    gradients = torch.autograd.grad(loss, list(model.used.values()))
    return {
        "nll": likelihood.item(),
        "neg_elbo": loss.item(),
        "logits": digits(logits),
        "gradients": {path: digits(gradient) for path, gradient in zip(model.used, gradients)},
        "averages": {path: digits(average) for path, average in model.averages.items()},
    }


def digits(tensor):
    """Ten decimals, which single precision cannot tell from all; zero where sums cancel."""
    return [round(value, 10) + 0.0 for value in tensor.flatten().tolist()]


def main():
    inputs = json.loads((HERE / "network_inputs.json").read_text())
    outcomes = {name: outcome(inputs["networks"][case["network"]], case) for name, case in inputs["cases"].items()}
    # A line for each tensor, so that differences can be read.
    text = json.dumps(outcomes, separators=(",", ":")).replace('],"', '],\n"')
    (HERE / "network_outputs.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
