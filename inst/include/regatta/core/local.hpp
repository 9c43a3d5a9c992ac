#ifndef REGATTA_CORE_LOCAL_HPP
#define REGATTA_CORE_LOCAL_HPP

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN

// A value for each thread that asks for one: scratch memory, a generator, a partial sum. Lives and
// dies with the object, not with the threads, and stays where it was made.
//   PerThread<std::vector<double>> scratch([n] { return std::vector<double>(n); });
//   parallelFor(0, m, [&](int i) { use(scratch.local(), i); });
template <class T>
class PerThread {
 public:
  PerThread() : make_([](std::thread::id self) { return new Node(self); }) {}
  // With what make() returns. T needs no constructor that moves or copies where C++17 is used, nor
  // without `make` in any standard.
  template <class Make, class = decltype(T(std::declval<Make&>()()))>
  explicit PerThread(Make make)
      : make_([make](std::thread::id self) mutable { return new Node(self, make); }) {}

  ~PerThread() {
    for (Node* node = first_.load(std::memory_order_acquire); node;) {
      Node* const next = node->next;
      delete node;
      node = next;
    }
  }

  // The calling thread's value, made when it first asks.
  T& local() { return here()->value; }

  // A number for the calling thread, which has a value from now on: threads are numbered from 0, in
  // the order in which they first ask.
  std::size_t index() { return here()->index; }

  // How many threads have one. When no thread asks any more, all numbers are less than that.
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

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
    explicit Node(std::thread::id thread) : owner(thread), value() {}
    template <class Make>
    Node(std::thread::id thread, Make& make) : owner(thread), value(make()) {}
    Node* next = nullptr;
    const std::thread::id owner;
    std::size_t index = 0;
    T value;
    detail::Padding apart;
  };

  Node* here() {
    const std::thread::id self = std::this_thread::get_id();
    // acquire: pairs with the release below, so that the nodes are seen complete.
    for (Node* node = first_.load(std::memory_order_acquire); node; node = node->next) {
      if (node->owner == self) return node;
    }
    Node* const fresh = make_(self);
    fresh->index = size_.fetch_add(1, std::memory_order_relaxed);
    fresh->next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(fresh->next, fresh, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
    return fresh;
  }

  const std::function<Node*(std::thread::id)> make_;
  std::atomic<Node*> first_{nullptr};
  std::atomic<std::size_t> size_{0};  // relaxed: gives out numbers
};

REGATTA_NAMESPACE_END

#endif
