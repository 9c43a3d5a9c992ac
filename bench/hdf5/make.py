"""The files of this benchmark: python3 make.py FOLDER ROWS COLUMNS. In the order of the file, lines are
columns of R. `post.h5` is that of the post that the vignette follows: whole numbers from 1 to 100, chunks of
100 x 100, deflate 3. `genes.h5` has 93% zeros, shuffled, as counts of single cells have, and at most 27,998 rows, as
TENxBrainData has."""
import sys
import zlib
from multiprocessing import Pool

import h5py
import numpy as np


def chunk(task):
    seed, kind = task
    random = np.random.default_rng(seed)
    if kind == "zeros":
        x = np.where(random.random((100, 100)) < 0.93, 0, random.geometric(0.4, (100, 100))).astype("<i4")
        planes = np.frombuffer(x.tobytes(), "u1").reshape(-1, 4).T.tobytes()
        return zlib.compress(planes, 6)
    return zlib.compress(random.integers(1, 101, (100, 100), dtype="<i4").tobytes(), 3)


def write(path, kind, lines, places):
    with h5py.File(path, "w") as file, Pool(2) as pool:
        counts = file.create_dataset(
            "counts", (lines, places), "<i4", chunks=(100, 100), compression="gzip",
            compression_opts=6 if kind == "zeros" else 3, shuffle=kind == "zeros")
        at = [(i, j) for i in range(0, lines, 100) for j in range(0, places, 100)]
        for offset, data in zip(at, pool.imap(chunk, [(k, kind) for k in range(len(at))], 100)):
            counts.id.write_direct_chunk(offset, data)


if __name__ == "__main__":
    folder, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    write(folder + "/post.h5", "post", columns, rows)
    write(folder + "/genes.h5", "zeros", columns, min(rows, 27998))
