// What T. Nagler, "R-Friendly Multi-Threading in C++", JSS Code Snippets 97 (2021), shows its
// readers how to do, section by section, with code of our own under the names of the paper.

// [[Rcpp::depends(regatta)]]
// [[Rcpp::plugins(cpp11)]]
#include <regatta/regatta.hpp>

#include <Rcpp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace RcppThread = regatta;

// Section 2.1: looking for an interrupt is safe from a thread that is not R's.
// [[Rcpp::export]]
bool check_from_plain_thread() {
  bool interrupted = true;
  std::thread thread([&interrupted] {
    RcppThread::checkUserInterrupt();
    RcppThread::checkUserInterrupt(false);
    interrupted = RcppThread::isInterrupted();
  });
  thread.join();
  return interrupted;
}

// Section 2.2: two plain threads print, and an empty print from R's thread lets it all out.
// [[Rcpp::export]]
void print_from_plain_threads(int lines) {
  auto job = [lines](const char* who) {
    for (int i = 0; i < lines; ++i) RcppThread::Rcout << "line of " << who << std::endl;
  };
  std::thread first(job, "first");
  std::thread second(job, "second");
  first.join();
  second.join();
  RcppThread::Rcout << "";
}

// Section 3.1: threads that take an argument, print, and are joined.
// [[Rcpp::export]]
void print_from_threads() {
  using namespace RcppThread;
  auto job = [](int id) {
    Rcout << "thread " << id << " begins" << std::endl;
    checkUserInterrupt();
    Rcout << "thread " << id << " ends" << std::endl;
  };
  Thread first(job, 1);
  Thread second(job, 2);
  first.join();
  second.join();
}

// Sections 3.1 and 3.2: the threads go on until join() notices the interrupt, which one of them
// asks for once both are running. Without one they give up after 30 s.
// [[Rcpp::export]]
void run_until_interrupted() {
  std::atomic<int> running(0);
  auto job = [&running] {
    if (++running == 2) kill(getpid(), SIGINT);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
      RcppThread::checkUserInterrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  RcppThread::Thread first(job);
  RcppThread::Thread second(job);
  first.join();
  second.join();
}

// Section 4.1: jobs with an argument; no workers means that they run in the caller.
// [[Rcpp::export]]
std::vector<int> fill_by_push(int size, int workers) {
  RcppThread::ThreadPool pool(workers);
  std::vector<int> x(size);
  auto task = [&x](unsigned int i) { x[i] = static_cast<int>(i); };
  for (unsigned int i = 0; i < x.size(); ++i) pool.push(task, i);
  pool.join();
  return x;
}

// [[Rcpp::export]]
bool stays_in_caller() {
  RcppThread::ThreadPool pool(0);
  const std::thread::id caller = std::this_thread::get_id();
  bool same = false;
  pool.push([caller, &same] { same = std::this_thread::get_id() == caller; });
  pool.join();
  return same;
}

// Section 4.1: jobs that return a value.
// [[Rcpp::export]]
std::vector<double> halve_by_futures(int size) {
  RcppThread::ThreadPool pool;
  std::vector<std::future<double>> futures(size);
  for (int i = 0; i < size; ++i) {
    futures[i] = pool.pushReturn([](int value) { return value / 2.0; }, i);
  }
  std::vector<double> results;
  for (auto& future : futures) results.push_back(future.get());
  pool.join();
  return results;
}

// Section 4.1: wait() between two batches of jobs of one pool, the second reading the first.
// [[Rcpp::export]]
std::vector<double> reuse_pool(int size) {
  RcppThread::ThreadPool pool(2);
  std::vector<double> x(size), y(size);
  for (int i = 0; i < size; ++i) pool.push([&x, i] { x[i] = i; });
  pool.wait();
  for (int i = 0; i < size; ++i) pool.push([&x, &y, i] { y[i] = x[x.size() - 1 - i]; });
  pool.wait();
  pool.join();
  return y;
}

// Section 4.2: the free loops with their defaults, with a number of threads, and of batches.
// [[Rcpp::export]]
std::vector<int> fill_by_loop(int size) {
  std::vector<int> x(size);
  RcppThread::parallelFor(0, x.size(), [&x](unsigned int i) { x[i] += static_cast<int>(i); });
  RcppThread::parallelFor(0, x.size(), [&x](unsigned int i) { x[i] += 1; }, 2);
  RcppThread::parallelFor(0, x.size(), [&x](unsigned int i) { x[i] += 1; }, 2, 20);
  return x;
}

// [[Rcpp::export]]
std::vector<int> double_each(std::vector<int> x) {
  RcppThread::parallelForEach(x, [](int& value) { value *= 2; });
  RcppThread::parallelForEach(x, [](int& value) { value *= 2; }, 2);
  RcppThread::parallelForEach(x, [](int& value) { value *= 2; }, 2, 20);
  return x;
}

// Section 4.2: the loops as members of a pool, one after the other.
// [[Rcpp::export]]
std::vector<int> loops_of_pool(std::vector<int> x) {
  RcppThread::ThreadPool pool;
  pool.parallelForEach(x, [](int& value) { value += 1; });
  pool.wait();
  pool.parallelFor(0, x.size(), [&x](int i) { x[i] *= 2; });
  pool.join();
  return x;
}

// Section 4.2: nested loops of one pool. The index of the outer one is copied.
// [[Rcpp::export]]
double nested_loops(int rows, int columns) {
  RcppThread::ThreadPool pool;
  std::vector<std::vector<double>> x(rows, std::vector<double>(columns, 1.0));
  pool.parallelFor(0, x.size(), [&](int i) {
    pool.parallelFor(0, x[i].size(), [&, i](int j) { x[i][j] *= 2; });
  });
  pool.join();
  double sum = 0.0;
  for (const auto& row : x) sum += std::accumulate(row.begin(), row.end(), 0.0);
  return sum;
}

// An exception of a loop's body reaches the caller, and so R.
// [[Rcpp::export]]
void throw_from_loop() {
  RcppThread::parallelFor(0, 100, [](int i) {
    if (i == 42) throw std::runtime_error("index 42 is not wanted");
  });
}
