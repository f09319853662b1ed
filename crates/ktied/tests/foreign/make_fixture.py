"""Posteriors of other libraries and what their scales are: python make_fixture.py

Writes beside itself
  bayesian_torch.safetensors, bayesian_torch.npz   state_dict of model.py after a short training
  tfp.npz                                          tensors under the names of tfp.layers, by numpy alone
  expected.json                                    loc and σ of some entries, and sums over all, in double precision

Needs torch, bayesian-torch 0.5, safetensors and numpy. Seeds are fixed; other versions of torch may train to other bits,
for which expected.json is written anew too.
"""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from model import Net

HERE = Path(__file__).parent
EXAMPLES, STEPS = 240, 400


def images():
    """Noise with a bright square whose place is the class."""
    labels = torch.arange(EXAMPLES) % 3
    x = 0.5 * torch.randn(EXAMPLES, 1, 8, 8)
    for i, label in enumerate(labels):
        x[i, 0, 2 * label : 2 * label + 3, 1:5] += 1.5
    return x, labels


def train():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    x, labels = images()
    net = Net()
    adam = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(STEPS):
        logits, kl = net(x)
        loss = torch.nn.functional.cross_entropy(logits, labels) + kl / EXAMPLES / 100
        adam.zero_grad()
        loss.backward()
        adam.step()
    print("loss", loss.item(), "accuracy", (logits.argmax(1) == labels).float().mean().item())
    return net.state_dict()


def places(shape):
    """The first entry, the last one and some in between."""
    count = int(np.prod(shape))
    return [np.unravel_index(flat, shape) for flat in sorted({0, count // 3, count // 2, count - 1})]


def entry(loc, scale):
    return {
        "shape": list(scale.shape),
        "loc_sum": float(np.asarray(loc, dtype=np.float64).sum()),
        "scale_sum": float(scale.sum()),
        "entries": [
            {"at": [int(i) for i in at], "loc": float(loc[at]), "scale": float(scale[at])} for at in places(scale.shape)
        ],
    }


def expected_of_torch(state):
    """σ by bayesian-torch's own formula, log1p(exp(rho)), in double precision."""
    expected = {}
    for name, rho in state.items():
        if ".rho_" in name:
            scale = torch.log1p(torch.exp(rho.double())).numpy()
            expected[name] = entry(state[name.replace(".rho_", ".mu_")].numpy(), scale)
    return expected


def tfp_arrays():
    """Variables of tfp.layers by name: some as TensorFlow prints them, with `:0`, some without."""
    rng = np.random.default_rng(11)

    def pair(prefix, shape, tail="", dtype=np.float32):
        return {
            f"{prefix}_loc{tail}": rng.normal(0, 0.1, shape).astype(dtype),
            f"{prefix}_untransformed_scale{tail}": rng.normal(-4, 2, shape).astype(dtype),
        }

    arrays = pair("net/conv2d_flipout/kernel_posterior", (3, 3, 2, 4), ":0")
    arrays["net/conv2d_flipout/bias_posterior_loc:0"] = np.linspace(-1, 1, 4, dtype=np.float32)
    arrays |= pair("net/dense_reparameterization/kernel_posterior", (12, 5))
    arrays |= pair("net/dense_reparameterization/bias_posterior", (5,))
    arrays |= pair("net/double/kernel_posterior", (4, 3), ":0", np.float64)
    arrays["net/step"] = np.int64(1200)
    # numpy writes the transpose of an array column by column and says so in the header.
    turned = "net/dense_reparameterization/kernel_posterior_untransformed_scale"
    arrays[turned] = np.asfortranarray(arrays[turned])
    return arrays


def expected_of_tfp(arrays):
    """σ = ε + softplus(r), ε that of the variable's own type (default_loc_scale_fn of tfp.layers.util)."""
    expected = {}
    for name, raw in arrays.items():
        if "untransformed_scale" in name:
            scale = np.finfo(raw.dtype).eps + np.logaddexp(0.0, raw.astype(np.float64))
            expected[name] = entry(arrays[name.replace("untransformed_scale", "loc")], scale)
    return expected


def main():
    state = train()
    save_file(state, HERE / "bayesian_torch.safetensors", metadata={"format": "pt"})
    np.savez_compressed(HERE / "bayesian_torch.npz", **{name: tensor.numpy() for name, tensor in state.items()})
    arrays = tfp_arrays()
    np.savez(HERE / "tfp.npz", **arrays)
    expected = {"bayesian_torch": expected_of_torch(state), "tfp": expected_of_tfp(arrays)}
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
