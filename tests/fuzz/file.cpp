#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>

#include "fuzz.hpp"
#include "h5-list.hpp"
#include "h5-median.hpp"
#include "h5-read.hpp"
#include "h5-sparse.hpp"
#include "h5-stats.hpp"

/* A file that may have any bytes: listed, and each dataset read and added up. Errors are what is to come;
   anything but these is not. What libhdf5 makes of a damaged file is its own affair: it comes without sanitizers. */

using namespace regatta::h5;

namespace {

const std::uint64_t most_elements = 20000;

template <class F>
void allowed_to_fail(F f) {
  try {
    f();
  } catch (const std::exception&) {
  }
}

std::uint64_t elements_of(const Item& item) {
  std::uint64_t all = 1;
  for (std::uint64_t extent : item.extents) {
    if (__builtin_mul_overflow(all, extent, &all)) return UINT64_MAX;
  }
  return all;
}

void reduce_all(const Matrix& matrix, unsigned threads) {
  const Groups all{{}, 1, {}};
  const Limits limits{threads, 64e6, false};
  Results fast, slow;
  reduce(matrix, all, all, Wanted{true, true, true, true}, limits, &fast, &slow);
  const double cells = static_cast<double>(matrix.fast() * matrix.slow());
  double count = 0;
  for (std::size_t k = 0; k < fast.count.size(); ++k) count += fast.count[k] + fast.missing[k];
  must(count == cells, "every element counts once");
  Results medians;
  find_medians(matrix, all, all, limits, &medians, nullptr);
}

void read_matrix(const std::string& path, const Item& item) {
  const std::size_t rank = item.extents.size();
  const std::vector<std::uint64_t> plane(rank > 2 ? rank - 2 : 0, 0);
  const Matrix matrix(path, item.name, plane);
  if (matrix.slow() == 0 || matrix.fast() == 0) return;
  if (matrix.slow() > most_elements / matrix.fast()) return;
  if (matrix.tile_slow() > (1U << 22) / matrix.tile_fast()) return;
  reduce_all(matrix, 1);
  std::vector<double> real(static_cast<std::size_t>(matrix.slow() * matrix.fast()));
  const Selection all{true, {}}, some{false, {matrix.fast() - 1, 0, 0}};
  read_part(matrix, all, all, Target{real.data(), nullptr}, 1);
  if (matrix.fast() >= 3) read_part(matrix, all, some, Target{real.data(), nullptr}, 1);
}

void read_sparse_of(const std::string& path, const std::string& group) {
  SparseNames names;
  names.path = path;
  names.data = group + "data";
  names.indices = group + "indices";
  names.pointers = group + "indptr";
  names.cache = nullptr;
  {
    const Matrix data(path, names.data, {});
    names.shape = Shape{data.facts().extents, data.facts().chunk, type_name(data.facts().number)};
  }
  Values pointers;
  if (!read_values(path, names.pointers, "", "", &pointers) || pointers.numbers.size() > 1000) return;
  if (pointers.numbers.empty()) return;
  const std::uint64_t majors = pointers.numbers.size() - 1;
  const Groups all{{}, 1, {}};
  Results of_major, of_minor;
  reduce_sparse(names, majors, 50, all, all, Wanted{true, true, true, true}, Limits{1, 64e6, false}, &of_major, &of_minor);
  SparsePart part;
  read_sparse(names, majors, 50, Selection{true, {}}, {}, 1, &part);
}

/* One file for all inputs, which goes with the process. libhdf5 wants to know its folder. */
class File {
 public:
  File() {
    const char* const folder = std::getenv("TMPDIR");
    path_ = std::string(folder ? folder : P_tmpdir) + "/fuzz-XXXXXX";
    const int fd = mkstemp(&path_[0]);
    must(fd >= 0 && close(fd) == 0, "there is a file to write to");
  }
  ~File() { unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& with(const std::uint8_t* data, std::size_t size) {
    std::FILE* const file = std::fopen(path_.c_str(), "wb");
    must(file && std::fwrite(data, 1, size, file) == size && std::fclose(file) == 0, "the input is written");
    return path_;
  }

 private:
  std::string path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > (1U << 20)) return 0;
  static File file;
  const std::string& path = file.with(data, size);
  std::vector<Item> items;
  allowed_to_fail([&] { items = list_items(path, "/"); });
  if (!items.empty()) ++inputs_read();
  std::size_t left = 12;
  for (const Item& item : items) {
    if (item.kind != "dataset" || left == 0) continue;
    --left;
    if (elements_of(item) <= most_elements) {
      allowed_to_fail([&] { read_matrix(path, item); });
      Values values;
      if (item.extents.size() < 2) allowed_to_fail([&] { read_values(path, item.name, "", "", &values); });
      for (std::size_t i = 0; item.extents.size() < 2 && i < std::min<std::size_t>(item.fields.size(), 8); ++i) {
        allowed_to_fail([&] { read_values(path, item.name, "", item.fields[i], &values); });
      }
    }
    const std::string& name = item.name;
    if (name.size() >= 6 && name.compare(name.size() - 6, 6, "indptr") == 0) {
      allowed_to_fail([&] { read_sparse_of(path, name.substr(0, name.size() - 6)); });
    }
  }
  return 0;
}
