"""A file in the layout of 10x Genomics: python3 make.py FILE GENES CELLS. 7% of the counts are not zero; chunks of
80,000 entries, shuffled, deflate 1, as Cell Ranger writes them."""
import sys

import h5py
import numpy as np

path, genes, cells = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random = np.random.default_rng(1)
packed = dict(chunks=(80000,), maxshape=(None,), compression="gzip", compression_opts=1, shuffle=True)
with h5py.File(path, "w") as file:
    matrix = file.create_group("matrix")
    data = matrix.create_dataset("data", (0,), "<i4", **packed)
    indices = matrix.create_dataset("indices", (0,), "<i8", **packed)
    pointers = [0]
    for first in range(0, cells, 500):
        many = min(500, cells - first)
        lines, at = np.nonzero(random.random((many, genes), dtype="f4") < 0.07)
        count = random.geometric(0.4, len(at)).astype("<i4")
        size = data.shape[0]
        data.resize((size + len(at),))
        indices.resize((size + len(at),))
        data[size:] = count
        indices[size:] = at
        pointers.extend(size + np.cumsum(np.bincount(lines, minlength=many)))
    matrix["indptr"] = np.array(pointers, "<i8")
    matrix["shape"] = np.array([genes, cells], "<i4")
    matrix["barcodes"] = np.array(["c%d" % k for k in range(cells)], "S12")
    matrix["features/id"] = np.array(["g%d" % k for k in range(genes)], "S12")
    matrix["features/name"] = matrix["features/id"][:]
