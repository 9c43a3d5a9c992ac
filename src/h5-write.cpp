#ifdef REGATTA_WITH_HDF5
#include "h5-write.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#if defined(REGATTA_WITH_LIBDEFLATE)
#include <libdeflate.h>
#elif defined(REGATTA_WITH_ZLIB)
#include <zlib.h>
#endif

#include "h5-number.hpp"

namespace regatta {
namespace h5 {

namespace {

/* Room on the disk for bytes that are to be written, taken before libhdf5 needs it: where the library cannot write, it
   cannot close the file either, leaves it without what was in it, and ends the session with a fault. What was not
   needed goes back at the end, which is to come after the file is closed. */
class Room {
 public:
  /* Of a file that is there, or else of the folder that it will be in. */
  Room(const std::string& path, std::uint64_t bytes) : fd_(-1) {
    refuse_other_kind(path);
    fd_ = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    if (fd_ >= 0 && fstat(fd_, &info) == 0 &&
        fallocate(fd_, FALLOC_FL_KEEP_SIZE, info.st_size, static_cast<off_t>(bytes)) == 0) {
      return;
    }
    const int error = errno;
    const std::string folder = path.substr(0, path.find_last_of('/') + 1);
    struct statvfs disk;
    const bool known = statvfs(fd_ >= 0 ? path.c_str() : folder.c_str(), &disk) == 0;
    const double free = known ? static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize) : 0;
    /* Where the file system reserves nothing, what it says of itself will do. */
    const bool fits = known && error != ENOSPC && error != EDQUOT && free >= static_cast<double>(bytes);
    if (fits) return;
    close_file();
    throw failure("cannot write " + std::to_string(bytes) + " bytes to " + path + ": " +
                      (known ? std::to_string(static_cast<std::uint64_t>(free)) + " are free on its disk"
                             : std::string("its disk is not there")),
                  path, "", "Make room there, or choose another folder.");
  }
  ~Room() { close_file(); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  void close_file() {
    struct stat info;
    if (fd_ < 0) return;
    if (fstat(fd_, &info) == 0 && ftruncate(fd_, info.st_size) != 0) { /* It stays reserved until the file goes. */ }
    close(fd_);
    fd_ = -1;
  }
  int fd_;
};

/* What libhdf5 writes besides the elements: headers, and the index of so many chunks. */
std::uint64_t metadata_room(std::size_t chunks) { return (std::uint64_t(1) << 16) + 512 * std::uint64_t(chunks); }

[[noreturn]] void refuse(double x) {
  char words[48] = "a missing value";
  if (!std::isnan(x)) std::snprintf(words, sizeof words, "the value %.15g", x);
  throw std::range_error(words);
}

/* Whole numbers of the file must be what they were. The least int32 is R's missing integer. */
template <class T>
T checked(double x, std::true_type) {
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  const double high = static_cast<double>(std::numeric_limits<T>::max());
  if (!(x >= low && x <= high) || x != std::trunc(x)) refuse(x);
  if (std::is_same<T, std::int32_t>::value && x == low) refuse(x);
  return static_cast<T>(x);
}
/* A finite number stays finite. */
template <class T>
T checked(double x, std::false_type) {
  if (std::isfinite(x) && std::fabs(x) > static_cast<double>(std::numeric_limits<T>::max())) refuse(x);
  return static_cast<T>(x);
}

/* R's missing number: a NaN whose lower word is 1954 (R Internals, 1.3). As float32 it is a NaN like others. */
double missing_number() {
  const std::uint64_t bits = 0x7FF00000000007A2u;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/* R's missing integer: itself in int32, the missing number in floating-point types, an error in others. */
template <class T>
T element_of(int x) {
  typedef std::integral_constant<bool, std::numeric_limits<T>::is_integer> whole;
  if (std::is_same<T, std::int32_t>::value) return static_cast<T>(x);
  if (x == std::numeric_limits<int>::min()) {
    return checked<T>(missing_number(), whole());
  }
  return checked<T>(x, whole());
}
template <class T>
T element_of(double x) {
  typedef std::integral_constant<bool, std::numeric_limits<T>::is_integer> whole;
  if (std::is_same<T, std::int32_t>::value && std::isnan(x)) {
    return static_cast<T>(std::numeric_limits<std::int32_t>::min());
  }
  return checked<T>(x, whole());
}

/* The elements of one chunk; what is outside of the matrix is 0. */
template <class T, class From>
void fill_chunk(const Plan& plan, const Block& block, const From* from, std::uint64_t slow_at,
                std::uint64_t fast_at, unsigned char* to) {
  std::memset(to, 0, static_cast<std::size_t>(plan.chunk[0] * plan.chunk[1]) * sizeof(T));
  const std::uint64_t lines = std::min(plan.chunk[0], block.slow - slow_at);
  const std::uint64_t places = std::min(plan.chunk[1], block.fast - fast_at);
  for (std::uint64_t i = 0; i < lines; ++i) {
    const From* const line = from + (slow_at + i) * block.fast + fast_at;
    unsigned char* const at = to + static_cast<std::size_t>(i * plan.chunk[1]) * sizeof(T);
    for (std::uint64_t k = 0; k < places; ++k) {
      const T value = element_of<T>(line[k]);
      std::memcpy(at + k * sizeof(T), &value, sizeof(T));
    }
  }
}

void shuffle_bytes(const unsigned char* from, std::size_t size, std::size_t element, unsigned char* to) {
  const std::size_t count = size / element;
  for (std::size_t b = 0; b < element; ++b) {
    unsigned char* const plane = to + b * count;
    for (std::size_t i = 0; i < count; ++i) plane[i] = from[i * element + b];
  }
}

/* Compresses into the format of zlib. */
class Deflater {
 public:
#if defined(REGATTA_WITH_LIBDEFLATE)
  explicit Deflater(int level) : deflater_(libdeflate_alloc_compressor(level), libdeflate_free_compressor) {
    if (!deflater_) throw std::bad_alloc();
  }
  std::vector<unsigned char> deflate(const std::vector<unsigned char>& from) {
    std::vector<unsigned char> out(libdeflate_zlib_compress_bound(deflater_.get(), from.size()));
    out.resize(libdeflate_zlib_compress(deflater_.get(), from.data(), from.size(), out.data(), out.size()));
    return out;
  }

 private:
  std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> deflater_;
#elif defined(REGATTA_WITH_ZLIB)
  explicit Deflater(int level) : level_(level) {}
  std::vector<unsigned char> deflate(const std::vector<unsigned char>& from) {
    uLongf size = compressBound(static_cast<uLong>(from.size()));
    std::vector<unsigned char> out(size);
    if (compress2(out.data(), &size, from.data(), static_cast<uLong>(from.size()), level_) != Z_OK) {
      throw std::bad_alloc();
    }
    out.resize(size);
    return out;
  }

 private:
  int level_;
#else
  explicit Deflater(int) {}
  std::vector<unsigned char> deflate(const std::vector<unsigned char>&) {
    throw std::runtime_error("neither libdeflate nor zlib was there when regatta was installed: `level` must be 0");
  }
#endif
};

}  // namespace

void create_dataset(const std::string& path, const std::string& name, const Plan& plan) {
  const Library library;
  struct stat info;
  const bool created = stat(path.c_str(), &info) != 0;
  const Room room(path, metadata_room(0));
  FileId file = created ? FileId(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT))
                         : open_to_write(library, path);
  if (!file.valid()) throw library.failed("cannot create " + path, path);
  const hsize_t extents[2] = {plan.extent[0], plan.extent[1]}, chunk[2] = {plan.chunk[0], plan.chunk[1]};
  const SpaceId space(H5Screate_simple(2, extents, nullptr));
  const ListId list(H5Pcreate(H5P_DATASET_CREATE)), links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  H5Pset_chunk(list.get(), 2, chunk);
  if (plan.level > 0 && plan.shuffle) H5Pset_shuffle(list.get());
  if (plan.level > 0) H5Pset_deflate(list.get(), static_cast<unsigned>(plan.level));
  const DatasetId dataset(H5Dcreate2(file.get(), name.c_str(), native_type(plan.type), space.get(), links.get(),
                                     list.get(), H5P_DEFAULT));
  if (!dataset.valid()) {
    const std::string what = "cannot create " + place(path, name);
    const Failure failed = library.failed(what, path, name);
    const bool there = library.reason().find("name already exists") != std::string::npos;
    const std::string other = there ? "it exists" : in_the_way(file, name);
    if (created) unlink(path.c_str());
    if (other.empty()) throw failed;
    throw failure(what + ": " + other, path, name, "Choose another name, or remove the file.");
  }
}

void remove_dataset(const std::string& path, const std::string& name) {
  const Library library;
  const Room room(path, metadata_room(0));
  const FileId file = open_to_write(library, path);
  H5Ldelete(file.get(), name.c_str(), H5P_DEFAULT);
}

std::vector<std::vector<unsigned char>> encode_chunks(const Plan& plan, const Block& block) {
  const std::size_t element = size_of(plan.type);
  const std::size_t size = static_cast<std::size_t>(plan.chunk[0] * plan.chunk[1]) * element;
  std::vector<unsigned char> plain(size), shuffled(size);
  std::vector<std::vector<unsigned char>> chunks;
  std::unique_ptr<Deflater> deflater(plan.level > 0 ? new Deflater(plan.level) : nullptr);
  for (std::uint64_t i = 0; i < block.slow; i += plan.chunk[0]) {
    for (std::uint64_t j = 0; j < block.fast; j += plan.chunk[1]) {
      try {
        with_written_type(plan.type, [&](auto type) {
          using T = decltype(type);
          if (block.real) {
            fill_chunk<T>(plan, block, block.real, i, j, plain.data());
          } else {
            fill_chunk<T>(plan, block, block.integer, i, j, plain.data());
          }
        });
      } catch (const std::range_error& error) {
        throw failure(std::string(error.what()) + " cannot be stored as " + name_of(plan.type), "");
      }
      const bool shuffles = deflater && plan.shuffle && element > 1;
      if (shuffles) shuffle_bytes(plain.data(), size, element, shuffled.data());
      chunks.push_back(deflater ? deflater->deflate(shuffles ? shuffled : plain) : plain);
    }
  }
  return chunks;
}

void put_chunks(const std::string& path, const std::string& name, const std::uint64_t at[2],
                const std::uint64_t count[2], const std::vector<StoredChunk>& chunks) {
  const Library library;
  std::uint64_t bytes = metadata_room(chunks.size());
  for (const StoredChunk& chunk : chunks) bytes += chunk.size;
  const Room room(path, bytes);
  const FileId file = open_to_write(library, path);
  const DatasetId dataset = open_dataset(library, file, path, name);
  const ListId list(H5Dget_create_plist(dataset.get()));
  hsize_t chunk[2];
  if (H5Pget_chunk(list.get(), 2, chunk) != 2 || chunks.size() != count[0] * count[1]) {
    throw failure(place(path, name) + " is not as it was made", path, name);
  }
  for (std::size_t k = 0; k < chunks.size(); ++k) {
    const hsize_t offset[2] = {(at[0] + k / count[1]) * chunk[0], (at[1] + k % count[1]) * chunk[1]};
    if (H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, offset, chunks[k].size, chunks[k].data) < 0) {
      throw library.failed("cannot write to " + place(path, name), path, name);
    }
  }
  if (H5Fflush(file.get(), H5F_SCOPE_LOCAL) < 0) {
    throw library.failed("cannot write to " + place(path, name), path, name);
  }
}

}  // namespace h5
}  // namespace regatta
#endif
