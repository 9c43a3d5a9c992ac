#ifdef REGATTA_WITH_HDF5
#include "h5-dataset.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace regatta {
namespace h5 {

std::size_t size_of(Type type) {
  switch (type) {
    case Type::i8:
    case Type::u8: return 1;
    case Type::i16:
    case Type::u16:
    case Type::f16: return 2;
    case Type::i32:
    case Type::u32:
    case Type::f32: return 4;
    default: return 8;
  }
}

const char* name_of(Type type) {
  static const char* const names[] = {"int8",   "uint8", "int16",  "uint16",  "int32",  "uint32",
                                      "int64", "uint64", "float16", "float32", "float64"};
  return names[static_cast<int>(type)];
}

hid_t native_type(Type type) {
  switch (type) {
    case Type::i8: return H5T_NATIVE_INT8;
    case Type::u8: return H5T_NATIVE_UINT8;
    case Type::i16: return H5T_NATIVE_INT16;
    case Type::u16: return H5T_NATIVE_UINT16;
    case Type::i32: return H5T_NATIVE_INT32;
    case Type::u32: return H5T_NATIVE_UINT32;
    case Type::i64: return H5T_NATIVE_INT64;
    case Type::u64: return H5T_NATIVE_UINT64;
    case Type::f64: return H5T_NATIVE_DOUBLE;
    default: return H5T_NATIVE_FLOAT;
  }
}

namespace {

bool native_order(H5T_order_t order) {
  const std::uint16_t one = 1;
  unsigned char first;
  std::memcpy(&first, &one, 1);
  return order == (first == 1 ? H5T_ORDER_LE : H5T_ORDER_BE);
}

Type integer_of(std::size_t size, bool is_signed) {
  if (size <= 1) return is_signed ? Type::i8 : Type::u8;
  if (size <= 2) return is_signed ? Type::i16 : Type::u16;
  if (size <= 4) return is_signed ? Type::i32 : Type::u32;
  return is_signed ? Type::i64 : Type::u64;
}

bool integer_type(hid_t type, bool bits, NumberType* number) {
  const std::size_t size = H5Tget_size(type);
  if (size < 1 || size > 8) return false;
  const bool is_signed = !bits && H5Tget_sign(type) == H5T_SGN_2;
  number->type = integer_of(size, is_signed);
  number->bits = bits;
  const H5T_order_t order = H5Tget_order(type);
  number->direct = size == size_of(number->type) && H5Tget_precision(type) == 8 * size &&
                   H5Tget_offset(type) == 0 &&
                   (size == 1 || order == H5T_ORDER_LE || order == H5T_ORDER_BE);
  number->swap = size > 1 && !native_order(order);
  return true;
}

bool is_half(hid_t type) {
  std::size_t sign, exponent, exponent_size, mantissa, mantissa_size;
  return H5Tget_size(type) == 2 && H5Tget_precision(type) == 16 &&
         H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) >= 0 &&
         sign == 15 && exponent == 10 && exponent_size == 5 && mantissa == 0 &&
         mantissa_size == 10 && H5Tget_ebias(type) == 15 && H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

bool float_type(hid_t type, NumberType* number) {
  const bool single = H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F32BE) > 0;
  const bool wide = H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0;
  const H5T_order_t order = H5Tget_order(type);
  const bool half = is_half(type) && (order == H5T_ORDER_LE || order == H5T_ORDER_BE);
  number->direct = single || wide || half;
  number->swap = !native_order(order);
  if (half) {
    number->type = Type::f16;
  } else {
    number->type = H5Tget_size(type) <= 4 ? Type::f32 : Type::f64;
  }
  return true;
}

bool is_boolean(hid_t type) {
  if (H5Tget_nmembers(type) != 2) return false;
  const TypeId base(H5Tget_super(type));
  if (H5Tget_size(base.get()) != 1) return false;
  for (unsigned i = 0; i < 2; ++i) {
    unsigned char value[8] = {};
    char* const name = H5Tget_member_name(type, i);
    const bool read = name && H5Tget_member_value(type, i, value) >= 0;
    const bool fits = read && value[0] < 2 && std::strcmp(name, value[0] ? "TRUE" : "FALSE") == 0;
    if (name) H5free_memory(name);
    if (!fits) return false;
  }
  return true;
}

const char* class_words(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_STRING: return "strings";
    case H5T_COMPOUND: return "records of several fields (compound)";
    case H5T_REFERENCE: return "references";
    case H5T_VLEN: return "vectors of variable length";
    case H5T_ARRAY: return "arrays";
    case H5T_OPAQUE: return "opaque bytes";
    case H5T_TIME: return "times";
    default: return "elements of an unknown class";
  }
}

void read_filters(const ListId& list, Facts* facts) {
  const int count = H5Pget_nfilters(list.get());
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0, values[32] = {};
    std::size_t size = 32;
    char name[128] = "";
    const H5Z_filter_t id = H5Pget_filter2(list.get(), static_cast<unsigned>(i), &flags, &size, values,
                                           sizeof name, name, &config);
    if (id < 0) continue;
    if (size > 32) size = 32;
    facts->filters.push_back(Filter{static_cast<int>(id), std::vector<unsigned>(values, values + size)});
    const char* const known = filter_name(static_cast<int>(id));
    facts->filter_names.push_back(*known ? known : *name ? name : "filter " + std::to_string(id));
  }
}

}  // namespace

bool number_type(hid_t type, NumberType* number) {
  *number = NumberType{Type::f64, false, false, false, false, false};
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return integer_type(type, false, number);
    case H5T_BITFIELD: return integer_type(type, true, number);
    case H5T_FLOAT: return float_type(type, number);
    case H5T_ENUM: {
      const TypeId base(H5Tget_super(type));
      /* In a damaged file the sizes may differ: libhdf5 copies values of this one. */
      const bool fine = base.valid() && H5Tget_size(type) == H5Tget_size(base.get()) &&
                        integer_type(base.get(), false, number);
      number->boolean = fine && is_boolean(type);
      return fine;
    }
    default: return false;
  }
}

bool number_type_of(hid_t dataset, hid_t type, NumberType* number) {
  if (!number_type(type, number)) return false;
  const char* const mode = "storage.mode";
  if (number->type != Type::i8 || number->boolean || H5Tget_class(type) != H5T_INTEGER ||
      H5Aexists(dataset, mode) <= 0) {
    return true;
  }
  const AttributeId attribute(H5Aopen(dataset, mode, H5P_DEFAULT));
  const TypeId text(H5Aget_type(attribute.get()));
  const SpaceId space(H5Aget_space(attribute.get()));
  char word[64] = "";
  if (!text.valid() || H5Tget_class(text.get()) != H5T_STRING || H5Tis_variable_str(text.get()) != 0 ||
      H5Tget_size(text.get()) >= sizeof word || H5Sget_simple_extent_npoints(space.get()) != 1 ||
      H5Aread(attribute.get(), text.get(), word) < 0) {
    return true;
  }
  number->boolean = number->coded = std::strcmp(word, "logical") == 0;
  /* libhdf5 converts to numbers that have room for R's NA. */
  if (number->coded) number->direct = false;
  return true;
}

std::string type_name(const NumberType& number) { return number.boolean ? "boolean" : name_of(number.type); }

namespace {

/* In R's order, the fastest index first. */
std::string extents_words(const std::vector<std::uint64_t>& extents) {
  std::string words;
  for (std::size_t k = extents.size(); k-- > 0;) words += std::to_string(extents[k]) + (k > 0 ? " x " : "");
  return words.empty() ? "a single value" : words;
}

std::string shape_words(const Shape& shape) {
  return extents_words(shape.extents) + " of " + shape.type +
         (shape.chunk.empty() ? " without chunks" : " in chunks of " + extents_words(shape.chunk));
}

}  // namespace

void check_shape(const Facts& facts, const Shape& before) {
  const Shape now = {facts.extents, facts.chunk, type_name(facts.number)};
  if (now.extents == before.extents && now.chunk == before.chunk && now.type == before.type) return;
  throw failure("the file has changed: " + place(facts.path, facts.name) + " is " + shape_words(now) + ", and was " +
                    shape_words(before) + " when the matrix was opened",
                facts.path, facts.name, "Open it again.");
}

Facts read_facts(const Library& library, const FileId& file, const DatasetId& dataset,
                 const std::string& path, const std::string& name) {
  Facts facts;
  facts.path = path;
  facts.name = name;
  const TypeId type(H5Dget_type(dataset.get()));
  if (!type.valid()) throw library.failed(place(path, name) + " cannot be read", path, name);
  if (!number_type_of(dataset.get(), type.get(), &facts.number)) {
    throw failure(place(path, name) + " holds " + class_words(H5Tget_class(type.get())) +
                      ", no numbers that R has a type for",
                  path, name);
  }
  const SpaceId space(H5Dget_space(dataset.get()));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0 || H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
    throw failure(place(path, name) + " has no elements (a null dataspace)", path, name);
  }
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank) + 1), chunk(extents.size());
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  facts.extents.assign(extents.begin(), extents.begin() + rank);
  const ListId list(H5Dget_create_plist(dataset.get()));
  if (!list.valid()) throw library.failed(place(path, name) + " cannot be read", path, name);
  switch (H5Pget_layout(list.get())) {
    case H5D_COMPACT: facts.layout = Layout::compact; break;
    case H5D_CONTIGUOUS: facts.layout = Layout::contiguous; break;
    case H5D_CHUNKED: facts.layout = Layout::chunked; break;
    case H5D_VIRTUAL: facts.layout = Layout::virtual_; break;
    default: throw failure(place(path, name) + " has a layout that is not known", path, name);
  }
  if (facts.layout == Layout::chunked) {
    if (H5Pget_chunk(list.get(), rank, chunk.data()) != rank) {
      throw failure(place(path, name) + " has chunks of another rank than its own", path, name);
    }
    facts.chunk.assign(chunk.begin(), chunk.begin() + rank);
    for (std::uint64_t extent : facts.chunk) {
      if (extent == 0) throw failure(place(path, name) + " has chunks without elements", path, name);
    }
    read_filters(list, &facts);
  }
  unsigned options = 0;
  facts.plain_edges = facts.layout == Layout::chunked && H5Pget_chunk_opts(list.get(), &options) >= 0 &&
                      (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  facts.external = H5Pget_external_count(list.get()) > 0;
  hsize_t size = 0;
  H5Fget_filesize(file.get(), &size);
  facts.file_size = size;
  const FileId home(H5Iget_file_id(dataset.get()));
  const ListId creation(H5Fget_create_plist(home.get()));
  hsize_t block = 0;
  H5Pget_userblock(creation.get(), &block);
  facts.user_block = block;
  return facts;
}

Facts read_facts(const std::string& path, const std::string& name) {
  const Library library;
  const FileId file = open_file(library, path);
  return read_facts(library, file, open_dataset(library, file, path, name), path, name);
}

std::uint64_t stored_bytes(const std::string& path, const std::string& name) {
  const Library library;
  const FileId file = open_file(library, path);
  return H5Dget_storage_size(open_dataset(library, file, path, name).get());
}

}  // namespace h5
}  // namespace regatta
#endif
