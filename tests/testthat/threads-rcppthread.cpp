// As packages written for RcppThread look, with all names that those on CRAN use.
#include <RcppThread/Rcout.hpp>
#include <RcppThread.h>
#include <RcppThread/Progress.hpp>

#include <cmath>
#include <sstream>
#include <vector>

namespace {

class DelayedBar : public RcppThread::ProgressPrinter {
 public:
  DelayedBar(std::size_t numIt, std::size_t printEvery) : ProgressPrinter(numIt, printEvery) {}

 private:
  void printProgress() override {
    if (isDone_) return;
    if (it_ == numIt_) isDone_ = true;
    const std::chrono::duration<float> since = std::chrono::steady_clock::now() - startTime_;
    std::ostringstream message;
    message << "\rat " << std::round(100.0 * it_ / numIt_) << ": " << progressString();
    if (since.count() >= 0.0f) RcppThread::Rcout << message.str();
  }
};

static RcppThread::RPrinter own_printer = RcppThread::RPrinter();
static RcppThread::RErrPrinter own_errors;

}  // namespace

extern "C" SEXP progress(SEXP n) {
  return regatta::entry([=] {
    const int count = Rf_asInteger(n);
    DelayedBar bar(static_cast<std::size_t>(count), 1);
    RcppThread::parallelFor(0, count, [&](int) { bar++; });
    DelayedBar other(1, 1);
    const bool before = ++other == 1;
    return Rf_ScalarLogical(before);
  });
}

extern "C" SEXP all_names() {
  return regatta::entry([] {
    using namespace RcppThread;
    std::atomic<int> sum(0);
    ThreadPool pool(2);
    for (int i = 0; i < 10; ++i) pool.push([&sum](int k) { sum += k; }, i);
    auto later = pool.pushReturn([] { return 5; });
    pool.wait();
    sum += later.get();
    std::vector<int> items(10, 1);
    pool.map([&sum](int k) { sum += k; }, items);
    pool.parallelFor(0, 10, [&sum](int) { ++sum; });
    pool.parallelForEach(items, [&sum](int k) { sum += k; });
    pool.join();
    RcppThread::parallelForEach(items, [&sum](int k) { sum += k; }, 2);
    RcppThread::Thread thread([&] {
      RcppThread::checkUserInterrupt(sum < 0);
      if (!RcppThread::isInterrupted()) own_printer << "printed by " << 1 << " thread" << std::endl;
    });
    thread.join();
    RcppThread::ProgressCounter counter(3, 10, "Counting: ");
    for (int i = 0; i < 3; ++i) counter++;
    own_errors << "errors" << std::endl;
    try {
      throw RcppThread::UserInterruptException();
    } catch (const RcppThread::UserInterruptException& caught) {
      RcppThread::Rcout << caught.what() << std::endl;
    }
    return Rf_ScalarInteger(sum);
  });
}
