#ifndef REGATTA_CORE_LOCAL_HPP
#define REGATTA_CORE_LOCAL_HPP

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN

// A value for each thread that asks for one: scratch memory, a generator, a partial sum. Lives and
// dies with the object, not with the threads.
//   PerThread<std::vector<double>> scratch([n] { return std::vector<double>(n); });
//   parallelFor(0, m, [&](int i) { use(scratch.local(), i); });
template <class T>
class PerThread {
 public:
  PerThread() : make_([] { return T(); }), first_(nullptr) {}
  template <class Make, class = decltype(T(std::declval<Make&>()()))>
  explicit PerThread(Make make) : make_(std::move(make)), first_(nullptr) {}
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;

  ~PerThread() {
    for (Node* node = first_.load(std::memory_order_acquire); node;) {
      Node* const next = node->next;
      delete node;
      node = next;
    }
  }

  // The calling thread's value, made by the function given to the constructor when it first asks.
  T& local() {
    const std::thread::id self = std::this_thread::get_id();
    // acquire: pairs with the release below, so that the nodes are seen complete.
    for (Node* node = first_.load(std::memory_order_acquire); node; node = node->next) {
      if (node->owner == self) return node->value;
    }
    Node* const fresh = new Node(self, make_());
    fresh->next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(fresh->next, fresh, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
    return fresh->value;
  }

  // Calls f(value) for each value there is, when no thread uses them any more.
  template <class F>
  void forEach(F&& f) {
    for (Node* node = first_.load(std::memory_order_acquire); node; node = node->next) {
      f(node->value);
    }
  }

  // combine(...combine(init, value)...) over all values, in no particular order.
  template <class U, class Combine>
  U combine(U init, Combine&& combine) {
    forEach([&](const T& value) { init = combine(std::move(init), value); });
    return init;
  }

 private:
  struct Node {
    Node(std::thread::id thread, T&& with) : next(nullptr), owner(thread), value(std::move(with)) {}
    Node* next;
    const std::thread::id owner;
    T value;
    char apart[64];
  };

  const std::function<T()> make_;
  std::atomic<Node*> first_;
};

REGATTA_NAMESPACE_END

#endif
