#ifdef REGATTA_WITH_HDF5
#include "h5-library.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <regatta/core/process.hpp>

namespace regatta {
namespace h5 {

namespace {

/* Walked from the innermost function outwards; `data` is the text found so far. */
extern "C" herr_t note_reason(unsigned, const H5E_error2_t* error, void* data) {
  std::string& text = *static_cast<std::string*>(data);
  if (text.empty() && error->desc) text = error->desc;
  return 0;
}

/* HDF5_USE_FILE_LOCKING as it is now; the library reads it only once, when it is loaded. */
bool wants_locks() {
  const char* const text = std::getenv("HDF5_USE_FILE_LOCKING");
  return !text || (std::strcmp(text, "FALSE") != 0 && std::strcmp(text, "0") != 0);
}

ListId access_list(bool locks) {
  ListId list(H5Pcreate(H5P_FILE_ACCESS));
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERSION_GE(1, 12, 0) && !H5_VERSION_GE(1, 12, 1))
  if (!locks) H5Pset_file_locking(list.get(), false, true);
#else
  (void)locks;
#endif
  return list;
}

/* What is at `path` if it is no regular file, or "". Nothing else is opened: that alone may do something, or never
   end, and libhdf5 takes devices for files and loses its footing. */
std::string other_kind(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return "";
  return S_ISDIR(info.st_mode) ? "it is a folder" : "it is a device, a pipe or a socket, no regular file";
}

/* Why the system does not let the file be read, or "". */
std::string system_reason(const std::string& path) {
  const std::string kind = other_kind(path);
  if (!kind.empty()) return kind;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::strerror(errno);
  struct stat info;
  const bool empty = fstat(fd, &info) == 0 && info.st_size == 0;
  close(fd);
  return empty ? "it is empty" : "";
}

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

/* What to do about a reason of the library's. */
std::string advice_on(const std::string& reason) {
  if (mentions(reason, "unable to lock file") || mentions(reason, "already open for")) {
    return "Another process has the file open: wait until it closes it, or, to read it all the same, set "
           "Sys.setenv(HDF5_USE_FILE_LOCKING = \"FALSE\").";
  }
  if (mentions(reason, "bad superblock version") || mentions(reason, "bad version number")) {
    return "It may have been written by a newer libhdf5 than the one regatta was built with: "
           "write it with `libver = \"v110\"`, or install regatta with a newer libhdf5.";
  }
  if (mentions(reason, "truncated file")) return "The file is shorter than it says: copy it anew.";
  if (mentions(reason, "No space left on device")) return "Make room on the disk, or choose another one.";
  if (mentions(reason, "Permission denied") || mentions(reason, "Read-only file system")) return "";
  return "These are libhdf5's words. Where they speak of what is in the file, it is damaged, or was being written when "
         "it was read or copied: copy it anew.";
}

/* The part of `name` that exists, and what there is in it. */
std::string what_exists(const FileId& file, const std::string& name) {
  std::string found = "/";
  for (const std::string& part : leading_paths(name)) {
    if (H5Lexists(file.get(), part.c_str(), H5P_DEFAULT) <= 0 ||
        H5Oexists_by_name(file.get(), part.c_str(), H5P_DEFAULT) <= 0) {
      break;
    }
    found = part;
  }
  const GroupId group(H5Gopen2(file.get(), found.c_str(), H5P_DEFAULT));
  if (!group.valid()) return "`" + found + "` is no group";
  H5G_info_t info;
  if (H5Gget_info(group.get(), &info) < 0 || info.nlinks == 0) return "`" + found + "` is empty";
  std::string names;
  for (hsize_t i = 0; i < info.nlinks && i < 20; ++i) {
    char text[256];
    if (H5Lget_name_by_idx(group.get(), ".", H5_INDEX_NAME, H5_ITER_INC, i, text, sizeof text,
                           H5P_DEFAULT) < 0) {
      break;
    }
    names += std::string(names.empty() ? "`" : ", `") + text + "`";
  }
  return "`" + found + "` has " + names + (info.nlinks > 20 ? " and more" : "");
}

[[noreturn]] void fail_object(const Library& library, const FileId& file, const std::string& path,
                              const std::string& name) {
  const std::string reason = library.reason();
  H5L_info_t link;
  const char* const at = name.c_str();
  if (H5Lexists(file.get(), at, H5P_DEFAULT) > 0 &&
      H5Lget_info(file.get(), at, &link, H5P_DEFAULT) >= 0 && link.type != H5L_TYPE_HARD) {
    std::string target = "elsewhere";
    std::vector<char> value(link.u.val_size + 1);
    if (H5Lget_val(file.get(), at, value.data(), value.size(), H5P_DEFAULT) >= 0) {
      const char *other = nullptr, *inside = nullptr;
      unsigned flags = 0;
      if (link.type == H5L_TYPE_SOFT) {
        target = std::string("`") + value.data() + "`";
      } else if (H5Lunpack_elink_val(value.data(), link.u.val_size, &flags, &other, &inside) >= 0) {
        target = place(other, inside);
      }
    }
    throw failure(place(path, name) + " is a link to " + target + ", which cannot be opened: " + reason,
                  path, name, "Put back what it leads to, or take the link out of the file.");
  }
  if (H5Oexists_by_name(file.get(), at, H5P_DEFAULT) > 0) {
    throw failure(place(path, name) + " cannot be opened: " + reason, path, name, advice_on(reason));
  }
  throw failure("there is no `" + name + "` in " + path, path, name, what_exists(file, name) + ".");
}

}  // namespace

Library::Library() : print_(nullptr), print_data_(nullptr) {
  if (!onMainThread()) throw std::logic_error("libhdf5 was to be called on another thread than R's");
  H5open();
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Library::~Library() {
  H5Eclear2(H5E_DEFAULT);
  H5Eset_auto2(H5E_DEFAULT, print_, print_data_);
}

std::string Library::reason() const {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_reason, &text);
  /* Of a call of the system it tells the time, the descriptor and more. */
  const std::string words = "error message = '";
  const std::size_t at = text.find(words);
  if (at != std::string::npos) {
    const std::string error = text.substr(at + words.size());
    text = text.substr(0, text.find_first_of(":,")) + ": " + error.substr(0, error.find('\''));
  }
  return text.empty() ? "libhdf5 gives no reason" : text;
}

Failure Library::failed(const std::string& what, const std::string& path, const std::string& name) const {
  const std::string why = reason();
  return failure(what + ": " + why, path, name, advice_on(why));
}

std::string place(const std::string& path, const std::string& name) {
  return "`" + name + "` in " + path;
}

Failure failure(const std::string& message, const std::string& path, const std::string& name,
                const std::string& advice) {
  Failure made(message);
  made.path = path;
  made.name = name;
  made.advice = advice;
  return made;
}

FileId open_file(const Library& library, const std::string& path) {
  const std::string reason = system_reason(path);
  if (!reason.empty()) throw failure("cannot open " + path + ": " + reason, path);
  const ListId access = access_list(wants_locks());
  FileId file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()));
  if (file.valid()) return file;
  const std::string why = library.reason();
  if (mentions(why, "unable to lock file") &&
      (mentions(why, "Function not implemented") || mentions(why, "No locks available") ||
       mentions(why, "not supported"))) {
    /* Network file systems may have no locks, which is no reason not to read. */
    const ListId unlocked = access_list(false);
    FileId again(H5Fopen(path.c_str(), H5F_ACC_RDONLY, unlocked.get()));
    if (again.valid()) return again;
  }
  if (H5Fis_hdf5(path.c_str()) == 0) {
    throw failure("cannot open " + path + ": it is no HDF5 file", path);
  }
  throw failure("cannot open " + path + ": " + why, path, "", advice_on(why));
}

void refuse_other_kind(const std::string& path) {
  const std::string kind = other_kind(path);
  if (!kind.empty()) {
    throw failure("cannot write to " + path + ": " + kind, path, "", "Give the name of an HDF5 file, or a new name.");
  }
}

FileId open_to_write(const Library& library, const std::string& path) {
  refuse_other_kind(path);
  FileId file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT));
  if (file.valid()) return file;
  const Failure failed = library.failed("cannot open " + path + " for writing", path);
  if (H5Fis_hdf5(path.c_str()) == 0) {
    throw failure("cannot write to " + path + ": it is no HDF5 file", path, "", "Give the name of one, or a new name.");
  }
  throw failed;
}

std::vector<std::string> leading_paths(const std::string& name) {
  std::vector<std::string> out;
  for (std::size_t at = name.find('/');; at = name.find('/', at + 1)) {
    const std::string part = name.substr(0, at);
    if (!part.empty() && part.back() != '/') out.push_back(part);
    if (at == std::string::npos) return out;
  }
}

std::string in_the_way(const FileId& file, const std::string& name) {
  for (const std::string& part : leading_paths(name)) {
    if (part == name) break;
    if (H5Lexists(file.get(), part.c_str(), H5P_DEFAULT) <= 0) return "";
    const ObjectId object(H5Oopen(file.get(), part.c_str(), H5P_DEFAULT));
    if (!object.valid() || H5Iget_type(object.get()) != H5I_GROUP) return "`" + part + "` is no group";
  }
  return "";
}

ObjectId open_object(const Library& library, const FileId& file, const std::string& path,
                     const std::string& name) {
  ObjectId object(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT));
  if (!object.valid()) fail_object(library, file, path, name);
  return object;
}

DatasetId open_dataset(const Library& library, const FileId& file, const std::string& path,
                       const std::string& name) {
  {
    const ObjectId object = open_object(library, file, path, name);
    if (H5Iget_type(object.get()) == H5I_GROUP) {
      throw failure(place(path, name) + " is a group, no dataset", path, name,
                    what_exists(file, name) + ".");
    }
    if (H5Iget_type(object.get()) != H5I_DATASET) {
      throw failure(place(path, name) + " is no dataset", path, name);
    }
  }
  DatasetId dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
  if (!dataset.valid()) {
    throw library.failed(place(path, name) + " cannot be opened", path, name);
  }
  return dataset;
}

}  // namespace h5
}  // namespace regatta
#endif
