#ifndef REGATTA_TESTS_HOST_HPP
#define REGATTA_TESTS_HOST_HPP

#include <atomic>
#include <mutex>
#include <string>

// A host without R: interrupts are a flag, and what is printed is kept.
namespace fake_host {

extern std::atomic<bool> interrupt;       // taken by the next poll
extern std::atomic<int> polls;
extern std::atomic<int> wrong_thread;     // calls that were not made on the main thread
extern std::atomic<int> posted_again;

void install();

// What has been printed since the last call, on either stream.
std::string printed();

}  // namespace fake_host

#endif
