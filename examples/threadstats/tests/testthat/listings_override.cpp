// Section 5.3 of the paper: existing C++ code that prints to std::cout and starts a std::thread is
// ported by two macros set before the header.

// [[Rcpp::depends(regatta)]]
// [[Rcpp::plugins(cpp11)]]
#include <iostream>
#include <thread>

#define RCPPTHREAD_OVERRIDE_COUT 1
#define RCPPTHREAD_OVERRIDE_THREAD 1
#include <regatta/regatta.hpp>

#include <type_traits>

// [[Rcpp::export]]
bool ported_code() {
  std::thread thread([] { std::cout << "printed by ported code" << std::endl; });
  thread.join();
  return std::is_same<std::thread, regatta::Thread>::value;
}
