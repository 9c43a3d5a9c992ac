#ifndef REGATTA_TESTS_FUZZ_HPP
#define REGATTA_TESTS_FUZZ_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

/* What libFuzzer calls, and replay.cpp does. */
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/* Ends the process: that is what a fuzzer notices. */
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/* How many inputs held something that could be read. */
inline std::size_t& inputs_read() {
  static std::size_t count = 0;
  return count;
}

/* An input, byte by byte; zeros when it is over. */
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}
  unsigned byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  unsigned two() {
    const unsigned low = byte();
    return low | byte() << 8;
  }
  const std::uint8_t* rest() const { return at_; }
  std::size_t left() const { return left_; }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

#endif
