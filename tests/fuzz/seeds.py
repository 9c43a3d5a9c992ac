"""Writes small files that inputs are made of: seeds.py FOLDER, one of each layout, index of chunks and kind of type."""
import os
import sys

import h5py
import numpy as np

folder = sys.argv[1]
values = (37 * np.arange(12).reshape(3, 4) + 11) % 113


def write(name, fill, **how):
    path = os.path.join(folder, name)
    with h5py.File(path, "w", **how) as file:
        fill(file)


def dataset(shape=(3, 4), **more):
    return lambda file: file.create_dataset("x", data=values.reshape(shape).astype("<i4"), **more)


packed = dict(chunks=(2, 3), compression="gzip", shuffle=True, fletcher32=True)
write("contiguous", dataset())
write("btree", dataset(**packed))
write("lzf", dataset(chunks=(2, 3), compression="lzf"))
write("three", dataset((2, 2, 3), chunks=(1, 2, 2), compression="gzip"))
write("fixed", dataset(**packed), libver="latest")
write("single", dataset(chunks=(3, 4), compression="gzip"), libver="latest")
write("growing", dataset(maxshape=(None, 4), **packed), libver="latest")
write("growing-both", dataset(maxshape=(None, None), **packed), libver="latest")


def compact(file):
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I16BE, h5py.h5s.create_simple((3, 4)), plist).write(
        h5py.h5s.ALL, h5py.h5s.ALL, values.astype(">i2"))


write("compact", compact)


def types(file):
    for kind in ("u1", ">i8", "<f2", ">f4", "<f8", "<u8"):
        file[kind] = values.astype(kind)
    file["logical"] = values > 50
    file["names"] = np.array([b"one", b"two"], "S3")
    file.create_dataset("texts", data=["one", "two"], dtype=h5py.string_dtype())


write("types", types)


def records(file):
    kind = np.dtype([("index", "S3"), ("count", "<i4"), ("high", ">u8"), ("share", "<f4"), ("is", "?"),
                     ("text", h5py.string_dtype()), ("pair", "<i2", (2,))])
    rows = [(b"a", 1, 2**60, 0.5, True, "one", (1, 2)), (b"bcd", -1, 7, -0.5, False, "", (3, 4))]
    file["obs"] = np.array(rows, kind)
    file.create_dataset("var", data=np.array(rows, kind), chunks=(1,), compression="gzip")


write("records", records)


def sparse(file):
    group = file.create_group("matrix")
    group["data"] = np.array([1, 2, 3, 4, 5], "<i4")
    group["indices"] = np.array([0, 3, 1, 2, 4], "<i8")
    group["indptr"] = np.array([0, 2, 2, 5], "<i8")
    group["shape"] = np.array([6, 3], "<i4")
    group["barcodes"] = np.array(["a", "b", "c"], "S1")


write("sparse", sparse)
write("sparse-latest", sparse, libver="latest")


def links(file):
    file["x"] = values.astype("<i4")
    file["soft"] = h5py.SoftLink("/x")
    file["away"] = h5py.ExternalLink("nowhere.h5", "/x")
    layout = h5py.VirtualLayout((3, 4), "<i4")
    layout[:2] = h5py.VirtualSource(".", "x", (3, 4))[:2]
    file.create_virtual_dataset("virtual", layout)


write("links", links, libver="latest")
