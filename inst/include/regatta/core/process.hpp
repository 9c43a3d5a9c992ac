#ifndef REGATTA_CORE_PROCESS_HPP
#define REGATTA_CORE_PROCESS_HPP

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "config.hpp"
#include "shared.hpp"

REGATTA_NAMESPACE_BEGIN

// What the program around the library offers. Each function is called on the main thread only,
// and a null one is skipped.
struct Host {
  // Whether the user asks to stop; a true answer uses the request up.
  bool (*interrupted)();
  // Makes a request that was used up pending again.
  void (*interrupt_again)();
  // Prints; false if the user asked to stop meanwhile. `stream` is 1 for output, 2 for errors.
  bool (*print)(int stream, const char* text, std::size_t size);
  // How many threads the host allows; 0: no opinion.
  unsigned (*threads)();
};

namespace detail {

// Knows whether this process is the one that made the object: a forked child has the memory, but
// none of the threads. The kernel zeroes the page in a child, so that asking is one load; where
// it cannot, the process number is compared, which is a system call.
class ForkDetector : NoCopy {
 public:
  ForkDetector() : word_(nullptr), pid_(getpid()) {
    const std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (!zero_in_children(page, size)) {
      munmap(page, size);
      return;
    }
    word_ = static_cast<volatile int*>(page);
    *word_ = 1;
  }

  bool in_child() const { return word_ ? *word_ == 0 : pid_ != getpid(); }

 private:
  static bool zero_in_children(void* page, std::size_t size) {
#if defined(MADV_WIPEONFORK)
    return madvise(page, size, MADV_WIPEONFORK) == 0;
#elif defined(VM_INHERIT_ZERO)
    return minherit(page, size, VM_INHERIT_ZERO) == 0;
#else
    (void)page;
    (void)size;
    return false;
#endif
  }

  volatile int* word_;
  pid_t pid_;
};

class Pool;

struct OutputPiece {
  int stream;
  std::string text;
};

// Text of any thread that waits for the main thread to print it.
class OutputQueue {
 public:
  void add(int stream, const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (pieces_.empty() || pieces_.back().stream != stream) {
      pieces_.push_back(OutputPiece{stream, std::string()});
    }
    pieces_.back().text += text;
    // relaxed: who sees it takes the mutex before it reads the text.
    waits_.store(true, std::memory_order_relaxed);
  }

  bool waits() const { return waits_.load(std::memory_order_relaxed); }

  std::vector<OutputPiece> take() {
    std::vector<OutputPiece> taken;
    std::lock_guard<std::mutex> lock(mutex_);
    taken.swap(pieces_);
    waits_.store(false, std::memory_order_relaxed);
    return taken;
  }

 private:
  std::mutex mutex_;
  std::vector<OutputPiece> pieces_;
  std::atomic<bool> waits_{false};
};

// Something whose threads may be at work.
struct ActiveWork {
  virtual ~ActiveWork() {}
  // Makes its threads look whether they are to go on.
  virtual void look_up() = 0;
};

// All state of the library in one process. It is never destroyed, since threads may use it until
// the process ends. A forked child makes its own, see process().
class REGATTA_SHARED Process {
 public:
  explicit Process(Process* parent)
      : ticks_per_us(parent ? parent->ticks_per_us : measure_ticks_per_us()), before_fork(parent),
        main_thread_(std::this_thread::get_id()) {
    set_host(parent ? parent->host() : Host());
    if (!parent) return;
    main_thread_.store(parent->main_thread_.load());
    forced_threads = parent->forced_threads;
  }

  bool in_child() const { return fork_.in_child(); }
  // relaxed: a thread finds its own number only where it has stored that itself.
  bool on_main() const {
    return std::this_thread::get_id() == main_thread_.load(std::memory_order_relaxed);
  }

  const double ticks_per_us;
  double us_between(Ticks then, Ticks now) const { return static_cast<double>(now - then) / ticks_per_us; }
  double us_since(Ticks then) const { return us_between(then, ticks_now()); }

  // For the thread that becomes the main one; others may be at work. Hosts before are kept, since one
  // of their functions may be running.
  void set_host(const Host& host) {
    main_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    hosts_.emplace_back(new Host(host));
    host_.store(hosts_.back().get(), std::memory_order_release);
  }
  const Host& host() const { return *host_.load(std::memory_order_acquire); }

  // Interrupts that the main thread has noticed so far. Work stops when the number is another than
  // when it began, so that no interrupt outlives what it was meant for.
  // relaxed: says "look when you can", and nothing else is read on the strength of it.
  std::uint32_t interrupts() const { return interrupts_.load(std::memory_order_relaxed); }
  void count_interrupt() {
    interrupts_.fetch_add(1, std::memory_order_relaxed);
    look_up();
  }
  // The program has begun to end: work ends as for an interrupt, and none begins in the background.
  bool ending() const { return ending_.load(std::memory_order_relaxed); }
  void begin_end() {
    ending_.store(true, std::memory_order_relaxed);
    count_interrupt();
  }
  // Of these, how many have been thrown on the main thread.
  std::uint32_t reported() const { return reported_.load(std::memory_order_relaxed); }
  void report_interrupts() { reported_.store(interrupts(), std::memory_order_relaxed); }

  // In a forked child, the state of its parent: kept reachable, for leak checkers, and never used.
  Process* const before_fork;

  // The main thread's own: when it last asked its host, whether it is just doing so, whether it has
  // printed a line without its end, and what a function of the host has thrown and nobody got.
  Ticks last_poll = 0;
  bool polling = false;
  bool line_open = false;
  std::exception_ptr host_error;

  // How often that has been called. acquire and release: who reads the number sees what it is for.
  std::uint32_t stops() const { return stops_.load(std::memory_order_acquire); }
  // After anything has been stored that ends work.
  void look_up() noexcept {
    stops_.fetch_add(1, std::memory_order_release);
    std::lock_guard<std::mutex> lock(active_mutex_);
    for (ActiveWork* one : active_) one->look_up();
  }
  void add_active(ActiveWork* one) {
    std::lock_guard<std::mutex> lock(active_mutex_);
    active_.push_back(one);
  }
  void remove_active(const ActiveWork* one) {
    std::lock_guard<std::mutex> lock(active_mutex_);
    active_.erase(std::remove(active_.begin(), active_.end(), one), active_.end());
  }

  OutputQueue output;

  // acquire and release: who reads the pointer reads the pool it points to.
  std::atomic<Pool*> pool{nullptr};
  std::mutex pool_mutex;

  // The size of the pool, 0 until it is known; and what set_default_threads() asked for.
  std::atomic<unsigned> threads{0};
  unsigned forced_threads = 0;

 private:
  std::atomic<std::thread::id> main_thread_;
  std::vector<std::unique_ptr<const Host>> hosts_;
  std::atomic<const Host*> host_{nullptr};  // the last; acquire and release: who reads it reads what is there
  ForkDetector fork_;
  std::atomic<std::uint32_t> interrupts_{0};
  std::atomic<std::uint32_t> reported_{0};
  std::atomic<std::uint32_t> stops_{1};
  std::atomic<bool> ending_{false};
  std::mutex active_mutex_;
  std::vector<ActiveWork*> active_;
};

// Where all libraries of one ABI find the state. The sizes are compared before anything else is
// believed: the same release may have been changed without a word.
struct ProcessRecord {
  std::uint32_t size;
  std::uint32_t process_size;
  std::atomic<Process*> process;
};

extern "C" REGATTA_SHARED inline void* REGATTA_ABI(regatta_process_)() {
  static ProcessRecord record = {sizeof(ProcessRecord), sizeof(Process), {nullptr}};
  return &record;
}

inline ProcessRecord& process_record() {
  auto* record = static_cast<ProcessRecord*>(
      shared_by<&REGATTA_ABI(regatta_process_)>(REGATTA_TEXT(REGATTA_ABI(regatta_process_))));
  if (record->size == sizeof(ProcessRecord) && record->process_size == sizeof(Process)) {
    return *record;
  }
  return *static_cast<ProcessRecord*>(REGATTA_ABI(regatta_process_)());
}

// What this library knows of it.
inline std::atomic<Process*>& process_slot() {
  static std::atomic<Process*> slot(nullptr);
  return slot;
}

REGATTA_NOINLINE inline Process& renew_process() {
  std::atomic<Process*>& shared = process_record().process;
  Process* now = shared.load(std::memory_order_acquire);
  if (!now || now->in_child()) {
    Process* const fresh = new Process(now);
    if (shared.compare_exchange_strong(now, fresh, std::memory_order_acq_rel)) {
      now = fresh;
    } else {
      delete fresh;
    }
  }
  process_slot().store(now, std::memory_order_release);
  return *now;
}

inline Process& process() {
  Process* now = process_slot().load(std::memory_order_acquire);
  if (REGATTA_LIKELY(now && !now->in_child())) return *now;
  return renew_process();
}

}  // namespace detail

// Tells the library what its host offers. The calling thread is the main thread from now on.
inline void set_host(const Host& host) { detail::process().set_host(host); }

// Whether the calling thread is the one that may talk to the host.
inline bool onMainThread() { return detail::process().on_main(); }

REGATTA_NAMESPACE_END

#endif
