"""Singular values by NumPy of matrices that both sides make from the same fractions: writes svd.json beside this file.

    python3 svd.py
"""
import json
import pathlib

import numpy as np


def hash_matrix(rows, cols):
    i, j = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    return ((i * 31 + j * 17 + i * j * 7 + 3) % 101).astype(np.float64) / 101.0


def hilbert(rows, cols):
    i, j = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    return 1.0 / (1.0 + i + 2.0 * j)


def smooth(rows, cols):
    """Positive, with a fast falling spectrum, as trained standard deviations have."""
    i, j = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    return (1.0 + i / rows) * (2.0 - j / cols) + (1.0 + (i * 5 % 11) / 11.0) / (1.0 + (j * 3 % 7))


cases = []
for kind, make in [("hash", hash_matrix), ("hilbert", hilbert), ("smooth", smooth)]:
    for rows, cols in [(1, 1), (5, 3), (3, 5), (40, 40), (130, 97), (97, 300)]:
        values = np.linalg.svd(make(rows, cols), compute_uv=False)
        cases.append({"kind": kind, "rows": rows, "cols": cols, "values": values.tolist()})
pathlib.Path(__file__).with_name("svd.json").write_text(json.dumps({"numpy": np.__version__, "cases": cases}))
