#ifdef REGATTA_WITH_HDF5
#include "h5-list.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

#include "h5-number.hpp"

/* What a file holds: its tree, and short vectors such as names. */

namespace regatta {
namespace h5 {

namespace {

/* No vector of names is longer; a damaged extent may say so. */
const std::uint64_t most_values = std::uint64_t(1) << 31;

struct Visit {
  std::vector<Item>* items;
  std::exception_ptr error;
};

std::string link_target(hid_t group, const char* name, const H5L_info_t* info) {
  std::vector<char> value(info->u.val_size + 1);
  if (H5Lget_val(group, name, value.data(), value.size(), H5P_DEFAULT) < 0) return "";
  if (info->type == H5L_TYPE_SOFT) return value.data();
  const char *file = nullptr, *inside = nullptr;
  unsigned flags = 0;
  if (H5Lunpack_elink_val(value.data(), info->u.val_size, &flags, &file, &inside) < 0) return "";
  return std::string(file) + ":" + inside;
}

std::vector<std::string> field_names(hid_t type) {
  std::vector<std::string> names;
  const int count = H5Tget_nmembers(type);
  for (int i = 0; i < count; ++i) {
    char* const name = H5Tget_member_name(type, static_cast<unsigned>(i));
    if (!name) continue;
    names.push_back(name);
    H5free_memory(name);
  }
  return names;
}

void describe_dataset(hid_t id, Item* item) {
  const TypeId type(H5Dget_type(id));
  const SpaceId space(H5Dget_space(id));
  const ListId list(H5Dget_create_plist(id));
  if (!type.valid() || !space.valid() || !list.valid()) return;
  NumberType number;
  item->type = number_type_of(id, type.get(), &number) && number.coded ? type_name(number) : type_word(type.get());
  if (H5Tget_class(type.get()) == H5T_COMPOUND) item->fields = field_names(type.get());
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(rank, 0)) + 1);
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  item->extents.assign(extents.begin(), extents.end() - 1);
  if (H5Pget_layout(list.get()) != H5D_CHUNKED) return;
  if (H5Pget_chunk(list.get(), rank, extents.data()) == rank) {
    item->chunk.assign(extents.begin(), extents.end() - 1);
  }
  const int filters = H5Pget_nfilters(list.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t size = 0;
    char name[128] = "";
    const H5Z_filter_t filter = H5Pget_filter2(list.get(), static_cast<unsigned>(i), &flags, &size,
                                               nullptr, sizeof name, name, &config);
    const char* const known = filter_name(static_cast<int>(filter));
    item->filters += (i > 0 ? " " : "") + std::string(*known ? known : *name ? name : "unknown");
  }
}

/* By its place in the file: to follow its path would take the longer the deeper it lies. */
hid_t open_linked(hid_t group, const H5L_info_t* info) {
#if H5Lvisit_vers == 2
  return H5Oopen_by_token(group, info->u.token);
#else
  return H5Oopen_by_addr(group, info->u.address);
#endif
}

void visit_link(hid_t group, const char* name, const H5L_info_t* info, std::vector<Item>* items) {
  Item item;
  item.name = name;
  if (info->type == H5L_TYPE_HARD) {
    const ObjectId object(open_linked(group, info));
    const H5I_type_t type = object.valid() ? H5Iget_type(object.get()) : H5I_BADID;
    item.kind = type == H5I_GROUP ? "group" : type == H5I_DATASET ? "dataset"
                : type == H5I_DATATYPE ? "type" : "unreadable";
    if (type == H5I_DATASET) describe_dataset(object.get(), &item);
  } else {
    item.kind = info->type == H5L_TYPE_SOFT ? "soft link" : "external link";
    item.target = link_target(group, name, info);
  }
  items->push_back(item);
}

/* Called by the library, through whose frames no exception may pass. */
extern "C" herr_t visit_link_c(hid_t group, const char* name, const H5L_info_t* info, void* data) {
  Visit& visit = *static_cast<Visit*>(data);
  try {
    visit_link(group, name, info, visit.items);
    return 0;
  } catch (...) {
    visit.error = std::current_exception();
    return -1;
  }
}

/* Where all elements are read from, as `type` of memory: a dataset or an attribute, or a field of each element. */
struct Source {
  const Library& library;
  hid_t dataset, attribute;
  const std::string &field, &what, &path, &name;

  void read(hid_t type, void* to) const {
    if (!field.empty()) {
      const TypeId record(H5Tcreate(H5T_COMPOUND, H5Tget_size(type)));
      check(H5Tinsert(record.get(), field.c_str(), 0, type));
      check(H5Dread(dataset, record.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, to));
    } else if (attribute >= 0) {
      check(H5Aread(attribute, type, to));
    } else {
      check(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to));
    }
  }

  /* The library forgets its reason as soon as anything is closed. */
  void check(herr_t status) const {
    if (status < 0) throw library.failed(what + " cannot be read", path, name);
  }
};

void read_strings(const Source& from, hid_t type, hid_t space, std::size_t count, Values* values) {
  values->strings = true;
  const TypeId memory(H5Tcopy(H5T_C_S1));
  H5Tset_cset(memory.get(), H5Tget_cset(type));
  if (H5Tis_variable_str(type) > 0) {
    H5Tset_size(memory.get(), H5T_VARIABLE);
    std::vector<char*> texts(count, nullptr);
    from.read(memory.get(), texts.data());
    values->text.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      values->text.push_back(texts[i] ? texts[i] : "");
    }
    H5Dvlen_reclaim(memory.get(), space, H5P_DEFAULT, texts.data());
    return;
  }
  const std::size_t size = H5Tget_size(type);
  if (size == 0 || count > most_values / size) {
    throw failure(from.what + " cannot be read: it has " + std::to_string(count) + " strings of " +
                      std::to_string(size) + " bytes",
                  from.path, from.name);
  }
  H5Tset_size(memory.get(), size);
  H5Tset_strpad(memory.get(), H5Tget_strpad(type));
  std::vector<char> bytes(size * count + 1);
  from.read(memory.get(), bytes.data());
  const bool spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
  for (std::size_t i = 0; i < count; ++i) {
    const char* const at = bytes.data() + i * size;
    std::size_t length = static_cast<std::size_t>(std::find(at, at + size, '\0') - at);
    while (spaces && length > 0 && at[length - 1] == ' ') --length;
    values->text.push_back(std::string(at, length));
  }
}

/* Of 64 bits. */
template <class T>
void read_wide(const Source& from, hid_t type, std::size_t count, Values* values) {
  std::vector<T> wide(count);
  from.read(type, wide.data());
  values->strings = std::any_of(wide.begin(), wide.end(), is_rounded<T>);
  for (T x : wide) {
    if (values->strings) values->text.push_back(std::to_string(x));
    else values->numbers.push_back(static_cast<double>(x));
  }
}

void read_numbers(const Source& from, hid_t type, Type number, std::size_t count, Values* values) {
  const bool plain = H5Tget_class(type) == H5T_INTEGER;
  if (plain && number == Type::i64) return read_wide<std::int64_t>(from, H5T_NATIVE_INT64, count, values);
  if (plain && number == Type::u64) return read_wide<std::uint64_t>(from, H5T_NATIVE_UINT64, count, values);
  values->numbers.resize(count);
  from.read(H5T_NATIVE_DOUBLE, values->numbers.data());
}

}  // namespace

std::string type_word(hid_t type) {
  NumberType number;
  if (number_type(type, &number)) {
    const bool other = H5Tget_class(type) == H5T_ENUM && !number.boolean;
    return (other ? "enum of " : "") + type_name(number);
  }
  switch (H5Tget_class(type)) {
    case H5T_STRING: return "string";
    case H5T_COMPOUND: return "compound";
    case H5T_REFERENCE: return "reference";
    case H5T_VLEN: return "vlen";
    case H5T_ARRAY: return "array";
    default: return "other";
  }
}

std::vector<Item> list_items(const std::string& path, const std::string& group) {
  std::vector<Item> items;
  Visit visit = {&items, nullptr};
  const Library library;
  const FileId file = open_file(library, path);
  const ObjectId top = open_object(library, file, path, group);
  if (H5Iget_type(top.get()) == H5I_DATASET) {
    Item item;
    item.name = group;
    item.kind = "dataset";
    describe_dataset(top.get(), &item);
    items.push_back(item);
    return items;
  }
  const herr_t status = H5Lvisit(top.get(), H5_INDEX_NAME, H5_ITER_INC, visit_link_c, &visit);
  if (visit.error) std::rethrow_exception(visit.error);
  if (status < 0) throw library.failed("cannot list " + place(path, group), path, group);
  return items;
}

bool read_values(const std::string& path, const std::string& name, const std::string& attribute,
                 const std::string& field, Values* values) {
  values->strings = values->boolean = values->whole = false;
  const std::string what = !attribute.empty() ? "attribute `" + attribute + "` of " + place(path, name)
                           : !field.empty()   ? "field `" + field + "` of " + place(path, name)
                                              : place(path, name);
  const Library library;
  const FileId file = open_file(library, path);
  if (name != "/" && H5Lexists(file.get(), name.substr(0, name.find('/', 1)).c_str(), H5P_DEFAULT) <= 0) {
    return false;
  }
  const ObjectId object(H5Oopen(file.get(), name.c_str(), H5P_DEFAULT));
  if (!object.valid()) return false;
  AttributeId given;
  if (!attribute.empty()) {
    if (H5Aexists(object.get(), attribute.c_str()) <= 0) return false;
    given = AttributeId(H5Aopen(object.get(), attribute.c_str(), H5P_DEFAULT));
  } else if (H5Iget_type(object.get()) != H5I_DATASET) {
    return false;
  }
  const hid_t id = object.get();
  const Source from = {library, id, given.get(), field, what, path, name};
  TypeId type(given.valid() ? H5Aget_type(given.get()) : H5Dget_type(id));
  if (!field.empty()) {
    /* Of a field that is in memory only libhdf5 would read nothing, and say nothing. */
    const int member = H5Tget_class(type.get()) == H5T_COMPOUND ? H5Tget_member_index(type.get(), field.c_str()) : -1;
    if (member < 0) return false;
    type = TypeId(H5Tget_member_type(type.get(), static_cast<unsigned>(member)));
  }
  const SpaceId space(given.valid() ? H5Aget_space(given.get()) : H5Dget_space(id));
  const hssize_t count = H5Sget_simple_extent_npoints(space.get());
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (!type.valid() || count < 0 || rank < 0 || static_cast<std::uint64_t>(count) > most_values) {
    throw library.failed(what + " cannot be read", path, name);
  }
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank) + 1);
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  values->extents.assign(extents.begin(), extents.end() - 1);
  NumberType number;
  const std::size_t size = static_cast<std::size_t>(count);
  if (H5Tget_class(type.get()) == H5T_STRING) {
    read_strings(from, type.get(), space.get(), size, values);
  } else if ((given.valid() || !field.empty() ? number_type(type.get(), &number)
                                              : number_type_of(id, type.get(), &number)) &&
             !number.bits) {
    values->boolean = number.boolean;
    values->whole = size_of(number.type) < 4 || number.type == Type::i32;
    if (number.type == Type::f16) values->whole = false;
    read_numbers(from, type.get(), number.type, size, values);
  } else {
    throw failure(what + " holds neither strings nor numbers, but type " + type_word(type.get()), path, name);
  }
  return true;
}

}  // namespace h5
}  // namespace regatta
#endif
