#ifdef REGATTA_WITH_HDF5
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <regatta/core/poll.hpp>

#include "h5-bytes.hpp"
#include "h5-matrix.hpp"
#include "h5-number.hpp"
#include "h5-virtual.hpp"

/* The elements of a dataset, tile by tile. Chunks with filters that are known here are read as they are stored and
   decoded by the thread that wants them; other datasets go through the library, on R's thread. */

namespace regatta {
namespace h5 {

namespace {

/* Tiles of datasets without chunks are about that many elements. */
const std::uint64_t tile_elements = 131072;

/* Along one dimension. A list of so many takes some GB. */
const std::uint64_t most_tiles = 1u << 26;

/* Chunks of more bytes are read part by part where they can be, which takes two to four times as long but next to no
   memory; a part has at most so many. Tests set the environment variable, so that their files may be small. */
const std::uint64_t most_part = std::uint64_t(1) << 20;
std::uint64_t most_chunk() {
  const char* const text = std::getenv("REGATTA_H5_WHOLE_CHUNK");
  const std::uint64_t given = text ? std::strtoull(text, nullptr, 10) : 0;
  return given > 0 ? given : std::uint64_t(1) << 26;
}

/* So many chunks are open at a time. */
const std::size_t most_streams = 32;

std::uint64_t product(const std::vector<std::uint64_t>& numbers) {
  std::uint64_t all = 1;
  for (std::uint64_t number : numbers) {
    if (__builtin_mul_overflow(all, number, &all)) return UINT64_MAX;
  }
  return all;
}

}  // namespace

Matrix::Matrix(const std::string& path, const std::string& name,
               const std::vector<std::uint64_t>& plane, Cache* cache, const Shape* before)
    : plane_(plane), slow_(1), fast_(1), tile_slow_(1), tile_fast_(1), chunk_tiles_slow_(1),
      chunk_tiles_fast_(1), way_(Way::library), fd_(-1), at_(0), shuffles_(false) {
  const Library library;
  FileId file = open_file(library, path);
  DatasetId dataset = open_dataset(library, file, path, name);
  facts_ = read_facts(library, file, dataset, path, name);
  if (before) check_shape(facts_, *before);
  const std::size_t rank = facts_.extents.size();
  if (rank > 2 && plane_.size() != rank - 2) {
    throw failure(place(path, name) + " has " + std::to_string(rank) + " dimensions: which plane?", path,
                  name);
  }
  for (std::size_t k = 0; k + 2 < rank; ++k) {
    if (plane_[k] >= facts_.extents[k]) {
      throw failure(place(path, name) + ": the plane is outside of the dataset", path, name);
    }
  }
  if (rank > 0) fast_ = facts_.extents[rank - 1];
  if (rank > 1) slow_ = facts_.extents[rank - 2];
  if (facts_.layout == Layout::chunked) {
    tile_fast_ = facts_.chunk[rank - 1];
    if (rank > 1) tile_slow_ = facts_.chunk[rank - 2];
  } else {
    tile_fast_ = std::max<std::uint64_t>(1, std::min(fast_, tile_elements));
    tile_slow_ = std::max<std::uint64_t>(1, std::min(slow_, tile_elements / tile_fast_));
  }
  check_tiles();
  if (facts_.layout == Layout::virtual_) check_sources(library, file, dataset, facts_);
  std::swap(file_, file);
  std::swap(dataset_, dataset);
  choose_way(library);
  Tiling now;
  if (cache && tiling(library, &now)) cached_ = cache->tiles(now);
}

Matrix::~Matrix() {
  if (fd_ >= 0) close(fd_);
  const Library library;
  index_.reset();
  dataset_ = DatasetId();
  file_ = FileId();
}

/* What is read is cut by tiles, of which there is a list. */
void Matrix::check_tiles() const {
  const std::uint64_t most = std::max(tiles_slow(), tiles_fast());
  if (most > most_tiles) {
    throw failure(place(facts_.path, facts_.name) + " is, by its file, cut into " + std::to_string(most) +
                      " pieces along a dimension: at most " + std::to_string(most_tiles) + " can be read",
                  facts_.path, facts_.name,
                  "The file is damaged if the dataset is not that large, or its chunks are too small.");
  }
}

void Matrix::choose_way(const Library& library) {
  std::memset(fill_, 0, sizeof fill_);
  const bool plain = facts_.number.direct && !facts_.external;
  if (plain && facts_.layout == Layout::chunked && can_decode(facts_.filters)) {
    way_ = cut_chunks() ? Way::streams : Way::chunks;
    find_shuffle();
    read_fill(library);
    index_.reset(new ChunkIndex(facts_, plane_));
  } else if (plain && facts_.layout == Layout::contiguous) {
    /* The dataset may be in another file than the one that was asked for, by an external link. */
    const haddr_t at = H5Dget_offset(dataset_.get());
    char where[4096];
    const ssize_t length = H5Fget_name(dataset_.get(), where, sizeof where);
    if (at != HADDR_UNDEF && length > 0 && length < static_cast<ssize_t>(sizeof where)) {
      fd_ = open(where, O_RDONLY | O_CLOEXEC);
      struct stat info;
      const std::uint64_t bytes = product(facts_.extents);
      if (fd_ >= 0 && fstat(fd_, &info) == 0 && bytes < UINT64_MAX / 8 &&
          at + bytes * size_of(facts_.number.type) <= static_cast<std::uint64_t>(info.st_size)) {
        way_ = Way::bytes;
        at_ = at;
      }
    }
  }
  /* The library converts to what R needs anyway. */
  if (way_ == Way::library && facts_.number.type == Type::f16) facts_.number.type = Type::f32;
  if (facts_.number.coded) facts_.number.type = Type::i32;
}

void Matrix::find_shuffle() {
#ifdef REGATTA_H5_BYTES
  const std::size_t size = size_of(facts_.number.type);
  if (facts_.filters.size() < 2 || size == 1 || !is_whole(facts_.number.type)) return;
  const Filter &first = facts_.filters[0], &second = facts_.filters[1];
  if (first.id != filter_shuffle || first.values[0] != size) return;
  if (second.id != filter_deflate && second.id != filter_lzf) return;
  shuffles_ = true;
  unshuffled_.assign(facts_.filters.begin() + 1, facts_.filters.end());
#endif
}

/* Makes tiles of parts of chunks, if these are too large and can be read so. */
bool Matrix::cut_chunks() {
  const std::uint64_t size = size_of(facts_.number.type);
  if (product(facts_.chunk) <= most_chunk() / size || !can_stream(facts_.filters)) return false;
  /* Where libhdf5 does not say where chunks are it reads the tiles, and it has no type for these. */
  if (facts_.number.type == Type::f16) return false;
  /* Lines go through all chunks side by side. */
  if (tile_slow_ > 1 && (fast_ + tile_fast_ - 1) / tile_fast_ > most_streams) return false;
  for (const Filter& filter : facts_.filters) {
    if (filter.id == filter_shuffle && filter.values[0] != size) return false;
  }
  /* A tile is in one chunk. */
  const auto part_of = [](std::uint64_t chunk, std::uint64_t extent, std::uint64_t most) {
    if (chunk >= extent) return std::min(chunk, most);
    std::uint64_t part = std::min(chunk, most);
    while (chunk % part != 0) --part;
    return part;
  };
  const std::uint64_t most = most_part / size;
  std::uint64_t across = tile_fast_, down = 1;
  if (tile_fast_ > most) {
    across = part_of(tile_fast_, fast_, most);
  } else {
    down = part_of(tile_slow_, slow_, most / tile_fast_);
  }
  /* Chunks of an extent without a fitting divisor: parts would be too small. */
  if (across * down < std::min(most, product(facts_.chunk)) / 64) return false;
  chunk_tiles_slow_ = (tile_slow_ + down - 1) / down;
  chunk_tiles_fast_ = (tile_fast_ + across - 1) / across;
  tile_slow_ = down;
  tile_fast_ = across;
  return true;
}

void Matrix::read_fill(const Library&) {
  const ListId list(H5Dget_create_plist(dataset_.get()));
  const TypeId type(H5Dget_type(dataset_.get()));
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(list.get(), &defined) < 0 || defined == H5D_FILL_VALUE_UNDEFINED) return;
  if (H5Pget_fill_value(list.get(), type.get(), fill_) < 0) return;
  if (facts_.number.swap) swap_bytes(fill_, 1, size_of(facts_.number.type));
}

std::size_t Matrix::memory() const {
  const std::uint64_t size = size_of(facts_.number.type);
  if (way_ == Way::streams) {
    return static_cast<std::size_t>(2 * tile_slow_ * tile_fast_ * size + size * (2 * 65536 + 49152));
  }
  if (way_ == Way::chunks) {
    const std::uint64_t bytes = product(facts_.chunk) * size;
    return static_cast<std::size_t>(bytes * (2 + facts_.filters.size() / 2));
  }
  return static_cast<std::size_t>(tile_slow_ * tile_fast_ * size);
}

/* Chunks are named as R counts them: from 1, in the order of R's dimensions. */
void Matrix::fail_chunk(const std::vector<hsize_t>& offset, const std::string& what,
                        const std::string& filter, const std::string& advice) const {
  std::string chunk;
  for (std::size_t k = offset.size(); k-- > 0;) {
    const std::uint64_t number = facts_.chunk.empty() ? offset[k] : offset[k] / facts_.chunk[k];
    chunk += (chunk.empty() ? "" : ", ") + std::to_string(number + 1);
  }
  Failure made = failure("chunk (" + chunk + ") of " + place(facts_.path, facts_.name) + ": " + what,
                         facts_.path, facts_.name, advice);
  made.chunk = chunk;
  made.filter = filter;
  throw made;
}

void Matrix::fill(std::size_t count, Scratch& scratch) const {
  const std::size_t size = size_of(facts_.number.type);
  if (scratch.elements.size() < count * size) scratch.elements.resize(count * size);
  for (std::size_t k = 0; k < count; ++k) std::memcpy(scratch.elements.data() + k * size, fill_, size);
}

/* The bytes of a chunk as they are stored; false if it has none. Without knowing where it is: on R's thread. */
bool Matrix::fetch_chunk(const std::vector<hsize_t>& offset, const Stored* known, Scratch& scratch, std::size_t* size,
                         std::uint32_t* mask) const {
  const auto check = [&](std::uint64_t bytes) {
    if (bytes > facts_.file_size) {
      fail_chunk(offset, "it is said to have " + std::to_string(bytes) + " bytes, the file has " +
                             std::to_string(facts_.file_size));
    }
    *size = static_cast<std::size_t>(bytes);
    if (scratch.stored.size() < *size) scratch.stored.resize(*size);
  };
  if (known) {
    if (known->size == 0) return false;
    check(known->size);
    *mask = known->mask;
    pread_all(index_->fd(), scratch.stored.data(), *size, known->at);
    return true;
  }
  const Library library;
  hsize_t bytes = 0;
  if (H5Dget_chunk_storage_size(dataset_.get(), offset.data(), &bytes) < 0) {
    /* Old versions of the library take a chunk that was never written for an error. */
    const std::string reason = library.reason();
    if (reason.find("not allocated") != std::string::npos) return false;
    fail_chunk(offset, reason);
  }
  if (bytes == 0) return false;
  check(bytes);
  if (H5Dread_chunk(dataset_.get(), H5P_DEFAULT, offset.data(), mask, scratch.stored.data()) < 0) {
    fail_chunk(offset, "it cannot be read: " + library.reason());
  }
  return true;
}

void Matrix::fail_decoding(const std::vector<hsize_t>& offset, const DecodeResult& result) const {
  const std::string filter = filter_name(result.filter);
  const std::string lengths = std::to_string(result.wanted) + " bytes were expected, ";
  switch (result.how) {
    case Decoded::checksum: fail_chunk(offset, filter + " checksum mismatch", filter);
    case Decoded::damaged: fail_chunk(offset, filter + " data are damaged", filter);
    case Decoded::too_short:
      fail_chunk(offset, filter + (filter.empty() ? "" : ": ") + lengths + std::to_string(result.got) + " came out",
                 filter);
    default: fail_chunk(offset, filter + (filter.empty() ? "" : ": ") + lengths + "more came out", filter);
  }
}

/* The number of the chosen plane among those of its chunk. */
std::size_t Matrix::plane_in_chunk() const {
  std::size_t number = 0;
  for (std::size_t k = 0; k + 2 < facts_.chunk.size(); ++k) {
    number = number * static_cast<std::size_t>(facts_.chunk[k]) + static_cast<std::size_t>(plane_[k] % facts_.chunk[k]);
  }
  return number;
}

void Matrix::read_stream(const Stored& stored, std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const {
  const std::size_t size = size_of(facts_.number.type);
  const Scratch::Number chunk(i / chunk_tiles_slow_, j / chunk_tiles_fast_), number(i, j);
  const std::vector<hsize_t> offset = chunk_offset(facts_, plane_, chunk.first, chunk.second);
  const std::size_t rank = facts_.chunk.size();
  const std::uint64_t width = facts_.chunk[rank - 1], height = rank > 1 ? facts_.chunk[rank - 2] : 1;
  tile->stride = static_cast<std::size_t>(tile_fast_);
  const std::size_t count = tile->slow > 1 ? tile->slow * tile->stride : tile->fast;
  if (scratch.streamed == number) {
    tile->data = scratch.elements.data();
    return;
  }
  scratch.streamed = Scratch::Number(UINT64_MAX, UINT64_MAX);
  if (stored.size == 0) {
    fill(count, scratch);
    tile->data = scratch.elements.data();
    return;
  }
  if (stored.size > facts_.file_size) {
    fail_chunk(offset, "it is said to have " + std::to_string(stored.size) + " bytes, the file has " +
                           std::to_string(facts_.file_size));
  }
  std::uint32_t mask = stored.mask;
  for (std::size_t k = 0; facts_.plain_edges && k < offset.size(); ++k) {
    if (offset[k] + facts_.chunk[k] > facts_.extents[k]) mask = UINT32_MAX;
  }
  const std::uint64_t line = plane_in_chunk() * height + i % chunk_tiles_slow_ * tile_slow_;
  const std::uint64_t begin = (line * width + j % chunk_tiles_fast_ * tile_fast_) * size;
  std::unique_ptr<ChunkStream>& stream = scratch.streams[chunk];
  if (!stream || stream->position() > begin) {
    /* One of many is begun anew when it is asked for again. */
    while (scratch.streams.size() > most_streams) {
      auto other = scratch.streams.begin();
      if (other->first == chunk) ++other;
      scratch.streams.erase(other);
    }
    const auto read = [this](unsigned char* to, std::size_t bytes, std::uint64_t at) {
      checkUserInterrupt(); /* the whole chunk is looked at before a part of it is given */
      pread_all(index_->fd(), to, bytes, at);
    };
    stream.reset(new ChunkStream(read, stored.at, stored.size, facts_.filters, mask, product(facts_.chunk) * size));
  }
  if (scratch.elements.size() < count * size) scratch.elements.resize(count * size);
  const DecodeResult result = stream->read(begin, count * size, scratch.elements.data());
  if (result.how != Decoded::fine) {
    scratch.streams.erase(chunk);
    fail_decoding(offset, result);
  }
  if (stream->position() == product(facts_.chunk) * size) scratch.streams.erase(chunk);
  if (facts_.number.swap) swap_bytes(scratch.elements.data(), count, size);
  scratch.streamed = number;
  tile->data = scratch.elements.data();
}

/* The lowest bytes of elements that are shuffled, if all others are zero. */
const unsigned char* Matrix::bytes_of_planes(const unsigned char* planes, std::size_t elements) const {
#ifdef REGATTA_H5_BYTES
  const std::size_t size = size_of(facts_.number.type), lowest = facts_.number.swap ? size - 1 : 0;
  for (std::size_t k = 0; k < size; ++k) {
    if (k != lowest && !all_zero(planes + k * elements, elements)) return nullptr;
  }
  return planes + lowest * elements;
#else
  (void)planes;
  (void)elements;
  return nullptr;
#endif
}

void Matrix::read_chunk(const Stored* known, std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const {
  const std::vector<hsize_t> offset = chunk_offset(facts_, plane_, i, j);
  const std::size_t size = size_of(facts_.number.type);
  const std::size_t elements = static_cast<std::size_t>(product(facts_.chunk));
  const std::size_t plane = static_cast<std::size_t>(tile_slow_ * tile_fast_);
  tile->stride = static_cast<std::size_t>(tile_fast_);
  std::size_t stored = 0;
  std::uint32_t mask = 0;
  if (!fetch_chunk(offset, known, scratch, &stored, &mask)) {
    fill(plane, scratch);
    tile->data = scratch.elements.data();
    return;
  }
  for (std::size_t k = 0; facts_.plain_edges && k < offset.size(); ++k) {
    if (offset[k] + facts_.chunk[k] > facts_.extents[k]) mask = UINT32_MAX;
  }
  const bool planes = shuffles_ && scratch.takes_bytes && !cached_ && !(mask & 3U);
  const unsigned char* out = nullptr;
  const DecodeResult result = scratch.decoder.decode(planes ? unshuffled_ : facts_.filters, planes ? mask >> 1 : mask,
                                                     scratch.stored.data(), stored, elements * size, &out);
  if (result.how != Decoded::fine) fail_decoding(offset, result);
  if (planes) {
    tile->bytes = bytes_of_planes(out, elements);
    if (tile->bytes) {
      tile->bytes += plane_in_chunk() * plane;
      return;
    }
    if (scratch.elements.size() < elements * size) scratch.elements.resize(elements * size);
    unshuffle(out, elements * size, size, scratch.elements.data());
    out = scratch.elements.data();
  }
  out += plane_in_chunk() * plane * size;
  if (facts_.number.swap) {
    /* What the decoder gave is its own or the stored bytes, both this thread's. */
    swap_bytes(const_cast<unsigned char*>(out), plane, size);
  }
  tile->data = out;
}

void Matrix::pread_all(int fd, unsigned char* to, std::size_t size, std::uint64_t at) const {
  while (size > 0) {
    const ssize_t got = pread(fd, to, size, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw failure("cannot read " + std::to_string(size) + " bytes of " +
                        place(facts_.path, facts_.name) + " at " + std::to_string(at) + ": " +
                        (got < 0 ? std::strerror(errno) : "the file ends before"),
                    facts_.path, facts_.name);
    }
    to += got;
    at += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
}

void Matrix::read_bytes(Tile* tile, Scratch& scratch) const {
  const std::size_t size = size_of(facts_.number.type);
  std::uint64_t line = 0;
  for (std::size_t k = 0; k < plane_.size(); ++k) line = line * facts_.extents[k] + plane_[k];
  line = line * slow_ + tile->slow_at;
  const std::size_t bytes = tile->fast * size;
  scratch.elements.resize(std::max(scratch.elements.size(), tile->slow * bytes));
  unsigned char* const to = scratch.elements.data();
  if (tile->fast == fast_) {
    pread_all(fd_, to, tile->slow * bytes, at_ + line * fast_ * size);
  } else {
    for (std::size_t k = 0; k < tile->slow; ++k) {
      pread_all(fd_, to + k * bytes, bytes, at_ + ((line + k) * fast_ + tile->fast_at) * size);
    }
  }
  if (facts_.number.swap) swap_bytes(to, tile->slow * tile->fast, size);
  tile->data = to;
  tile->stride = tile->fast;
}

hid_t Matrix::memory_type() const {
  if (facts_.number.bits) {
    switch (size_of(facts_.number.type)) {
      case 1: return H5T_NATIVE_B8;
      case 2: return H5T_NATIVE_B16;
      case 4: return H5T_NATIVE_B32;
      default: return H5T_NATIVE_B64;
    }
  }
  return native_type(facts_.number.type);
}

void Matrix::read_library(Tile* tile, Scratch& scratch) const {
  const std::size_t size = size_of(facts_.number.type);
  const std::size_t rank = facts_.extents.size();
  scratch.elements.resize(std::max(scratch.elements.size(), tile->slow * tile->fast * size));
  const Library library;
  const SpaceId space(H5Dget_space(dataset_.get()));
  const hsize_t here[2] = {tile->slow, tile->fast};
  const SpaceId memory(H5Screate_simple(2, here, nullptr));
  std::vector<hsize_t> start(plane_.begin(), plane_.end()), count(plane_.size(), 1);
  if (rank > 1) {
    start.push_back(tile->slow_at);
    count.push_back(tile->slow);
  }
  if (rank > 0) {
    start.push_back(tile->fast_at);
    count.push_back(tile->fast);
  }
  bool fine = true;
  if (rank > 0) {
    fine = H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(),
                               nullptr) >= 0;
  }
  if (!fine || H5Dread(dataset_.get(), memory_type(), memory.get(), space.get(), H5P_DEFAULT,
                       scratch.elements.data()) < 0) {
    const std::string reason = library.reason();
    for (std::size_t k = 0; k < facts_.filters.size(); ++k) {
      if (H5Zfilter_avail(facts_.filters[k].id) > 0) continue;
      fail_chunk(start,
                 "the filter " + facts_.filter_names[k] + " (" +
                     std::to_string(facts_.filters[k].id) + ") is not there",
                 facts_.filter_names[k],
                 "Install its plugin for libhdf5 and let HDF5_PLUGIN_PATH name the folder it is in, "
                 "before libhdf5 is first used.");
    }
    const std::string filter = facts_.filter_names.empty() ? "" : facts_.filter_names.back();
    if (!facts_.chunk.empty()) {
      fail_chunk(start, (filter.empty() ? "" : filter + ": ") + reason, filter);
    }
    throw failure(place(facts_.path, facts_.name) + " cannot be read: " + reason, facts_.path,
                  facts_.name);
  }
  if (facts_.number.coded) {
    for (std::size_t k = 0; k < tile->slow * tile->fast; ++k) {
      const std::int32_t missing = std::numeric_limits<std::int32_t>::min();
      unsigned char* const at = scratch.elements.data() + k * size;
      if (element_at<std::int32_t>(at, 0) == missing_code) std::memcpy(at, &missing, size);
    }
  }
  tile->data = scratch.elements.data();
  tile->stride = tile->fast;
}

bool Matrix::tiling(const Library& library, Tiling* tiling) const {
  if (facts_.layout == Layout::virtual_ || facts_.external) return false;
  *tiling = Tiling{facts_.name, plane_, facts_.number.type, slow_, fast_, tile_slow_, tile_fast_, FileState()};
  return file_state(library, dataset_, &tiling->file);
}

Located Matrix::locate(Tiles slow, Tiles fast) const {
  Located found;
  found.matrix_ = this;
  found.anywhere_ = way_ == Way::bytes;
  found.in_order_ = false;
  if (cached_ && !found.anywhere_) {
    bool all = true;
    for (std::size_t a = 0; all && a < slow.size; ++a) {
      for (std::size_t b = 0; all && b < fast.size; ++b) all = cached_.has(slow.at[a], fast.at[b]);
    }
    /* What is kept stays: nothing of the file will be asked for. */
    if (all) {
      found.anywhere_ = true;
      return found;
    }
  }
  found.in_order_ = way_ == Way::streams;
  if (way_ != Way::chunks && way_ != Way::streams) return found;
  const auto chunks_of = [](Tiles tiles, std::uint64_t each) {
    std::vector<std::uint64_t> chunks;
    for (std::size_t k = 0; k < tiles.size; ++k) {
      if (chunks.empty() || chunks.back() != tiles.at[k] / each) chunks.push_back(tiles.at[k] / each);
    }
    return chunks;
  };
  const std::vector<std::uint64_t> down = chunks_of(slow, chunk_tiles_slow_), across = chunks_of(fast, chunk_tiles_fast_);
  ChunkTable& table = found.chunks_;
  table.slow_at = down.front();
  table.fast_at = across.front();
  table.width = static_cast<std::size_t>(across.back() - across.front()) + 1;
  table.stored.assign((static_cast<std::size_t>(down.back() - down.front()) + 1) * table.width, Stored{0, 0, 0});
  const Library library;
  found.anywhere_ = index_->find(library, dataset_, Tiles{down.data(), down.size()}, Tiles{across.data(), across.size()},
                                 &table);
  return found;
}

Tile Located::read(std::uint64_t i, std::uint64_t j, Scratch& scratch) const {
  const Matrix& from = *matrix_;
  Tile tile;
  tile.bytes = nullptr;
  tile.slow_at = i * from.tile_slow_;
  tile.fast_at = j * from.tile_fast_;
  tile.slow = static_cast<std::size_t>(std::min(from.tile_slow_, from.slow_ - tile.slow_at));
  tile.fast = static_cast<std::size_t>(std::min(from.tile_fast_, from.fast_ - tile.fast_at));
  if (from.cached_.get(i, j, scratch, &tile)) {
    scratch.streamed = Scratch::Number(UINT64_MAX, UINT64_MAX);
    return tile;
  }
  switch (from.way_) {
    case Matrix::Way::chunks: from.read_chunk(anywhere_ ? &chunks_.at(i, j) : nullptr, i, j, scratch, &tile); break;
    case Matrix::Way::streams:
      if (anywhere_) {
        from.read_stream(chunks_.at(i / from.chunk_tiles_slow_, j / from.chunk_tiles_fast_), i, j, scratch, &tile);
      } else {
        from.read_library(&tile, scratch);
      }
      break;
    case Matrix::Way::bytes: from.read_bytes(&tile, scratch); break;
    case Matrix::Way::library: from.read_library(&tile, scratch); break;
  }
  from.cached_.put(i, j, tile, scratch);
  return tile;
}

}  // namespace h5
}  // namespace regatta
#endif
