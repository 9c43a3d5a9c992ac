#ifndef REGATTA_H5_CACHE_HPP
#define REGATTA_H5_CACHE_HPP

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "h5-library.hpp"
#include "h5-dataset.hpp"
#include "h5-pack.hpp"
#include "h5-store.h"

/* Decoded tiles of a file, packed, in memory that forked processes share. Tiles come in whoever decodes them
   first, until the budget is used up, and stay until the cache goes: of passes over a whole matrix each finds
   the same ones there, which the most recent ones would not be. */

namespace regatta {
namespace h5 {

/* The file that the elements of a dataset are in, as it was when this was asked. */
struct FileState {
  std::uint64_t device, inode, size;
  std::int64_t changed_s, changed_ns; /* the later of the changes of contents and of the inode */
};

/* False where libhdf5 reads it by other means than a descriptor. */
bool file_state(const Library& library, const DatasetId& dataset, FileState* state);

/* A dataset cut into tiles: what is kept is true for nothing else. */
struct Tiling {
  std::string name;
  std::vector<std::uint64_t> plane;
  Type type;
  std::uint64_t slow, fast, tile_slow, tile_fast;
  FileState file;
  std::uint64_t tiles() const;
};

struct Tile;
struct Scratch;
class Cache;

/* The tiles of one dataset, or nothing at all. Any thread. */
class CachedTiles {
 public:
  CachedTiles() : cache_(nullptr), tiling_(nullptr), first_(0) {}
  bool get(std::uint64_t i, std::uint64_t j, Scratch& scratch, Tile* tile) const;
  void put(std::uint64_t i, std::uint64_t j, const Tile& tile, Scratch& scratch) const;
  bool has(std::uint64_t i, std::uint64_t j) const;
  explicit operator bool() const { return cache_ != nullptr; }

 private:
  friend class Cache;
  std::uint64_t place(std::uint64_t i, std::uint64_t j) const;
  Cache* cache_;
  const Tiling* tiling_;
  std::uint64_t first_;
};

class Cache {
 public:
  /* On R's thread; an R error where memory is lacking. */
  Cache(const std::string& path, const std::vector<Tiling>& tilings, std::uint64_t budget, std::int64_t limit);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /* What is kept of this dataset; nothing, and changed(), if it is not what it was. */
  CachedTiles tiles(const Tiling& now);
  /* Random, of this cache alone. */
  std::uint64_t tag() const { return rg_h5_store()->tag(store_); }
  bool changed() const { return changed_; }

  std::uint64_t budget() const { return budget_; }
  std::uint64_t used() const;
  std::uint64_t entries() const { return entries_; }
  std::uint64_t kept() const;

  /* Of each dataset's file: in seconds, those of the clock that Sys.time() reads. */
  std::vector<double> last_changes() const;

 private:
  friend class CachedTiles;
  typedef std::atomic<std::uint64_t> Word;
  /* In an entry: nothing; somebody packs the tile, or has died of it; there is no room for it; else where
     it stands. */
  enum : std::uint64_t { empty = 0, claimed = 1, refused = 2 };

  Word& used_word() const { return *reinterpret_cast<Word*>(data_); }
  Word& entry(std::uint64_t k) const { return reinterpret_cast<Word*>(data_)[k + 1]; }
  std::uint64_t reserve(std::uint64_t size);

  std::vector<Tiling> tilings_;
  std::uint64_t budget_, entries_;
  rg_h5_memory* store_;
  char* data_;
  bool changed_;
};

}  // namespace h5
}  // namespace regatta

#endif
