#ifndef REGATTA_H5_DATASET_HPP
#define REGATTA_H5_DATASET_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "h5-decode.hpp"
#include "h5-library.hpp"

/* What a dataset of numbers is. */

namespace regatta {
namespace h5 {

/* The types that elements have in memory. */
enum class Type { i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64 };

std::size_t size_of(Type type);
inline bool is_whole(Type type) { return type < Type::f16; }
const char* name_of(Type type);
/* What libhdf5 calls it in memory. It has nothing for half a number: those it makes floats of. */
hid_t native_type(Type type);

struct NumberType {
  Type type;
  bool direct;  /* the bytes of the file are those of `type`, in one order or the other */
  bool swap;    /* in the other order */
  bool boolean; /* an enumeration of FALSE = 0 and TRUE = 1, or `coded` */
  bool coded;   /* R's logicals as rhdf5 writes them: whole numbers of 8 bits, of which one stands for NA */
  bool bits;    /* a bit field, which the library converts to nothing but another */
};

enum class Layout { compact, contiguous, chunked, virtual_ };

/* Facts about a dataset, copied from the file. Extents are in the file's order, the last index
   running fastest. */
struct Facts {
  std::string path, name;
  std::vector<std::uint64_t> extents;
  std::vector<std::uint64_t> chunk; /* empty: not chunked */
  NumberType number;
  Layout layout;
  bool external; /* its bytes are in other files */
  bool plain_edges; /* chunks that reach over the edge are stored without filters */
  std::vector<Filter> filters;
  std::vector<std::string> filter_names;
  std::uint64_t file_size, user_block; /* of the file that it was asked for in; of that it is in */
};

/* What an object of R was told of a dataset when it was made, from which it concludes how many elements there are,
   which are whose, and the type of R that holds them. */
struct Shape {
  std::vector<std::uint64_t> extents, chunk; /* as in Facts */
  std::string type;                          /* type_name() */
};

std::string type_name(const NumberType& number);

/* Throws a Failure that names both shapes if the dataset is not of this one any more. */
void check_shape(const Facts& facts, const Shape& before);

Facts read_facts(const Library& library, const FileId& file, const DatasetId& dataset,
                 const std::string& path, const std::string& name);
Facts read_facts(const std::string& path, const std::string& name);

/* How many bytes the elements take in the file. The library looks at each chunk's entry in its index for that. */
std::uint64_t stored_bytes(const std::string& path, const std::string& name);

/* The type of numbers; false if the elements are none. */
bool number_type(hid_t type, NumberType* number);

/* The same of a dataset, whose attributes may say that the numbers are logicals of R. */
bool number_type_of(hid_t dataset, hid_t type, NumberType* number);
const int missing_code = -128;

}  // namespace h5
}  // namespace regatta

#endif
