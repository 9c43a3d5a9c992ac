#ifndef REGATTA_COMPAT_THREAD_HPP
#define REGATTA_COMPAT_THREAD_HPP

#include <chrono>
#include <future>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "../core/slot.hpp"
#include "../core/invoke.hpp"

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
  explicit Thread(F&& f, Args&&... args)
      : process_(&detail::process()), interrupts_(detail::interrupts_before(*process_)) {
    start(detail::bind_call(std::forward<F>(f), std::forward<Args>(args)...));
  }

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
      detach();
    } else {
      wait_for_end();
      thread_.join();
    }
  }

  void swap(Thread& other) noexcept {
    thread_.swap(other.thread_);
    std::swap(end_, other.end_);
    std::swap(process_, other.process_);
    std::swap(interrupts_, other.interrupts_);
  }

  bool joinable() const noexcept { return thread_.joinable(); }

  // Throws what the thread has thrown, or UserInterruptException when it has ended.
  void join() {
    if (!thread_.joinable()) throw std::system_error(std::make_error_code(std::errc::invalid_argument));
    if (of_parent()) {
      detach();
      stop("a Thread started before a fork was joined in the child, which does not have it: join it in "
           "the parent");
    }
    wait_for_end();
    thread_.join();
    if (process_->on_main()) detail::print_now(*process_);
    try {
      end_.get();
    } catch (...) {
      detail::throw_error(*process_, std::current_exception());
    }
    if (process_->interrupts() != interrupts_) detail::throw_interrupt(*process_);
  }

  void detach() {
    if (!joinable() || !of_parent()) {
      thread_.detach();
    } else {
      // The system knows nothing of it here, and it is not to be destroyed unjoined.
      typename std::aligned_storage<sizeof(std::thread), alignof(std::thread)>::type grave;
      static_cast<void>(new (&grave) std::thread(std::move(thread_)));
    }
    end_ = std::future<void>();
  }

  id get_id() const noexcept { return thread_.get_id(); }
  native_handle_type native_handle() { return thread_.native_handle(); }
  static unsigned hardware_concurrency() noexcept { return std::thread::hardware_concurrency(); }

 private:
  template <class Call>
  void start(Call call) {
    std::promise<void> end;
    end_ = end.get_future();
    detail::SignalsBlocked blocked;
    thread_ = std::thread(&Thread::run<Call>, process_, interrupts_, std::move(end), std::move(call));
  }

  // What the thread has is used where it is: to move it once more may throw, which would end the program.
  template <class Call>
  static void run(detail::Process* process, std::uint32_t interrupts, std::promise<void>&& end, Call&& call) {
    std::exception_ptr error;
    try {
      detail::Context context(*process, nullptr, nullptr, nullptr);
      context.interrupts = interrupts;
      const detail::FrameScope scope(nullptr, nullptr, context);
      call();
    } catch (...) {
      error = std::current_exception();
    }
    if (error) {
      end.set_exception(std::move(error));
    } else {
      end.set_value();
    }
  }

  // A forked child has no such thread.
  bool of_parent() const { return process_ != &detail::process(); }

  // An interrupt reaches the thread when it checks for one.
  void wait_for_end() {
    if (!process_->on_main()) return;
    const std::chrono::microseconds period(static_cast<long>(detail::poll_us));
    while (end_.wait_for(period) != std::future_status::ready) {
      if (detail::poll_host(*process_)) process_->count_interrupt();
    }
  }

  std::thread thread_;
  std::future<void> end_;
  detail::Process* process_ = nullptr;
  std::uint32_t interrupts_ = 0;  // before it was started
};

inline void swap(Thread& a, Thread& b) noexcept { a.swap(b); }

REGATTA_NAMESPACE_END

#endif
