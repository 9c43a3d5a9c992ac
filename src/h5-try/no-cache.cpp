/* Caches of decoded chunks are in R's memory. For programs without R there are none. */
#include "../h5-cache.hpp"

#include "../h5-matrix.hpp"

namespace regatta {
namespace h5 {

bool CachedTiles::get(std::uint64_t, std::uint64_t, Scratch&, Tile*) const { return false; }
void CachedTiles::put(std::uint64_t, std::uint64_t, const Tile&, Scratch&) const {}
bool CachedTiles::has(std::uint64_t, std::uint64_t) const { return false; }
CachedTiles Cache::tiles(const Tiling&) { return CachedTiles(); }
bool file_state(const Library&, const DatasetId&, FileState*) { return false; }

}  // namespace h5
}  // namespace regatta
