#!/usr/bin/env python3
"""Writes the files that the fuzzer starts from, one folder a target. Needs numpy: `python3 make_corpus.py`."""
import gzip, io, json, pathlib, struct, zipfile
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
rng = np.random.default_rng(0)


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
x, y = rng.normal(size=(4, 3)).astype("<f4"), rng.integers(0, 2, 4)
for kind, compression in {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED}.items():
    write("npz", kind, npz(compression, x=x, y=y))
write("csv", "classes", b"a,b,label\n1,2.5,0\n-3e-2,4,1\n0,0,1\n")
write("csv", "quoted", b'"a","b ""c""",label\r\n"1",2,0\r\n3,"4",1\r\n')
reviews = [{"t": "A film, <br /> as good as bread.", "s": 9}, {"t": "No.", "s": None}, {"t": "\u00e9t\u00e9", "u": 1}]
write("imdb", "too-few", json.dumps(reviews).encode())
write("text", "lines", "a film\nwie gut, größer\nlast".encode())
write("text", "empty-line", b"a film\n\nlast")
weights = {"dense_1.kernel.loc": x, "dense_1.kernel.log_u": x[:, :2], "dense_1.kernel.log_v": x[:3, :2]}
write("safetensors", "weights", safetensors(weights))
write("safetensors", "metadata", safetensors({"a": x}, format="pt"))
write("safetensors", "empty", safetensors({}))
header = {
    "step": 7, "seed": 42, "data": "00", "config": {"train": {"batch": 256}}, "state": {"best": None}, "ktied": "0.1.0",
    "instruction_set": "avx2",
}
files = {"weights.safetensors": {"length": 120, "sha256": "11" * 32}}
manifest = {"format": 1, "header": header, "tensors": "22" * 32, "files": files}
write("manifest", "unsealed", json.dumps(manifest, indent=2).encode())
write("config", "preset", b'[model]\nkind = "mlp"\nsizes = [784, 400, 400, 10]\n\n[posterior]\nkind = "k-tied:2"\n\n[train]\nbatch = 256\nseed = 1\n')
write("config", "wrong", b'[model]\nsides = -1\n[optim]\nlr = "much"\n')
write("foreign-npz", "keras", npz(zipfile.ZIP_STORED, **{"dense/kernel_posterior_loc:0": x, "dense/kernel_posterior_untransformed_scale:0": x}))
write("foreign-safetensors", "bayesian-torch", safetensors({"fc1.mu_weight": x, "fc1.rho_weight": x, "fc1.mu_bias": x[0], "fc1.rho_bias": x[0]}))
