#ifdef REGATTA_WITH_HDF5
#include "h5-virtual.hpp"

#include <unistd.h>

#include <cstdlib>

namespace regatta {
namespace h5 {

namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/* Where the library would find the file `source`; "" if nowhere. */
std::string find_source(const std::string& source, const std::string& path) {
  const char* const prefix = std::getenv("HDF5_VDS_PREFIX");
  std::string last = source.substr(source.rfind('/') == std::string::npos ? 0 : source.rfind('/') + 1);
  std::string tries[4];
  if (prefix && *prefix) tries[0] = std::string(prefix) + "/" + source;
  tries[1] = source[0] == '/' ? source : folder_of(path) + source;
  tries[2] = source;
  tries[3] = folder_of(path) + last;
  for (const std::string& here : tries) {
    if (!here.empty() && access(here.c_str(), R_OK) == 0) return here;
  }
  return "";
}

template <class Get>
std::string text_of(Get get) {
  const ssize_t size = get(nullptr, 0);
  if (size <= 0) return "";
  std::string text(static_cast<std::size_t>(size) + 1, '\0');
  get(&text[0], text.size());
  text.resize(static_cast<std::size_t>(size));
  return text;
}

bool is_there(const FileId& file, const std::string& name) {
  const DatasetId dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  return dataset.valid();
}

}  // namespace

void check_sources(const Library& library, const FileId& file, const DatasetId& dataset,
                   const Facts& facts) {
  const ListId list(H5Dget_create_plist(dataset.get()));
  std::size_t count = 0;
  if (H5Pget_virtual_count(list.get(), &count) < 0) return;
  std::string before;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string source = text_of([&](char* to, std::size_t size) {
      return H5Pget_virtual_filename(list.get(), i, to, size);
    });
    const std::string name = text_of([&](char* to, std::size_t size) {
      return H5Pget_virtual_dsetname(list.get(), i, to, size);
    });
    const std::string both = source + "\n" + name;
    /* A pattern stands for any number of sources, of which none need exist. */
    if (both == before || both.find('%') != std::string::npos) continue;
    before = both;
    bool found = false;
    std::string where = facts.path;
    if (source == ".") {
      found = is_there(file, name);
    } else {
      where = find_source(source, facts.path);
      if (where.empty()) {
        throw failure("the virtual dataset " + place(facts.path, facts.name) + " has a source in " +
                          source + ", which is not there",
                      facts.path, facts.name);
      }
      found = is_there(open_file(library, where), name);
    }
    if (!found) {
      throw failure("the virtual dataset " + place(facts.path, facts.name) + " has a source " +
                        place(where, name) + ", which is not there",
                    facts.path, facts.name);
    }
  }
}

}  // namespace h5
}  // namespace regatta
#endif
