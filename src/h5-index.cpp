#ifdef REGATTA_WITH_HDF5
#include "h5-index.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace regatta {
namespace h5 {

std::vector<hsize_t> chunk_offset(const Facts& facts, const std::vector<std::uint64_t>& plane, std::uint64_t i,
                                  std::uint64_t j) {
  const std::size_t rank = facts.extents.size();
  std::vector<hsize_t> offset(rank);
  for (std::size_t k = 0; k + 2 < rank; ++k) offset[k] = plane[k] / facts.chunk[k] * facts.chunk[k];
  if (rank > 1) offset[rank - 2] = i * facts.chunk[rank - 2];
  offset[rank - 1] = j * facts.chunk[rank - 1];
  return offset;
}

ChunkIndex::~ChunkIndex() {
  if (fd_ >= 0) close(fd_);
}

#if defined(REGATTA_WITH_H5DCHUNK_ITER)

ChunkIndex::ChunkIndex(const Facts& facts, const std::vector<std::uint64_t>& plane)
    : facts_(facts), plane_(plane), fd_(-1), checked_(false) {}

namespace {

struct Walk {
  const std::vector<std::uint64_t>* chunk;
  const std::vector<std::uint64_t>* plane;
  ChunkTable* table;
  std::size_t height;
};

/* The types of two arguments differ between versions of the library. */
template <class Mask, class Size>
int note_chunk(const hsize_t* offset, Mask mask, haddr_t at, Size size, void* data) {
  const Walk& walk = *static_cast<Walk*>(data);
  const std::size_t rank = walk.chunk->size();
  for (std::size_t k = 0; k < rank; ++k) {
    /* Some versions count chunks instead of elements. */
    if (offset[k] % (*walk.chunk)[k] != 0) return -1;
  }
  for (std::size_t k = 0; k + 2 < rank; ++k) {
    if (offset[k] / (*walk.chunk)[k] != (*walk.plane)[k] / (*walk.chunk)[k]) return 0;
  }
  ChunkTable& table = *walk.table;
  const std::uint64_t j = offset[rank - 1] / (*walk.chunk)[rank - 1];
  const std::uint64_t i = rank > 1 ? offset[rank - 2] / (*walk.chunk)[rank - 2] : 0;
  if (i < table.slow_at || i - table.slow_at >= walk.height) return 0;
  if (j < table.fast_at || j - table.fast_at >= table.width) return 0;
  table.at(i, j) = Stored{at, size, static_cast<std::uint32_t>(mask)};
  return 0;
}

/* Chunks of at most so many bytes are read to see whether they are where they are said to be. The memory for larger ones
   is only spent where that is in doubt: some versions count addresses from the end of a user block. */
const std::uint64_t largest_checked = std::uint64_t(1) << 18, largest_behind_block = std::uint64_t(1) << 24;

bool is_at(int fd, std::uint64_t at, const std::vector<unsigned char>& bytes) {
  unsigned char there[16384];
  for (std::size_t done = 0; done < bytes.size(); done += sizeof there) {
    const std::size_t part = std::min(sizeof there, bytes.size() - done);
    if (pread(fd, there, part, static_cast<off_t>(at + done)) != static_cast<ssize_t>(part) ||
        std::memcmp(there, bytes.data() + done, part) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

/* Versions differ in what they count offsets and addresses from: trusted is what leads to the same bytes as the
   library's own reading, for the first and the last chunk. */
bool ChunkIndex::check(const Library&, const DatasetId& dataset, Tiles slow, Tiles fast, const ChunkTable& table) {
  const auto written = [&](std::size_t k) {
    return table.at(slow.at[k / fast.size], fast.at[k % fast.size]).size > 0;
  };
  const std::size_t count = slow.size * fast.size;
  std::size_t first = 0, last = count;
  while (first < count && !written(first)) ++first;
  if (first == count) return true;
  while (!written(last - 1)) --last;
  for (std::size_t k : {first, last - 1}) {
    const std::uint64_t i = slow.at[k / fast.size], j = fast.at[k % fast.size];
    const Stored& stored = table.at(i, j);
    const std::vector<hsize_t> offset = chunk_offset(facts_, plane_, i, j);
    hsize_t size = 0;
    if (stored.size > facts_.file_size || H5Dget_chunk_storage_size(dataset.get(), offset.data(), &size) < 0 ||
        size != stored.size) {
      return false;
    }
    if (facts_.user_block > 0 && size > largest_behind_block) return false;
    if (facts_.user_block == 0 && size > largest_checked) continue;
    std::uint32_t mask = 0;
    std::vector<unsigned char> bytes(size);
    if (H5Dread_chunk(dataset.get(), H5P_DEFAULT, offset.data(), &mask, bytes.data()) < 0 || mask != stored.mask ||
        !is_at(fd_, stored.at, bytes)) {
      return false;
    }
  }
  checked_ = true;
  return true;
}

bool ChunkIndex::find(const Library& library, const DatasetId& dataset, Tiles slow, Tiles fast, ChunkTable* table) {
  Walk walk = {&facts_.chunk, &plane_, table, table->stored.size() / table->width};
  if (H5Dchunk_iter(dataset.get(), H5P_DEFAULT, &note_chunk, &walk) < 0) return false;
  if (fd_ < 0) {
    char where[4096];
    const ssize_t length = H5Fget_name(dataset.get(), where, sizeof where);
    if (length <= 0 || length >= static_cast<ssize_t>(sizeof where)) return false;
    fd_ = open(where, O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return false;
  }
  return checked_ || check(library, dataset, slow, fast, *table);
}

#else

/* Older versions of the library say where a chunk is in a time that grows with the number of chunks. So the file is
   opened once more by a file driver that notes where the library reads a chunk, and does not read it. */

namespace {

struct Note {
  bool wanted;
  unsigned reads;
  std::uint64_t at, size;
  int fd;
};

/* Used on R's thread alone, as the library is. */
Note note;

struct DriverFile {
  H5FD_t base;
  int fd;
  haddr_t end;
  struct stat info;
};

const DriverFile* driver_file(const H5FD_t* file) { return reinterpret_cast<const DriverFile*>(file); }
DriverFile* driver_file(H5FD_t* file) { return reinterpret_cast<DriverFile*>(file); }

extern "C" {

static H5FD_t* driver_open(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  DriverFile* const file = static_cast<DriverFile*>(std::calloc(1, sizeof(DriverFile)));
  if (!file) return nullptr;
  file->fd = open(name, O_RDONLY | O_CLOEXEC);
  if (file->fd < 0 || fstat(file->fd, &file->info) != 0) {
    if (file->fd >= 0) close(file->fd);
    std::free(file);
    return nullptr;
  }
  return &file->base;
}

static herr_t driver_close(H5FD_t* file) {
  close(driver_file(file)->fd);
  std::free(file);
  return 0;
}

static int driver_cmp(const H5FD_t* a, const H5FD_t* b) {
  const struct stat &one = driver_file(a)->info, &two = driver_file(b)->info;
  if (one.st_dev != two.st_dev) return one.st_dev < two.st_dev ? -1 : 1;
  return one.st_ino == two.st_ino ? 0 : one.st_ino < two.st_ino ? -1 : 1;
}

static herr_t driver_query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_ACCUMULATE_METADATA;
  return 0;
}

static haddr_t driver_get_eoa(const H5FD_t* file, H5FD_mem_t) { return driver_file(file)->end; }

static herr_t driver_set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t at) {
  driver_file(file)->end = at;
  return 0;
}

static haddr_t driver_get_eof(const H5FD_t* file, H5FD_mem_t) {
  return static_cast<haddr_t>(driver_file(file)->info.st_size);
}

static herr_t driver_read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, size_t size, void* to) {
  const int fd = driver_file(file)->fd;
  if (note.wanted && type == H5FD_MEM_DRAW) {
    note.at = at;
    note.size = size;
    note.fd = fd;
    ++note.reads;
    return 0;
  }
  char* bytes = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = pread(fd, bytes, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) {
      /* The library may ask for more than the file has. */
      std::memset(bytes, 0, size);
      return 0;
    }
    bytes += got;
    at += static_cast<haddr_t>(got);
    size -= static_cast<size_t>(got);
  }
  return 0;
}

static herr_t driver_write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, size_t, const void*) { return -1; }

}  // extern "C"

hid_t register_driver() {
  static const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t driver;
  std::memset(&driver, 0, sizeof driver);
  driver.name = "regatta";
  driver.maxaddr = INT64_MAX;
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = driver_open;
  driver.close = driver_close;
  driver.cmp = driver_cmp;
  driver.query = driver_query;
  driver.get_eoa = driver_get_eoa;
  driver.set_eoa = driver_set_eoa;
  driver.get_eof = driver_get_eof;
  driver.read = driver_read;
  driver.write = driver_write;
  std::copy(map, map + H5FD_MEM_NTYPES, driver.fl_map);
  return H5FDregister(&driver);
}

}  // namespace

ChunkIndex::ChunkIndex(const Facts& facts, const std::vector<std::uint64_t>& plane)
    : facts_(facts), plane_(plane), fd_(-1) {}

bool ChunkIndex::open_again(const Library&) {
  if (dataset_.valid()) return true;
  const ListId access(H5Pcreate(H5P_FILE_ACCESS));
  const hid_t driver = register_driver();
  if (driver < 0) return false;
  const bool set = H5Pset_driver(access.get(), driver, nullptr) >= 0;
  H5FDunregister(driver);
  if (!set) return false;
  file_ = FileId(H5Fopen(facts_.path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (file_.valid()) dataset_ = DatasetId(H5Dopen2(file_.get(), facts_.name.c_str(), H5P_DEFAULT));
  return dataset_.valid();
}

bool ChunkIndex::find(const Library& library, const DatasetId&, Tiles slow, Tiles fast, ChunkTable* table) {
  if (!open_again(library)) return false;
  std::vector<hsize_t> offset;
  unsigned char none;
  for (std::size_t a = 0; a < slow.size; ++a) {
    for (std::size_t b = 0; b < fast.size; ++b) {
      offset = chunk_offset(facts_, plane_, slow.at[a], fast.at[b]);
      std::uint32_t mask = 0;
      note = Note{true, 0, 0, 0, -1};
      const herr_t status = H5Dread_chunk(dataset_.get(), H5P_DEFAULT, offset.data(), &mask, &none);
      note.wanted = false;
      if (status < 0) {
        /* A chunk that was never written is an error. */
        hsize_t size = 0;
        if (H5Dget_chunk_storage_size(dataset_.get(), offset.data(), &size) >= 0 && size == 0) continue;
        if (library.reason().find("not allocated") != std::string::npos) continue;
        return false;
      }
      if (note.reads != 1) return false;
      table->at(slow.at[a], fast.at[b]) = Stored{note.at, note.size, mask};
      if (fd_ < 0) fd_ = fcntl(note.fd, F_DUPFD_CLOEXEC, 3);
      if (fd_ < 0) return false;
    }
  }
  return true;
}

#endif

}  // namespace h5
}  // namespace regatta
#endif
