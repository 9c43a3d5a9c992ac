/* The program that is asked what a session is about to ask libhdf5, before the session does: of a damaged file the
   library may crash, or look for something for ever. R/h5-trial.R writes the requests, src/trial.c sends them. It has
   no R, ends with its session, and its answer is one byte that says only that it has come to an end, and whether it
   would do so again as long as the file is the same. */
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "../h5-list.hpp"
#include "../h5-matrix.hpp"

extern "C" {
#include "../sys-memory.h"
#include "../sys-process.h"
#include "../sys-spawn.h"
}

using namespace regatta::h5;

namespace {

const int line = RG_SPAWN_LINE;

/* False if the session is gone. */
bool take(void* to, std::size_t size) {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = read(line, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

/* The fields of a request, each after its length. */
bool take_fields(std::vector<std::string>* fields) {
  std::uint32_t count, size;
  if (!take(&count, sizeof count)) return false;
  fields->assign(count, "");
  for (std::string& field : *fields) {
    if (!take(&size, sizeof size)) return false;
    field.resize(size);
    if (size > 0 && !take(&field[0], size)) return false;
  }
  return true;
}

/* Indices from 1, as R has them. */
std::vector<std::uint64_t> indices(const std::string& field) {
  std::vector<std::uint64_t> out(field.size() / sizeof(double));
  for (std::size_t i = 0; i < out.size(); ++i) {
    double one;
    std::memcpy(&one, field.data() + i * sizeof one, sizeof one);
    out[i] = static_cast<std::uint64_t>(one) - 1;
  }
  return out;
}

/* What a damaged file says may be any number. Of more tiles the library could not tell in time. */
const std::uint64_t most_tiles = std::uint64_t(1) << 26;

/* The tiles of an axis that have all, or some, of its indices in them. */
std::vector<std::uint64_t> tiles(const std::string& chosen, std::uint64_t extent, std::uint64_t tile) {
  std::vector<std::uint64_t> out;
  if (chosen == "all") {
    if (extent / tile > most_tiles) throw std::length_error("too many tiles");
    for (std::uint64_t i = 0; i * tile < extent; ++i) out.push_back(i);
    return out;
  }
  for (std::uint64_t index : indices(chosen)) {
    if (index < extent) out.push_back(index / tile);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void locate(const std::string& path, const std::string& name, const std::string& plane, const std::string& slow,
            const std::string& fast) {
  const Matrix matrix(path, name, indices(plane));
  if (matrix.slow() == 0 || matrix.fast() == 0) return;
  each_band(matrix, tiles(slow, matrix.slow(), matrix.tile_slow()), tiles(fast, matrix.fast(), matrix.tile_fast()),
            [](const Located&, std::size_t, std::size_t, std::size_t, std::size_t) {});
}

/* What R/h5-trial.R knows an answer by. */
enum Answer : char { lasting = 1, passing = 2 };

std::string name_of(hid_t file) {
  const ssize_t size = H5Fget_name(file, nullptr, 0);
  std::string name(static_cast<std::size_t>(std::max<ssize_t>(size, 0)) + 1, '\0');
  if (size > 0) H5Fget_name(file, &name[0], name.size());
  return name;
}

/* Whether the object, or elements of it, are in another file, which may change while this one does not. */
bool is_elsewhere(const std::string& path, const std::string& name) {
  const Library library;
  const FileId file = open_file(library, path);
  for (const std::string& part : leading_paths(name)) {
    H5L_info_t link;
    if (H5Lexists(file.get(), part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (H5Lget_info(file.get(), part.c_str(), &link, H5P_DEFAULT) < 0 || link.type == H5L_TYPE_EXTERNAL) return true;
  }
  const ObjectId object(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT));
  if (!object.valid()) return true;
  const FileId its(H5Iget_file_id(object.get()));
  if (name_of(its.get()) != name_of(file.get())) return true;
  if (H5Iget_type(object.get()) != H5I_DATASET) return false;
  const ListId list(H5Dget_create_plist(object.get()));
  return list.valid() && H5Pget_layout(list.get()) == H5D_VIRTUAL;
}

/* What cannot be done is not for this program to tell. */
void ask(const std::vector<std::string>& field) {
  try {
    const std::string& what = field.at(0);
    if (what == "list") list_items(field.at(1), field.at(2));
    if (what == "describe") read_facts(field.at(1), field.at(2));
    if (what == "stored") stored_bytes(field.at(1), field.at(2));
    if (what == "locate") locate(field.at(1), field.at(2), field.at(3), field.at(4), field.at(5));
    if (what == "values") {
      Values values;
      read_values(field.at(1), field.at(2), field.at(3), field.at(4), &values);
    }
  } catch (const std::exception&) {
  }
}

Answer answer(const std::vector<std::string>& field) {
  try {
    return is_elsewhere(field.at(1), field.at(2)) ? passing : lasting;
  } catch (const std::exception&) {
    return lasting;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  if (count < 2 || rg_process_die_with(static_cast<pid_t>(std::atol(arguments[1])), SIGKILL) < 0) return 1;
  rg_memory_end_before_parent();
  std::vector<std::string> fields;
  while (take_fields(&fields)) {
    ask(fields);
    const char reply = answer(fields);
    if (write(line, &reply, 1) != 1) break;
  }
  std::_Exit(0); /* libhdf5 may not come to an end with what a damaged file has left in it */
}
