#ifndef REGATTA_H5_LIST_HPP
#define REGATTA_H5_LIST_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "h5-dataset.hpp"

namespace regatta {
namespace h5 {

/* One thing in a file. */
struct Item {
  std::string name, kind, type, target, filters;
  std::vector<std::uint64_t> extents, chunk;
  std::vector<std::string> fields; /* of a compound type */
};

/* Everything below `group`, in the order of names, without following links to other places. */
std::vector<Item> list_items(const std::string& path, const std::string& group);

/* All elements of a dataset of rank 0 or 1, or of an attribute: strings or numbers. Whole numbers are strings of their
   digits if one of them is no double. */
struct Values {
  bool strings;
  bool boolean;
  bool whole; /* values that R's integers hold */
  std::vector<std::string> text;
  std::vector<double> numbers;
  std::vector<std::uint64_t> extents;
};

/* `attribute` "": the dataset itself, or, if `field` is not "", that field of its compound elements. Returns false if
   there is no such thing. */
bool read_values(const std::string& path, const std::string& name, const std::string& attribute,
                 const std::string& field, Values* values);

/* The type of elements in a word: "int32", "string", "compound". */
std::string type_word(hid_t type);

}  // namespace h5
}  // namespace regatta

#endif
