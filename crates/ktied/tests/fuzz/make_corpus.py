#!/usr/bin/env python3
"""Writes the files that the fuzzer starts from, one folder a target. Needs numpy: `python3 make_corpus.py`."""
import gzip, io, json, pathlib, struct, zipfile
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
rng = np.random.default_rng(0)
# Of its own, so that what came later left the files before it as they were.
more = np.random.default_rng(1)


def write(target, name, data):
    folder = HERE / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def npz(compression, **arrays):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, array in arrays.items():
            info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = compression
            archive.writestr(info, npy(array))
    return out.getvalue()


def idx(array):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape)
    return header + array.astype(np.uint8).tobytes()


def safetensors(tensors, **metadata):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, array in tensors.items():
        begin, data = len(data), data + array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


images, labels = rng.integers(0, 256, (3, 4, 4)), rng.integers(0, 10, 3)
write("idx", "images", idx(images))
write("idx", "labels", idx(labels))
write("idx-gz", "images", gzip.compress(idx(rng.integers(0, 17, (2, 8, 8))), mtime=0))
write("idx-gz", "two-members", gzip.compress(idx(rng.integers(0, 17, (2, 8, 8))), mtime=0) + gzip.compress(b"", mtime=0))
named = io.BytesIO()
with gzip.GzipFile("a name", "wb", 9, named, 0) as file:
    file.write(idx(more.integers(0, 17, (5, 8, 8))))
write("idx-gz", "named", named.getvalue())
write("idx-gz", "unpacked", idx(more.integers(0, 17, (2, 8, 8))))
write("cifar", "100", bytes([1, 99]) + bytes(3072))
write("cifar", "10", b"".join(bytes([n]) + rng.integers(0, 256, 3072).astype(np.uint8).tobytes() for n in (3, 9)))
floats = rng.normal(size=(3, 2))
for name, array in {
    "f4": floats.astype("<f4"),
    "f8-fortran": np.asfortranarray(floats),
    "big-endian": floats.astype(">f8"),
    "u1": labels.astype(np.uint8),
    "i8": labels.astype("<i8"),
    "bool": labels > 4,
    "scalar": np.float32(1.5),
    "empty": np.zeros((0, 2), "<f4"),
}.items():
    write("npy", name, npy(np.asarray(array)))
write("npy", "version-2", npy(floats, version=(2, 0)))
write("npy", "f8", npy(floats))
write("npy", "u2-fortran", npy(np.asfortranarray(more.integers(0, 99, (2, 3)).astype("<u2"))))
write("npy", "rows", npy(more.integers(0, 17, (2, 64)).astype("<f4")))
write("npy", "version-3", npy(np.zeros(1, [("größe", "<f4")]), version=(3, 0)))
x, y = rng.normal(size=(4, 3)).astype("<f4"), rng.integers(0, 2, 4)
for kind, compression in {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}.items():
    write("npz", kind, npz(compression, x=x, y=y))
write("npz", "arrays", npy(x) + npy(y))
write("npz", "values", npz(zipfile.ZIP_DEFLATED, x=x.astype("<f8"), y=x[:, 0]))
rows = {"x": more.integers(0, 17, (2, 64)).astype("<f4")}
write("npz", "rows", npz(zipfile.ZIP_STORED, **rows))
out = io.BytesIO()
out.seekable = lambda: False
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
    # Sizes behind the data, as where the archive could not be gone back in.
    for name, array in {"x": x, "y": y}.items():
        with archive.open(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), "w", force_zip64=True) as entry:
            entry.write(npy(array))
write("npz", "streamed", out.getvalue())
write("csv", "rows", b"".join(b",".join(b"%d" % n for n in more.integers(0, 17, 64)) + b"\n" for _ in range(2)))
write("csv", "values", b"\xef\xbb\xbfa;label\n 1 ;2\n1e3;-4.5\n")
write("csv", "several-lines", b'a,label\r\n"1\n",0\r\n\r\n"2"," 1"')
write("csv", "classes", b"a,b,label\n1,2.5,0\n-3e-2,4,1\n0,0,1\n")
write("csv", "quoted", b'"a","b ""c""",label\r\n"1",2,0\r\n3,"4",1\r\n')
rows = b"1 2 3.5\n-4e-1 5 6\n7\t8 9\n10 11 12\n"
write("uci", "table", rows)
write("uci", "divided", b"\x0c".join([rows, b"0\n2\n", b"1\n", b"3\n0\n2\n", b"1\n"]))
write("uci", "twice", b"\x0c".join([rows, b"0\n", b"1\n", b"3\n0\n", b"0\n"]))
reviews = [{"t": "A film, <br /> as good as bread.", "s": 9}, {"t": "No.", "s": None}, {"t": "\u00e9t\u00e9", "u": 1}]
write("imdb", "too-few", json.dumps(reviews).encode())
write("text", "lines", "a film\nwie gut, größer\nlast".encode())
write("text", "windows", "\ufeffa film\r\nthe end\r\n".encode())
write("text", "no-utf-8", b"a film\nas g\xf6od\n")
write("text", "empty-line", b"a film\n\nlast")
weights = {"dense_1.kernel.loc": x, "dense_1.kernel.log_u": x[:, :2], "dense_1.kernel.log_v": x[:3, :2]}
write("safetensors", "weights", safetensors(weights))
write("safetensors", "metadata", safetensors({"a": x}, format="pt"))
texts = {"a": {"dtype": "BF16", "shape": [], "data_offsets": [0, 2]}, "b": {"dtype": "I64", "shape": [2, 0], "data_offsets": [2, 2]}}
texts["größe"] = {"dtype": "BOOL", "shape": [1, 1], "data_offsets": [2, 3]}
text = json.dumps(texts).encode()
write("safetensors", "types", struct.pack("<Q", len(text)) + text + bytes(3))
write("safetensors", "empty", safetensors({}))
header = {
    "step": 7, "seed": 42, "data": "00", "config": {"train": {"batch": 256}}, "state": {"best": None}, "ktied": "0.1.0",
    "instruction_set": "avx2",
}
files = {"weights.safetensors": {"length": 120, "sha256": "11" * 32}}
manifest = {"format": 1, "header": header, "tensors": "22" * 32, "files": files}
write("manifest", "unsealed", json.dumps(manifest, indent=2).encode())
write("config", "preset", b'[model]\nkind = "mlp"\nsizes = [784, 400, 400, 10]\n\n[posterior]\nkind = "k-tied:2"\n\n[train]\nbatch = 256\nseed = 1\n')
write("config", "lenet", b"""preset = "lenet-cifar100"
[data]
set = "cifar100"
coarse = true
limit = 5000
dir = "a folder"
[model]
kind = "lenet"
side = 32
channels = 3
kernel = 3
filters = [8, 16]
dense = 64
classes = 20
dropout = 0.1
[posterior]
kind = "k-tied:3"
conv = "k-tied:2"
init_scale = 0.02
[prior]
kind = "he"
[estimator]
kind = "local"
draws = 2
[optim]
lr = 3e-4
scale_lr = 1e-3
drop_after = 0.75
clip = 10.0
[anneal]
per_batch = 5e-6
[train]
epochs = 3
batch = 128
validate_every = 2
validate_draws = 3
patience = 4
checkpoint_every = 1
checkpoint_steps = 100
keep = 3
log_every = 10
non_finite = "halve"
snr = true
""")
write("config", "resnet", b"""preset = "resnet18-cifar10"
model = { kind = "resnet18", widths = [8, 16, 32, 64], norm = "frozen", classes = 10, side = 32 }
posterior = { kind = "mean-field", scale = "softplus", cap = 0.18, init_means = 0.1, pruned = false }
prior = { kind = "empirical", scale = 1, every = 50 }
estimator.kind = "flipout"
anneal.epochs = 50
anneal.per_batch = "none"
cluster = { noise = "per-rank", wire = "half" }
""")
write("config", "lstm", b"""preset = "lstm-imdb"
[data]
vocabulary = 500
length = 20
[model]
kind = "lstm"
vocabulary = 500
embedding = 8
hidden = 8
[posterior]
kind = "matrix-normal"
[likelihood]
kind = "bernoulli"
temperature = 0.5
[train]
steps = 1000
non_finite = "skip"
""")
write("config", "table", b"""[data]
set = "uci/yacht"
split = 3
label = "y"
task = "values"
validation = 0.2
test = 0.2
seed = 7
standardize = false
[model]
sizes = [13, 50, 1]
[posterior]
kind = "low-rank:1"
[likelihood]
kind = "gaussian-fixed"
noise = 0.5
[estimator]
kind = "reparam"
""")
write("config", "wrong", b'[model]\nsides = -1\n[optim]\nlr = "much"\n')
write("foreign-npz", "keras", npz(zipfile.ZIP_STORED, **{"dense/kernel_posterior_loc:0": x, "dense/kernel_posterior_untransformed_scale:0": x}))
write("foreign-safetensors", "bayesian-torch", safetensors({"fc1.mu_weight": x, "fc1.rho_weight": x, "fc1.mu_bias": x[0], "fc1.rho_bias": x[0]}))
layers = {"dense/kernel_posterior_loc:0": x, "dense/kernel_posterior_untransformed_scale:0": x, "dense/bias:0": x[0].astype("<f2")}
conv = np.asfortranarray(more.normal(size=(2, 2, 1, 3)))
layers |= {"conv/kernel_posterior_loc:0": conv, "conv/kernel_posterior_untransformed_scale:0": conv}
write("foreign-npz", "layers", npz(zipfile.ZIP_DEFLATED, **layers))
write("foreign-npz", "texts", npz(zipfile.ZIP_STORED, names=np.array(["a"]), **layers))
write("foreign-npz", "arrays", npy(x) + npy(x))
write("foreign-safetensors", "tfp", safetensors({"dense/kernel_posterior_loc:0": x, "dense/kernel_posterior_untransformed_scale:0": x}))
convolution = {"conv.mu_kernel": conv.reshape(3, 1, 2, 2), "conv.rho_kernel": conv.reshape(3, 1, 2, 2), "running_mean": x[0]}
write("foreign-safetensors", "convolution", safetensors(convolution, format="pt"))
