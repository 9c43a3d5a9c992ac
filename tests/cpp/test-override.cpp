#define REGATTA_OVERRIDE_COUT 1
#define RCPPTHREAD_OVERRIDE_CERR 1
#define RCPPTHREAD_OVERRIDE_THREAD 1
#include <regatta/core.hpp>
#include <regatta/compat/override.hpp>

#include <iostream>
#include <vector>

#include "check.hpp"
#include "host.hpp"

namespace RcppThread = regatta;

TEST(standard_names_can_be_replaced) {
  fake_host::printed();
  std::vector<std::thread> threads;
  threads.emplace_back([] { std::cout << "out" << std::endl; });
  threads.emplace_back([] { std::cerr << "err" << std::endl; });
  for (std::thread& thread : threads) thread.join();
  const std::string text = fake_host::printed();
  CHECK(text == "out\nerr\n" || text == "err\nout\n");
  RcppThread::Rcout << "own name\n";
  CHECK(fake_host::printed() == "own name\n");
}
