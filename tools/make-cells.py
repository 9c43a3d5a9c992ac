"""Writes the file of demo/cells.R: python3 tools/make-cells.py inst/extdata/cells-10x.h5. Counts that are made up, of
600 cells and 500 genes, in the layout of 10x Genomics (Cell Ranger 3). Three kinds of cells differ in 40 genes each;
some cells are dying, and have few counts, most of them of mitochondrial genes; some droplets hold two cells."""
import sys

import h5py
import numpy as np

random = np.random.default_rng(7)
genes, cells, kinds = 500, 600, 3
names = ["MT-%d" % (k + 1) for k in range(13)] + ["GENE%d" % (k + 1) for k in range(genes - 13)]
level = random.gamma(0.4, 1.0, genes)
level[:13] = random.gamma(3.0, 0.6, 13)
means = np.tile(level, (kinds, 1))
for kind in range(kinds):
    means[kind, 20 + 40 * kind:60 + 40 * kind] += random.gamma(2.0, 1.5, 40)
means /= means.sum(axis=1, keepdims=True)
kind = random.choice(kinds, cells, p=[0.5, 0.3, 0.2])
depth = random.lognormal(6.4, 0.35, cells)
profile = means[kind]
dying = random.random(cells) < 0.06
profile[dying, :13] *= 12
profile[dying] /= profile[dying].sum(axis=1, keepdims=True)
depth[dying] *= 0.35
double = (random.random(cells) < 0.03) & ~dying
profile[double] = (profile[double] + means[random.choice(kinds, double.sum())]) / 2
depth[double] *= 1.9
counts = random.poisson(profile * depth[:, None])

data, indices, pointers = [], [], [0]
for line in counts:
    at = np.flatnonzero(line)
    indices.append(at)
    data.append(line[at])
    pointers.append(pointers[-1] + len(at))
letters = np.array(list("ACGT"))
barcodes = sorted("".join(letters[random.integers(0, 4, 16)]) + "-1" for _ in range(cells))
packed = dict(chunks=(20000,), compression="gzip", compression_opts=9, shuffle=True)
with h5py.File(sys.argv[1], "w") as file:
    matrix = file.create_group("matrix")
    matrix.create_dataset("data", data=np.concatenate(data).astype("<i4"), **packed)
    matrix.create_dataset("indices", data=np.concatenate(indices).astype("<i8"), **packed)
    matrix["indptr"] = np.array(pointers, "<i8")
    matrix["shape"] = np.array([genes, cells], "<i4")
    matrix["barcodes"] = np.array(barcodes, "S18")
    matrix["features/id"] = np.array(["G%05d" % k for k in range(genes)], "S6")
    matrix["features/name"] = np.array(names, "S8")
    matrix["features/feature_type"] = np.array(["Gene Expression"] * genes, "S15")
