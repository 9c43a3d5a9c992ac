#include <dirent.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz.hpp"

/* Runs inputs that are kept, without a fuzzer: replay FOLDER ... Each must be one that can be read, or be called
   damaged-. */
int main(int count, char** arguments) {
  std::size_t done = 0;
  for (int k = 1; k < count; ++k) {
    const std::string folder = arguments[k];
    DIR* const open = opendir(folder.c_str());
    must(open != nullptr, "the folder of inputs is there");
    std::vector<std::string> names;
    while (const dirent* const entry = readdir(open)) {
      if (entry->d_name[0] != '.') names.push_back(entry->d_name);
    }
    closedir(open);
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
      std::ifstream file(folder + "/" + name, std::ios::binary);
      const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      std::fprintf(stderr, "%s ... ", name.c_str()); /* the last one is what ended the process */
      const std::size_t before = inputs_read();
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      const bool is_damaged = name.compare(0, 8, "damaged-") == 0;
      must(inputs_read() == before + (is_damaged ? 0 : 1), is_damaged ? "nothing can be read" : "the input can be read");
      std::fprintf(stderr, "ok\n");
      ++done;
    }
  }
  must(done > 0, "there are inputs");
  std::fprintf(stderr, "%zu inputs, 0 failed\n", done);
  return 0;
}
