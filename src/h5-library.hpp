#ifndef REGATTA_H5_LIBRARY_HPP
#define REGATTA_H5_LIBRARY_HPP

/* From libhdf5 2.0 on the name stands for another function unless this says which. */
#ifndef H5Dread_chunk_vers
#define H5Dread_chunk_vers 1
#endif
#include <hdf5.h>

#include <stdexcept>
#include <string>
#include <vector>

/* libhdf5 as this package uses it: on R's thread, nothing printed, everything closed. */

namespace regatta {
namespace h5 {

/* What went wrong with a file: the words, and the facts that they contain. */
struct Failure : std::runtime_error {
  explicit Failure(const std::string& message) : std::runtime_error(message) {}
  std::string path, name, chunk, filter, advice;
};

/* The right to call libhdf5: whoever calls it has one of these, on the stack, for as short as possible. Only R's own
   thread can have one. Not every build is safe for threads, and in one that is, another package that leaves the
   library by an error of R, as rhdf5 does from the walk along the stack of errors, leaves its lock to R's thread for
   good: all others would wait for ever. The library's own printing of errors is off meanwhile. */
class Library {
 public:
  Library();
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /* The reason of the last failed call, as the library's innermost function gave it; what has failed for that reason,
     with what to do. */
  std::string reason() const;
  Failure failed(const std::string& what, const std::string& path, const std::string& name = "") const;

 private:
  H5E_auto2_t print_;
  void* print_data_;
};

/* An identifier of the library, closed by `Close` when its owner ends, who must hold a Library. */
template <herr_t (*Close)(hid_t)>
class Id {
 public:
  explicit Id(hid_t id = -1) : id_(id) {}
  Id(Id&& other) noexcept : id_(other.id_) { other.id_ = -1; }
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id() {
    if (id_ >= 0) Close(id_);
  }
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
};

using FileId = Id<H5Fclose>;
using GroupId = Id<H5Gclose>;
using ObjectId = Id<H5Oclose>;
using DatasetId = Id<H5Dclose>;
using SpaceId = Id<H5Sclose>;
using TypeId = Id<H5Tclose>;
using ListId = Id<H5Pclose>;
using AttributeId = Id<H5Aclose>;

/* Opens a file for reading, or for both. */
FileId open_file(const Library& library, const std::string& path);
FileId open_to_write(const Library& library, const std::string& path);

/* Fails if there is something at `path` that cannot be written to as a file. */
void refuse_other_kind(const std::string& path);

/* "a", "a/b" and so on to `name` itself. */
std::vector<std::string> leading_paths(const std::string& name);

/* What of `name` exists and is no group, so that nothing can be made below it, in words, or "". */
std::string in_the_way(const FileId& file, const std::string& name);

/* Opens what `name` leads to in the file, through links of any kind. */
DatasetId open_dataset(const Library& library, const FileId& file, const std::string& path,
                       const std::string& name);
ObjectId open_object(const Library& library, const FileId& file, const std::string& path,
                     const std::string& name);

/* "`name` in path", for messages. */
std::string place(const std::string& path, const std::string& name);

Failure failure(const std::string& message, const std::string& path, const std::string& name = "",
                const std::string& advice = "");

}  // namespace h5
}  // namespace regatta

#endif
