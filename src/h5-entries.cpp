#ifdef REGATTA_WITH_HDF5
#include "h5-entries.hpp"

namespace regatta {
namespace h5 {

namespace {

std::vector<std::uint64_t> read_pointers(const SparseNames& names, std::uint64_t entries) {
  const Column column(names.path, names.pointers, names.cache);
  std::vector<std::uint64_t> pointers, part;
  ColumnScratch scratch;
  for (std::uint64_t begin = 0, end; begin < column.size(); begin = end) {
    end = begin + std::min(column.most(), column.size() - begin);
    column.read_whole(column.locate({Entries(begin, end)}), begin, end, scratch, &part);
    pointers.insert(pointers.end(), part.begin(), part.end());
  }
  const bool fine = !pointers.empty() && pointers.front() == 0 && pointers.back() == entries &&
                    std::is_sorted(pointers.begin(), pointers.end());
  if (!fine) {
    throw failure(place(names.path, names.pointers) + " does not begin at 0, rise, and end at the " +
                      std::to_string(entries) + " entries that there are",
                  names.path, names.pointers);
  }
  return pointers;
}

}  // namespace

SparseFile::SparseFile(const SparseNames& names, std::uint64_t majors)
    : data(names.path, names.data, names.cache, &names.shape),
      indices(names.path, names.indices, names.cache) {
  if (data.size() != indices.size()) {
    throw failure(place(names.path, names.data) + " has " + std::to_string(data.size()) + " entries, `" +
                      names.indices + "` has " + std::to_string(indices.size()),
                  names.path, names.data);
  }
  pointers = read_pointers(names, data.size());
  if (pointers.size() - 1 != majors) {
    throw failure(place(names.path, names.pointers) + " is for " + std::to_string(pointers.size() - 1) +
                      " rows or columns, the shape says " + std::to_string(majors),
                  names.path, names.pointers);
  }
}

void read_entries(const SparseFile& file, const SparseFile::Places& places, std::uint64_t begin, std::uint64_t end,
                  EntryScratch& scratch) {
  const std::size_t size = size_of(file.data.matrix().type());
  const std::size_t bytes = static_cast<std::size_t>(end - begin) * size;
  if (scratch.values.size() < bytes) scratch.values.resize(bytes);
  const auto keep = [&](const unsigned char* from, std::uint64_t first, std::size_t count) {
    std::memcpy(scratch.values.data() + (first - begin) * size, from, count * size);
  };
  file.data.read(places.data, begin, end, scratch.data, keep);
  file.indices.read_whole(places.indices, begin, end, scratch.indices, &scratch.minor);
}

void fail_twice(const SparseNames& names) {
  throw failure(place(names.path, names.indices) + " has the same index twice in a row or column",
                names.path, names.indices);
}

void fail_outside(const SparseNames& names, std::uint64_t entry, std::uint64_t minors) {
  throw failure("entry " + std::to_string(entry + 1) + " of " + place(names.path, names.indices) +
                    " is outside of the " + std::to_string(minors) + " that the matrix has",
                names.path, names.indices);
}

}  // namespace h5
}  // namespace regatta
#endif
