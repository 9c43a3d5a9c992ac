#include "part.h"

#include <regatta/core.hpp>

namespace {

template <class Work>
End end_of(const Work& work) {
  try {
    work();
    return complete;
  } catch (const regatta::UserInterruptException&) {
    return interrupted;
  } catch (const regatta::Error&) {
    return failed_with_error;
  } catch (const std::exception&) {
    return failed;
  } catch (...) {
    return other_end;
  }
}

const void* process() { return &regatta::detail::process(); }

void set_interrupted(bool (*interrupted)()) {
  regatta::set_host(regatta::Host{interrupted, nullptr, nullptr, nullptr});
}

void open_loop(int n, Body body, void* data) {
  regatta::parallelFor(0, n, [=](int i) { body(data, i); });
}

End loop(int n, Body body, void* data) {
  return end_of([=] { open_loop(n, body, data); });
}

void push(int n, Body body, void* data) {
  for (int i = 0; i < n; ++i) regatta::push([=] { body(data, i); });
}

End wait() {
  return end_of([] { regatta::wait(); });
}

void cancel() { regatta::ThreadPool::globalInstance().cancel(); }

End tasks(int n, Body body, void* data) {
  return end_of([=] {
    push(n, body, data);
    regatta::wait();
  });
}

bool cancelled(int n, int at, Body body, void* data) {
  regatta::Cancellation token;
  std::atomic<int> ran(0);
  regatta::parallelFor(0, n, [&](int i) {
    body(data, i);
    ran.fetch_add(1);
    if (i == at) token.request();
  }, token);
  return ran.load() < n;
}

void fail(End how) {
  switch (how) {
    case failed: throw std::runtime_error("on purpose");
    case failed_with_error: regatta::stop("on purpose");
    case interrupted: throw regatta::UserInterruptException();
    default: throw 1;
  }
}

const Part part = {REGATTA_TEXT(REGATTA_ABI(v)), process, set_interrupted, loop, tasks, cancelled,
                   open_loop, fail, push, wait, cancel};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Part* regatta_test_part();
extern "C" const Part* regatta_test_part() { return &part; }
