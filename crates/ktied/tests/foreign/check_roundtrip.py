"""Whether the libraries take back what ktied writes: python check_roundtrip.py FOLDER

FOLDER is where the tests of this target leave their files: target/tmp/foreign, after `cargo test --test foreign`. They
hold the fixture with every matrix of σ replaced by the one of rank one with its sums over rows and columns.

bayesian-torch must load each file, have the scales that are computed here anew, and predict with them; numpy and
safetensors must read every name, type and shape. Needs what make_fixture.py needs.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from model import Net

HERE = Path(__file__).parent
DRAWS = 20_000


def matrix(tensor, axis):
    """M×N, N being the outputs."""
    return np.moveaxis(tensor, axis, -1).reshape(-1, tensor.shape[axis])


def rank_one(scale, axis):
    """The tensor whose matrix is that of the sums of rows and columns over the sum of all."""
    flat = matrix(scale, axis)
    flat = np.outer(flat.sum(1), flat.sum(0)) / flat.sum()
    moved = np.moveaxis(scale, axis, -1).shape
    return np.moveaxis(flat.reshape(moved), -1, axis)


def softplus(raw):
    return np.logaddexp(0.0, raw.astype(np.float64))


def relative(found, expected):
    return float(np.max(np.abs(found / expected - 1)))


def wanted(state):
    """σ of every tensor by name: rank one for matrices, as it was for vectors."""
    scales = {}
    for name, rho in state.items():
        if ".rho_" in name:
            scale = softplus(rho.numpy())
            axis = 1 if name.startswith("up.") else 0
            scales[name] = scale if scale.ndim < 2 else rank_one(scale, axis)
    return scales


def loaded(state):
    net = Net()
    net.load_state_dict(state)
    return net.eval()


def layer(net, name):
    for part in name.split(".")[:-1]:
        net = getattr(net, part)
    return net


def check_scales(net, scales):
    """By bayesian-torch's own expression."""
    worst = 0.0
    for name, expected in scales.items():
        scale = torch.log1p(torch.exp(getattr(layer(net, name), name.split(".")[-1]).double()))
        worst = max(worst, relative(scale.detach().numpy(), expected))
    return worst


def check_dense(net, scales):
    """Standard deviation of a dense layer's outputs over draws against sqrt(x² σ² + σ_b²)."""
    x = torch.linspace(-1, 1, 147)[None]
    with torch.no_grad():
        outputs = torch.cat([net.fc1(x, return_kl=False) for _ in range(DRAWS)]).double().numpy()
    weight, bias = scales["fc1.rho_weight"], scales["fc1.rho_bias"]
    expected = np.sqrt(weight**2 @ x[0].double().numpy() ** 2 + bias**2)
    return relative(outputs.std(0), expected)


def predictions(net):
    torch.manual_seed(3)
    images = torch.randn(10, 1, 8, 8)
    with torch.no_grad():
        return torch.stack([net(images)[0] for _ in range(200)]).double().numpy()


def reference(state, scales):
    """The same network with the scales set by torch alone."""
    state = dict(state)
    for name, scale in scales.items():
        state[name] = torch.log(torch.expm1(torch.from_numpy(scale.copy()))).float()
    return loaded(state)


def check_torch(path, state, scales):
    net = loaded(state)
    original = load_file(HERE / "bayesian_torch.safetensors")
    for name, tensor in original.items():
        if name not in scales or tensor.ndim < 2:
            assert tensor.dtype == state[name].dtype and torch.equal(tensor, state[name]), name
    scale, dense = check_scales(net, scales), check_dense(net, scales)
    ours, theirs, before = (predictions(n) for n in (net, reference(original, scales), loaded(original)))
    spread = relative(ours.std(0), theirs.std(0))
    change = relative(before.std(0), theirs.std(0))
    print(f"{path.name}: σ of the layers {scale:.1e}; σ of fc1's outputs over {DRAWS} draws {dense:.3f};")
    print(f"  σ of the predictions {spread:.1e} from torch's own, where the compression moves it by {change:.2f}")
    # |r| 2⁻²⁴ for single precision; a standard deviation of n draws has a relative error of 1/sqrt(2n).
    assert scale < 1e-6 and dense < 5 / np.sqrt(2 * DRAWS) and spread < 1e-4 < change


def check_tfp(path):
    before, after = np.load(HERE / "tfp.npz"), np.load(path)
    assert before.files == after.files
    worst = 0.0
    for name in before.files:
        old, new = before[name], after[name]
        assert (old.dtype, old.shape) == (new.dtype, new.shape), name
        if "kernel_posterior_untransformed_scale" in name:
            eps = np.finfo(old.dtype).eps
            worst = max(worst, relative(eps + softplus(new), rank_one(eps + softplus(old), -1)))
        else:
            assert np.array_equal(old, new), name
    print(f"{path.name}: σ {worst:.1e}")
    assert worst < 1e-6


def check_factors(folder, scales):
    state = load_file(folder / "factors.safetensors")
    u, v = (np.exp(state[f"fc1.rho_weight.log_{part}"].double().numpy()) for part in "uv")
    difference = relative((u @ v.T).T.reshape(state["fc1.mu_weight"].shape), scales["fc1.rho_weight"])
    with safe_open(folder / "factors.safetensors", "pt") as file:
        print(f"factors.safetensors: σ {difference:.1e}, remarks {file.metadata()}")
    assert difference < 1e-6
    arrays = np.load(folder / "factors.npz")
    shapes = {name: arrays[name].shape for name in arrays.files if name.endswith((".u", ".v"))}
    print(f"factors.npz: {shapes}")


def main(folder):
    scales = wanted(load_file(HERE / "bayesian_torch.safetensors"))
    path = folder / "compressed_bayesian_torch.safetensors"
    check_torch(path, load_file(path), scales)
    path = folder / "compressed_bayesian_torch.npz"
    check_torch(path, {name: torch.from_numpy(array) for name, array in np.load(path).items()}, scales)
    check_tfp(folder / "compressed_tfp.npz")
    check_factors(folder, scales)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
