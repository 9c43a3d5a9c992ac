#ifndef REGATTA_CORE_THREAD_HPP
#define REGATTA_CORE_THREAD_HPP

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "helper.hpp"
#include "invoke.hpp"

REGATTA_NAMESPACE_BEGIN

// std::thread, except that join() lets the main thread answer its host while it waits, and throws
// what the thread has thrown.
class Thread {
 public:
  using id = std::thread::id;
  using native_handle_type = std::thread::native_handle_type;

  Thread() noexcept {}

  template <class F, class... Args,
            class = typename std::enable_if<
                !std::is_same<typename std::decay<F>::type, Thread>::value>::type>
  explicit Thread(F&& f, Args&&... args) {
    using Call = detail::BoundTo<F, Args...>;
    std::shared_ptr<End> end = std::make_shared<End>();
    start(std::move(end),
          detail::bind_call(std::forward<F>(f), std::forward<Args>(args)...),
          static_cast<Call*>(nullptr));
  }

  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  Thread(Thread&& other) noexcept { swap(other); }
  // As for the destructor, an unfinished thread is waited for.
  Thread& operator=(Thread&& other) noexcept {
    Thread moved(std::move(other));
    swap(moved);
    return *this;
  }

  // Waits for the thread, where std::thread would end the program: a loop that starts several
  // threads may be left by an exception. What the thread throws is lost then.
  ~Thread() {
    if (!thread_.joinable()) return;
    // Nor can a thread that has called exit() wait for itself.
    if (of_parent() || thread_.get_id() == std::this_thread::get_id()) {
      forget();
      return;
    }
    wait_for_end();
    thread_.join();
  }

  void swap(Thread& other) noexcept {
    thread_.swap(other.thread_);
    end_.swap(other.end_);
  }

  bool joinable() const noexcept { return thread_.joinable(); }

  // Throws what the thread has thrown, or UserInterruptException when it has ended.
  void join() {
    if (!thread_.joinable()) throw std::system_error(std::make_error_code(std::errc::invalid_argument));
    if (of_parent()) {
      forget();
      stop("a Thread started before a fork was joined in the child, which does not have it: join it in "
           "the parent");
    }
    wait_for_end();
    thread_.join();
    const std::shared_ptr<End> end = std::move(end_);
    detail::Process& now = end->process;
    if (now.on_main()) detail::print_now(now);
    if (end->error) detail::throw_error(now, end->error);
    if (now.interrupts() != end->interrupts) detail::throw_interrupt(now);
  }

  void detach() {
    if (joinable() && of_parent()) {
      forget();
      return;
    }
    thread_.detach();
    end_.reset();
  }

  id get_id() const noexcept { return thread_.get_id(); }
  native_handle_type native_handle() { return thread_.native_handle(); }
  static unsigned hardware_concurrency() noexcept { return std::thread::hardware_concurrency(); }

 private:
  struct End {
    End()
        : process(detail::process()), interrupts(detail::interrupts_before(process)),
          reached(false) {}
    void reach() {
      std::lock_guard<std::mutex> lock(mutex);
      reached = true;
      bell.notify_all();
    }
    detail::Process& process;
    const std::uint32_t interrupts;
    std::mutex mutex;
    std::condition_variable bell;
    bool reached;
    std::exception_ptr error;  // read after join()
  };

  template <class Given, class Call>
  void start(std::shared_ptr<End> end, Given&& call, Call*) {
    end_ = end;
    end->process.live_begin();
    try {
      detail::SignalsBlocked blocked;
      thread_ = std::thread(&Thread::run<Call>, end, std::forward<Given>(call));
    } catch (...) {
      end->process.live_end();
      throw;
    }
  }

  template <class Call>
  static void run(std::shared_ptr<End> end, Call call) {
    try {
      detail::Context context(end->process, nullptr, nullptr, nullptr);
      context.interrupts = end->interrupts;
      const detail::FrameScope scope(detail::Frame{nullptr, nullptr, &context, nullptr, nullptr},
                                     end->process);
      call();
    } catch (...) {
      end->error = std::current_exception();
    }
    end->process.live_end();
    end->reach();
  }

  // A forked child has no such thread.
  bool of_parent() const { return &end_->process != &detail::process(); }

  // Where the thread cannot be waited for: std::thread may not be destroyed unjoined.
  void forget() {
    static_cast<void>(new std::thread(std::move(thread_)));
    end_.reset();
  }

  // An interrupt reaches the thread when it checks for one.
  void wait_for_end() {
    detail::Process& now = end_->process;
    if (!now.on_main()) return;
    const std::chrono::microseconds period(static_cast<long>(detail::poll_us));
    std::unique_lock<std::mutex> lock(end_->mutex);
    while (!end_->bell.wait_for(lock, period, [this] { return end_->reached; })) {
      lock.unlock();
      detail::poll_if_due(now, detail::poll_us + 1.0);
      lock.lock();
    }
  }

  std::thread thread_;
  std::shared_ptr<End> end_;
};

inline void swap(Thread& a, Thread& b) noexcept { a.swap(b); }

REGATTA_NAMESPACE_END

#endif
