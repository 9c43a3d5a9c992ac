#ifdef REGATTA_WITH_HDF5
#include "h5-cache.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <regatta/r/entry.hpp>

#include "h5-matrix.hpp"

namespace regatta {
namespace h5 {

namespace {

/* The machine is asked for its memory each time that so many bytes more are kept, and that many are left
   to others. */
const std::uint64_t look_every = std::uint64_t(64) << 20;
const std::int64_t leave = std::int64_t(256) << 20;

static_assert(sizeof(std::atomic<std::uint64_t>) == 8, "processes share them");

bool same(const FileState& a, const FileState& b) {
  return a.device == b.device && a.inode == b.inode && a.size == b.size && a.changed_s == b.changed_s &&
         a.changed_ns == b.changed_ns;
}

Kind kind_of(Type type) {
  switch (type) {
    case Type::f32:
    case Type::f64: return Kind::real;
    case Type::i8:
    case Type::i16:
    case Type::i32:
    case Type::i64: return Kind::whole_signed;
    default: return Kind::whole_unsigned; /* numbers of 16 bits with a point as their bits */
  }
}

}  // namespace

bool file_state(const Library&, const DatasetId& dataset, FileState* state) {
  const FileId file(H5Iget_file_id(dataset.get()));
  if (!file.valid()) return false;
  const ListId access(H5Fget_access_plist(file.get()));
  void* handle = nullptr;
  if (!access.valid() || H5Pget_driver(access.get()) != H5FD_SEC2 ||
      H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &handle) < 0 || !handle) {
    return false;
  }
  struct stat info;
  if (fstat(*static_cast<const int*>(handle), &info) < 0) return false;
#if defined(__APPLE__)
  const struct timespec written = info.st_mtimespec, changed = info.st_ctimespec;
#else
  const struct timespec written = info.st_mtim, changed = info.st_ctim;
#endif
  const bool later = changed.tv_sec != written.tv_sec ? changed.tv_sec > written.tv_sec
                                                      : changed.tv_nsec > written.tv_nsec;
  const struct timespec& last = later ? changed : written;
  *state = FileState{static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino),
                     static_cast<std::uint64_t>(info.st_size), static_cast<std::int64_t>(last.tv_sec),
                     static_cast<std::int64_t>(last.tv_nsec)};
  return true;
}

std::uint64_t Tiling::tiles() const {
  const auto count = [](std::uint64_t extent, std::uint64_t tile) { return (extent + tile - 1) / tile; };
  const std::uint64_t down = count(slow, tile_slow), across = count(fast, tile_fast);
  std::uint64_t all;
  return __builtin_mul_overflow(down, across, &all) ? UINT64_MAX : all;
}

Cache::Cache(const std::string& path, const std::vector<Tiling>& tilings, std::uint64_t budget, std::int64_t limit)
    : tilings_(tilings), budget_(budget), entries_(0), store_(nullptr), data_(nullptr), changed_(false) {
  for (const Tiling& one : tilings_) {
    if (__builtin_add_overflow(entries_, one.tiles(), &entries_) || entries_ >= (std::uint64_t(1) << 60)) {
      entries_ = std::uint64_t(1) << 60;
    }
  }
  const std::uint64_t index = 8 * (entries_ + 1);
  if (index >= budget_) {
    throw failure("a cache of " + std::to_string(budget_) + " bytes has no room: where each of " +
                      std::to_string(entries_) + " chunks stands takes " + std::to_string(index) + " bytes",
                  path, tilings_[0].name);
  }
  callR([&]() -> SEXP {
    store_ = rg_h5_store()->create(static_cast<std::int64_t>(budget_), limit, &data_);
    return R_NilValue;
  });
  const std::vector<char> zeros(1 << 16);
  for (std::uint64_t at = 0; at < index; at += zeros.size()) {
    const std::uint64_t size = std::min<std::uint64_t>(zeros.size(), index - at);
    if (rg_h5_store()->write(store_, static_cast<std::int64_t>(at), zeros.data(),
                             static_cast<std::int64_t>(size)) < 0) {
      rg_h5_store()->close(store_);
      throw failure("there is no memory for a cache of " + std::to_string(entries_) + " chunks", path,
                    tilings_[0].name);
    }
  }
  used_word().store((index + 15) / 16 * 16);
}

Cache::~Cache() { rg_h5_store()->close(store_); }

CachedTiles Cache::tiles(const Tiling& now) {
  CachedTiles found;
  std::uint64_t first = 0;
  for (const Tiling& one : tilings_) {
    if (one.name == now.name && one.plane == now.plane) {
      if (one.type == now.type && one.slow == now.slow && one.fast == now.fast && one.tile_slow == now.tile_slow &&
          one.tile_fast == now.tile_fast && same(one.file, now.file)) {
        found.cache_ = this;
        found.tiling_ = &one;
        found.first_ = first;
      } else {
        changed_ = true;
      }
      return found;
    }
    first += one.tiles();
  }
  return found;
}

std::uint64_t Cache::used() const { return std::min(budget_, used_word().load()); }

std::uint64_t Cache::kept() const {
  std::uint64_t count = 0;
  for (std::uint64_t k = 0; k < entries_; ++k) count += entry(k).load(std::memory_order_relaxed) > refused;
  return count;
}

std::vector<double> Cache::last_changes() const {
  std::vector<double> times;
  for (const Tiling& one : tilings_) {
    times.push_back(static_cast<double>(one.file.changed_s) + 1e-9 * static_cast<double>(one.file.changed_ns));
  }
  return times;
}

/* Where so many bytes can be written; 0 if nowhere. */
std::uint64_t Cache::reserve(std::uint64_t size) {
  size = (size + 15) / 16 * 16;
  std::uint64_t at = used_word().load();
  do {
    if (at > budget_ || size > budget_ - at) return 0;
  } while (!used_word().compare_exchange_weak(at, at + size));
  const bool look = at / look_every != (at + size) / look_every;
  if (look && rg_h5_store()->room() < leave) {
    used_word().store(budget_); /* nobody finds room any more */
    return 0;
  }
  return at;
}

std::uint64_t CachedTiles::place(std::uint64_t i, std::uint64_t j) const {
  return first_ + i * ((tiling_->fast + tiling_->tile_fast - 1) / tiling_->tile_fast) + j;
}

bool CachedTiles::has(std::uint64_t i, std::uint64_t j) const {
  return cache_ && cache_->entry(place(i, j)).load(std::memory_order_acquire) > Cache::refused;
}

bool CachedTiles::get(std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const {
  if (!cache_) return false;
  const std::uint64_t at = cache_->entry(place(i, j)).load(std::memory_order_acquire);
  if (at <= Cache::refused) return false;
  const std::size_t size = size_of(tiling_->type), count = tile->slow * tile->fast;
  if (scratch.elements.size() < count * size) scratch.elements.resize(count * size);
  unpack(reinterpret_cast<const unsigned char*>(cache_->data_ + at), count, size, kind_of(tiling_->type),
         &scratch.packing, scratch.elements.data());
  tile->data = scratch.elements.data();
  tile->stride = tile->fast;
  return true;
}

void CachedTiles::put(std::uint64_t i, std::uint64_t j, const Tile& tile, Scratch& scratch) const {
  if (!cache_) return;
  const std::size_t size = size_of(tiling_->type), count = tile.slow * tile.fast;
  std::atomic<std::uint64_t>& entry = cache_->entry(place(i, j));
  std::uint64_t expected = Cache::empty;
  if (count > UINT32_MAX || !entry.compare_exchange_strong(expected, Cache::claimed)) return;
  std::uint64_t at = 0;
  if (cache_->used_word().load() < cache_->budget_) {
    const unsigned char* elements = tile.data;
    if (tile.stride != tile.fast) {
      std::vector<unsigned char>& lines = scratch.lines;
      lines.resize(count * size);
      for (std::size_t r = 0; r < tile.slow; ++r) {
        std::memcpy(lines.data() + r * tile.fast * size, tile.data + r * tile.stride * size, tile.fast * size);
      }
      elements = lines.data();
    }
    pack(elements, count, size, kind_of(tiling_->type), &scratch.packing);
    const std::vector<unsigned char>& packed = scratch.packing.packed;
    at = cache_->reserve(packed.size());
    if (at != 0 && rg_h5_store()->write(cache_->store_, static_cast<std::int64_t>(at), packed.data(),
                                        static_cast<std::int64_t>(packed.size())) < 0) {
      at = 0;
    }
  }
  entry.store(at != 0 ? at : static_cast<std::uint64_t>(Cache::refused), std::memory_order_release);
}

}  // namespace h5
}  // namespace regatta
#endif
