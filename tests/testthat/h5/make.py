"""Writes the HDF5 files of the tests:  make.py FOLDER [small|exact]

`small` writes those that are kept in this folder for machines without h5py, `exact` the one that other readers are
compared with, of elements at the ends of each type. Element (i, j) of most
datasets is (37 i + 11 j) mod 113, with i and j from 0 and j running fastest, so that R can tell.
"""
import os
import sys
import zlib

import h5py
import numpy as np

folder = sys.argv[1]
small = sys.argv[2:] == ["small"]


def path(name):
    return os.path.join(folder, name)


def values(shape):
    index = np.indices(shape)
    return (37 * index[-2] + 11 * index[-1]) % 113 if len(shape) > 1 else (11 * index[0]) % 113


def layouts():
    chunked = dict(chunks=(5, 4))
    all_of = {
        "contiguous": {},
        "plain": dict(chunked),
        "gzip": dict(chunked, compression="gzip", compression_opts=3),
        "shuffle": dict(chunked, compression="gzip", shuffle=True),
        "fletcher": dict(chunked, compression="gzip", shuffle=True, fletcher32=True),
        "sum": dict(chunked, fletcher32=True),
        "lzf": dict(chunked, compression="lzf", shuffle=True),
    }
    if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        info = h5py.h5z.get_filter_info(h5py.h5z.FILTER_SZIP)
        if info & h5py.h5z.FILTER_CONFIG_ENCODE_ENABLED:
            all_of["szip"] = dict(chunks=(8, 8), compression="szip")
    return all_of


def write_types(file):
    types = "i1 u1 <i2 >i2 <u2 >u2 <i4 >i4 <u4 >u4 <i8 >i8 <u8 >u8 <f2 >f2 <f4 >f4 <f8 >f8".split()
    kinds = layouts()
    if small:
        types = "i1 >u2 <i4 <f8".split()
        kinds = {k: kinds[k] for k in ("contiguous", "fletcher", "lzf")}
    x = values((23, 17))
    for kind, options in kinds.items():
        for t in types:
            if kind == "szip" and t[-1] == "8" and t[-2] != "f":
                continue
            name = "%s/%s" % (kind, t.replace("<", "le-").replace(">", "be-"))
            file.create_dataset(name, data=x.astype(t), **options)
    if small:
        return
    for t in ("<i4", "<u2", "<i8"):
        file.create_dataset("scaleoffset/" + t[1:], data=x.astype(t), chunks=(5, 4), scaleoffset=0)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_layout(h5py.h5d.COMPACT)
    write_low(file, "compact", h5py.h5t.STD_I32LE, x.astype("<i4"), create)
    narrow = h5py.h5t.STD_I32LE.copy()
    narrow.set_precision(20)  # with more unused bits than used ones, libhdf5 2.0 refuses the type
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_chunk((5, 4))
    create.set_filter(h5py.h5z.FILTER_NBIT, 0)
    write_low(file, "nbit", narrow, x.astype("<i4"), create)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_external(b"raw.bin", 0, 23 * 17 * 4)
    write_low(file, "elsewhere", h5py.h5t.STD_I32LE, x.astype("<i4"), create)


def write_low(file, name, kind, data, create):
    space = h5py.h5s.create_simple(data.shape)
    dataset = h5py.h5d.create(file.id, name.encode(), kind, space, create)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, data)


# Filters that libhdf5 has where a plugin is installed.
PLUGINS = {"bzip2": (307, (9,)), "blosc": (32001, (2, 2, 4, 80, 5, 1, 0)), "lz4": (32004, ()),
           "bitshuffle": (32008, (0, 2)), "zstd": (32015, (3,))}


def plugins():
    there = {name: how for name, how in PLUGINS.items() if h5py.h5z.filter_avail(how[0])}
    return {name: dict(chunks=(5, 4), compression=id, compression_opts=options)
            for name, (id, options) in there.items()}


def extremes(t, shape):
    """Elements of any bytes, the first of which are where a type ends or a sign or rounding begins."""
    t = np.dtype(t)
    count = int(np.prod(shape))
    x = np.frombuffer(np.random.RandomState(1).bytes(count * t.itemsize), t).copy()
    if t.kind == "f":
        info = np.finfo(t)
        first = [0.0, -0.0, 1 / 3, -1 / 3, np.nan, np.inf, -np.inf, info.max, info.min, info.tiny,
                 info.smallest_subnormal, -info.smallest_subnormal, info.tiny - info.smallest_subnormal]
    else:
        info = np.iinfo(t)
        high = 2 ** (8 * t.itemsize - 1)
        first = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, high - 1, high // 2]
        first += [-1, -2, -high // 2] if t.kind == "i" else [high, high + 1]
        first += [v + d for v in (2**31, 2**53, -2**31, -2**53) for d in (-1, 0, 1) if info.min <= v + d <= info.max]
    x[:len(first)] = np.array(first[:count], t)
    return x.reshape(shape)


def write_exact(file):
    kinds = layouts()
    kinds.update(plugins())
    for kind, options in kinds.items():
        for t in "i1 u1 <i2 >i2 <u2 >u2 <i4 >i4 <u4 >u4 <i8 >i8 <u8 >u8 <f2 >f2 <f4 >f4 <f8 >f8".split():
            if kind == "szip" and t[-1] == "8" and t[-2] != "f":
                continue
            name = "%s/%s" % (kind, t.replace("<", "le-").replace(">", "be-"))
            file.create_dataset(name, data=extremes(t, (23, 17)), **options)
    for t in ("<i4", "<u2", "<i8"):
        x = extremes(t, (23, 17)) // 8
        file.create_dataset("scaleoffset/" + t[1:], data=x, chunks=(5, 4), scaleoffset=0)
    packed = dict(chunks=(4, 5), compression="gzip")
    file["one"] = extremes("<i2", (29,))
    file.create_dataset("one-packed", data=extremes(">f4", (29,)), chunks=(7,), compression="gzip", shuffle=True)
    file.create_dataset("three", data=extremes("<u2", (4, 6, 5)), chunks=(3, 4, 2), compression="gzip")
    file.create_dataset("four", data=extremes("<f8", (2, 2, 6, 5)), chunks=(1, 2, 4, 2), compression="gzip")
    file.create_dataset("boolean", data=extremes("i1", (9, 7)) < 0, **packed)
    kind = h5py.enum_dtype({"low": -2**15, "minus": -1, "none": 0, "high": 2**15 - 1}, ">i2")
    file.create_dataset("enum", data=np.resize([-2**15, -1, 0, 2**15 - 1], (9, 7)), dtype=kind, **packed)
    for t, fill in (("<i8", -2**62), (">f4", -0.0), ("<f8", np.nan), ("u1", 255)):
        part = file.create_dataset("part/" + t.strip("<>"), shape=(9, 9), dtype=t, fillvalue=fill, **packed)
        part[4:8, 5:9] = extremes(t, (4, 4))
    narrow = h5py.h5t.STD_I32LE.copy()
    narrow.set_precision(20)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_chunk((5, 4))
    create.set_filter(h5py.h5z.FILTER_NBIT, 0)
    write_low(file, "nbit", narrow, extremes("<i4", (23, 17)) >> 12, create)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_layout(h5py.h5d.COMPACT)
    write_low(file, "compact", h5py.h5t.STD_I64BE, extremes(">i8", (23, 17)), create)
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_external(b"exact.bin", 0, 23 * 17 * 8)
    write_low(file, "elsewhere", h5py.h5t.IEEE_F64BE, extremes(">f8", (23, 17)), create)
    with h5py.File(path("exact-target.h5"), "w") as other:
        other.create_dataset("x", data=extremes(">i4", (4, 5)), chunks=(3, 3), compression="gzip")
        other["y"] = extremes("<f4", (4, 5))
    file["out"] = h5py.ExternalLink("exact-target.h5", "/x")
    for name, inside, t in (("virtual", "x", ">i4"), ("virtual-float", "y", "<f4")):
        layout = h5py.VirtualLayout(shape=(9, 6), dtype=t)
        layout[:4, 1:] = h5py.VirtualSource("exact-target.h5", inside, shape=(4, 5))
        layout[5:9:2, :5] = h5py.VirtualSource("exact-target.h5", inside, shape=(4, 5))[1:3]
        file.create_virtual_dataset(name, layout, fillvalue=-7)


def write_shapes(file):
    file.create_dataset("one", data=values((29,)).astype("i4"), chunks=(7,), compression="gzip")
    cube = np.stack([values((6, 5)) + 1000 * k for k in range(4)]).astype("i4")
    file.create_dataset("three", data=cube, chunks=(3, 4, 2), compression="gzip", shuffle=True)
    file.create_dataset("three-plain", data=cube)
    file.create_dataset("single", data=np.int32(42))
    file.create_dataset("empty", shape=(0, 4), dtype="f8", chunks=(2, 2), maxshape=(None, 4))
    file.create_dataset("none", shape=(5, 6), dtype="i2", chunks=(2, 4), fillvalue=-7, compression="gzip")
    file.create_dataset("none-plain", shape=(5, 6), dtype=">f4", fillvalue=2.5)
    part = file.create_dataset("part", shape=(9, 9), dtype=">i4", chunks=(4, 4), fillvalue=-1,
                               compression="gzip")
    part[4:8, 4:8] = 5
    # Chunks that leave out filters say so in their mask: the first one has none, the next only shuffle.
    mask = file.create_dataset("mask", shape=(4, 6), dtype="<i4", chunks=(4, 3), compression="gzip",
                               shuffle=True)
    x = values((4, 6)).astype("<i4")
    mask.id.write_direct_chunk((0, 0), x[:, :3].tobytes(), 3)
    shuffled = np.frombuffer(x[:, 3:].tobytes(), "u1").reshape(12, 4).T.tobytes()
    mask.id.write_direct_chunk((0, 3), shuffled, 2)


def write_values(file):
    high = np.array([[0, 1, 2**31 - 1], [2**31, 2**32 - 2, 2**32 - 1]], "u4")
    file.create_dataset("uint32", data=high, chunks=(2, 2), compression="gzip")
    wide = np.array([[0, 2**53, 2**53 + 1], [-2**63, 2**63 - 1, -2**53 - 1]], "i8")
    file.create_dataset("int64", data=wide)
    file.create_dataset("int64-exact", data=wide[:1, :2])
    file.create_dataset("uint64", data=np.array([[0, 2**64 - 1]], "u8"))
    file.create_dataset("int32", data=np.array([[-2**31, -1, 2**31 - 1]], "i4"))
    file.create_dataset("float16", data=np.array([[1.5, 6e-8, 65504, np.inf, -np.inf, np.nan, -0.0]], "f2"))
    file.create_dataset("float64", data=np.array([[1e300, 5e-324, np.nan, -np.inf]]))
    file.create_dataset("boolean", data=values((6, 5)) % 2 == 0, chunks=(4, 4), compression="gzip")
    file.create_dataset("enum", data=values((3, 2)) % 3,
                        dtype=h5py.enum_dtype({"A": 0, "B": 1, "C": 2}, "i1"))
    file["text"] = ["a", "\u00e4", ""]
    file["fixed"] = np.array(["ab", "c"], "S4")
    file.create_dataset("record", data=np.zeros(3, [("a", "i4"), ("b", "f8")]))
    bits = h5py.h5t.STD_B16LE
    space = h5py.h5s.create_simple((2, 2))
    h5py.h5d.create(file.id, b"bits", bits, space).write(
        h5py.h5s.ALL, h5py.h5s.ALL, np.array([[1, 2], [3, 65535]], "<u2"), mtype=h5py.h5t.NATIVE_B16)
    file["text"].attrs["note"] = "hello"


def write_damaged(file):
    x = values((8, 6)).astype("<i4")
    good = zlib.compress(x[:4, :3].tobytes())

    def dataset(name, chunk, at=(4, 3), **options):
        options.setdefault("compression", "gzip")
        d = file.create_dataset(name, shape=(8, 6), dtype="<i4", chunks=(4, 3), **options)
        d[...] = x
        d.id.write_direct_chunk(at, chunk)

    flip = lambda data, k: data[:k] + bytes([data[k] ^ 1]) + data[k + 1:] if k >= 0 else flip(data, len(data) + k)
    dataset("short", zlib.compress(x[:4, :3].tobytes()[:-4]))
    dataset("long", zlib.compress(x[:4, :3].tobytes() + b"more"))
    dataset("checksum", flip(good, -1))
    dataset("stream", good[:2] + b"\xff" * 12 + good[14:])
    dataset("cut", good[:-9])
    dataset("nothing", b"\0")
    plain = dict(compression=None)
    raw = x[:4, :3].tobytes()
    dataset("fletcher", raw + b"\1\2\3\4", fletcher32=True, **plain)
    dataset("lzf", b"\x20\xff", compression="lzf")
    create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    create.set_chunk((4, 3))
    create.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    space = h5py.h5s.create_simple((8, 6))
    d = h5py.h5d.create(file.id, b"zstd", h5py.h5t.STD_I32LE, space, create)
    d.write_direct_chunk((0, 0), b"\x28\xb5\x2f\xfdrest")


def write_links(file):
    with h5py.File(path("target.h5"), "w") as other:
        other["x"] = values((4, 3)).astype("i4")
        other.create_dataset("z", data=values((4, 3)), chunks=(2, 2), compression="gzip")
    file["out"] = h5py.ExternalLink("target.h5", "/x")
    file["out-gzip"] = h5py.ExternalLink("target.h5", "/z")
    file["out-away"] = h5py.ExternalLink("away.h5", "/x")
    file["soft"] = h5py.SoftLink("/out")
    file["nowhere"] = h5py.SoftLink("/not/there")
    for name, source, inside in (("virtual", "target.h5", "x"), ("virtual-away", "away.h5", "x"),
                                 ("virtual-other", "target.h5", "gone")):
        layout = h5py.VirtualLayout(shape=(8, 3), dtype="i4")
        layout[:4] = h5py.VirtualSource("target.h5", "x", shape=(4, 3))
        layout[4:] = h5py.VirtualSource(source, inside, shape=(4, 3))
        file.create_virtual_dataset(name, layout, fillvalue=-1)


def write_old_anndata(x):
    """As anndata 0.6 did: tables are records of fixed width, categories stand elsewhere."""
    def table(*columns):
        arrays = [np.asarray(values) for _, values in columns]
        kind = [(name, values.dtype, values.shape[1:]) for (name, _), values in zip(columns, arrays)]
        records = np.zeros(len(arrays[0]), kind)
        for (name, _), values in zip(columns, arrays):
            records[name] = values
        return records

    with h5py.File(path("anndata-old.h5"), "w") as f:
        f.create_dataset("X", data=x, chunks=(2, 3), compression="gzip")
        f["raw.X"] = np.concatenate([x, x[:, :1]], 1)
        f["layers/raw"] = x.astype("i4")
        f["obs"] = table(
            ("index", np.array(["c%d" % i for i in range(4)], "S2")),
            ("n_counts", np.array([0.5, 1, np.nan, -2], "f4")),
            ("kind", np.array([0, -1, 1, 1], "i1")), ("batch", np.array([7, 8, 9, 1], "i8")),
            ("fine", np.array([True, False, True, True])), ("text", np.array([b"one", b"", b"\xc3\xa4", b"x"], "S3")),
            ("pair", np.zeros((4, 2), "f4")), ("high", np.array([2**64 - 1, 0, 1, 2], "u8")))
        f["uns/kind_categories"] = np.array([b"low", b"high"], "S4")
        f["uns/batch_categories"] = np.array([b"a", b"b"], "S1")
        genes = table(("_index", np.array([b"g0", b"g1", b"g2", b"g3"], "S2")), ("kind", np.array([2, 0, 1, 1], "i1")))
        f.create_dataset("var", data=genes[:3], chunks=(2,), compression="gzip")
        f["raw.var"] = genes
        f["raw.cat/kind_categories"] = ["x", "y", "z"]


def write_names():
    x = values((4, 3)).astype("f4")
    with h5py.File(path("anndata.h5"), "w") as f:
        f.create_dataset("X", data=x, chunks=(2, 3), compression="gzip")
        f["layers/raw"] = x.astype("i4")
        f.create_dataset("obs/cell", data=["c%d" % i for i in range(4)])
        f["obs"].attrs["_index"] = "cell"
        f.create_dataset("var/_index", data=["g%d" % i for i in range(3)])
        f["var"].attrs["_index"] = "_index"
    write_old_anndata(x)
    with h5py.File(path("loom.h5"), "w") as f:
        f.create_dataset("matrix", data=x, chunks=(4, 2), compression="gzip", compression_opts=2)
        f["row_attrs/Gene"] = np.array(["g%d" % i for i in range(4)], "S8")
        f["col_attrs/CellID"] = np.array(["c%d" % i for i in range(3)], "S8")
        f["layers/spliced"] = x + 1
    with h5py.File(path("hdf5array.h5"), "w") as f:
        f["m"] = x
        f[".m_dimnames/1"] = ["r1", "r2", "r3"]
        f[".m_dimnames/2"] = ["a", "b", "c", "d"]


def main():
    os.chdir(folder)
    if sys.argv[2:] == ["exact"]:
        with h5py.File(path("exact.h5"), "w", libver=("earliest", "v110")) as file:
            write_exact(file)
        return
    for name, write in (("types", write_types), ("shapes", write_shapes), ("values", write_values),
                        ("damaged", write_damaged), ("links", write_links)):
        if small and name in ("links",):
            continue
        with h5py.File(path(name + ".h5"), "w", libver=("earliest", "v110")) as file:
            write(file)
    if small:
        return
    write_names()
    with h5py.File(path("userblock.h5"), "w", userblock_size=1024) as f:
        f.create_dataset("x", data=values((4, 3)).astype("i4"))
        f.create_dataset("z", data=values((4, 3)), chunks=(2, 2), compression="gzip")
    with h5py.File(path("latest.h5"), "w", libver="latest") as f:
        f.create_dataset("fixed", data=values((23, 17)), chunks=(5, 4), compression="gzip")
        f.create_dataset("one", data=values((5, 4)), chunks=(5, 4), compression="gzip")
        f.create_dataset("array", data=values((23, 17)), chunks=(5, 4), maxshape=(None, 17))
        f.create_dataset("tree", data=values((23, 17)), chunks=(5, 4), maxshape=(None, None))


main()
