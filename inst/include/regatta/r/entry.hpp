#ifndef REGATTA_R_ENTRY_HPP
#define REGATTA_R_ENTRY_HPP

#include <atomic>
#include <csetjmp>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>

#include "../core/failure.hpp"
#include "../core/process.hpp"
#include "api.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// Where R notes how to go on with a jump that callR() has stopped. It belongs to one callR(), and
// then to the exception that carries the jump on until the last copy of that is gone: a destructor
// that calls R on the way must not write into it. Copies may end on any thread, where R cannot be
// called, so that a token is never given back to R but used again.
struct UnwindToken {
  SEXP cell;
  std::atomic<bool> taken;
  UnwindToken* next;
};

using TokenOwner = std::shared_ptr<UnwindToken>;

inline void make_cell(void* cell) {
  SEXP made = R_MakeUnwindCont();
  R_PreserveObject(made);
  *static_cast<SEXP*>(cell) = made;
}

// On the main thread. There are as many as were ever needed at a time: by calls of callR() inside
// each other, and by jumps that wait.
inline TokenOwner take_token() {
  static UnwindToken* first = nullptr;
  UnwindToken* token = first;
  // acquire and release: who takes the token has seen its last user leave it.
  while (token && token->taken.load(std::memory_order_acquire)) token = token->next;
  if (!token) {
    SEXP cell = nullptr;
    if (R_ToplevelExec(make_cell, &cell) == FALSE) throw std::bad_alloc();
    token = new UnwindToken{cell, {false}, first};
    first = token;
  }
  token->taken.store(true, std::memory_order_relaxed);
  return TokenOwner(token, [](UnwindToken* used) {
    used->taken.store(false, std::memory_order_release);
  });
}

// R wants to leave by longjmp: thrown where callR() stopped it, so that destructors run, and
// resumed by entry().
struct REGATTA_SHARED RUnwind {
  TokenOwner token;
};

// What R's error handling hands to tryCatch(): condition (NULL: the message is in a buffer of R's),
// call, handler, and R's own mark, a list of one NULL. With a jump to top level comes nothing at all.
inline bool is_handler_result(SEXP list) {
  if (!list || TYPEOF(list) != VECSXP || Rf_xlength(list) != 4) return false;
  if (!Rf_isFunction(VECTOR_ELT(list, 2))) return false;
  SEXP mark = VECTOR_ELT(list, 3);
  return TYPEOF(mark) == VECSXP && Rf_xlength(mark) == 1 && VECTOR_ELT(mark, 0) == R_NilValue;
}

// tryCatch() gives R one list to put any condition into: an error that a destructor swallows would
// put its own there. And for an error of stop() the message is in one buffer of the session, which
// R saves before it runs an on.exit(). So the list is copied, with the message, when it passes by.
inline void keep_condition(void* data) {
  SEXP cell = static_cast<SEXP>(data);
  SEXP list = CAR(cell);
  if (!is_handler_result(list)) return;
  SEXP copy = PROTECT(Rf_shallow_duplicate(list));
  if (VECTOR_ELT(copy, 0) == R_NilValue) {
    SEXP call = PROTECT(Rf_lang1(Rf_install("geterrmessage")));
    SET_VECTOR_ELT(copy, 0, Rf_eval(call, R_BaseEnv));
    UNPROTECT(1);
  }
  SETCAR(cell, copy);
  UNPROTECT(1);
}

// What callR() hands to R. No exception may pass through R's frames, so that of f() is kept until
// they are gone.
template <class F>
struct RCall {
  F* f;
  UnwindToken* token;
  std::jmp_buf home;
  std::exception_ptr thrown;

  static SEXP enter(void* data) {
    RCall& self = *static_cast<RCall*>(data);
    try {
      return (*self.f)();
    } catch (...) {
      self.thrown = std::current_exception();
    }
    return R_NilValue;
  }
  static void leave(void* data, Rboolean jump) {
    if (jump == TRUE) std::longjmp(static_cast<RCall*>(data)->home, 1);
  }
  // False if R wants to leave. Nothing here has a destructor that the jump would skip.
  static bool run(RCall& self, SEXP* value) {
    if (setjmp(self.home)) return false;
    *value = R_UnwindProtect(&enter, &self, &leave, &self, self.token->cell);
    return true;
  }
};

enum class EntryEnd { value, error, interrupt, unwind };

// Runs the body and says how it ended, so that nothing is left to destroy when R is told.
template <class Body>
EntryEnd run_entry(Body& body, SEXP* value, char* message, std::size_t size) {
  try {
    *value = body();
    return EntryEnd::value;
  } catch (const RUnwind& unwind) {
    *value = unwind.token->cell;
    return EntryEnd::unwind;
  } catch (const UserInterruptException&) {
    return EntryEnd::interrupt;
  } catch (const std::exception& error) {
    std::strncpy(message, error.what(), size - 1);
  } catch (...) {
    std::strncpy(message, "an exception was thrown that is no std::exception", size - 1);
  }
  return EntryEnd::error;
}

// As if the user had interrupted R code: an "interrupt" condition, then the top level.
[[noreturn]] inline void signal_interrupt() {
  const char* const code =
      "base::signalCondition(base::structure(base::list(message = \"\", call = NULL), "
      "class = c(\"interrupt\", \"condition\")))";
  const char* const end = "base::invokeRestart(\"abort\")";
  for (const char* text : {code, end}) {
    SEXP source = PROTECT(Rf_mkString(text));
    SEXP parse = PROTECT(Rf_lang2(Rf_install("str2lang"), source));
    SEXP call = PROTECT(Rf_eval(parse, R_BaseEnv));
    Rf_eval(call, R_BaseEnv);
    UNPROTECT(3);
  }
  Rf_error("interrupted by the user");
}

}  // namespace detail

// Calls f(), which returns a SEXP and may use R's API, on the main thread: an R error or interrupt
// inside leaves it as an exception, which entry() turns back into what it was. f itself is skipped
// over by a longjmp: where it calls R it must own nothing that has to be destroyed. What it throws
// comes out of callR().
template <class F>
SEXP callR(F&& f) {
  if (!onMainThread()) {
    throw Error("R was called on a thread that is not R's own: take what a loop needs from R "
                "before it starts");
  }
  using Call = detail::RCall<typename std::remove_reference<F>::type>;
  const detail::TokenOwner token = detail::take_token();
  Call call = {&f, token.get(), {}, nullptr};
  SEXP value = R_NilValue;
  if (!Call::run(call, &value)) {
    R_ToplevelExec(detail::keep_condition, token->cell);
    throw detail::RUnwind{token};
  }
  // Else the token would keep the value alive.
  SETCAR(token->cell, R_NilValue);
  if (call.thrown) std::rethrow_exception(call.thrown);
  return value;
}

// The body of a .Call entry, which returns a SEXP: a C++ exception becomes an R error, a
// UserInterruptException an interrupt, and what callR() has caught goes on.
template <class Body>
SEXP entry(Body&& body) {
  SEXP value = R_NilValue;
  // As much as R takes, which cuts it where its option warning.length says.
  char message[8192] = "";
  switch (detail::run_entry(body, &value, message, sizeof message)) {
    case detail::EntryEnd::value:
      return value;
    case detail::EntryEnd::unwind:
      R_ContinueUnwind(value);
    case detail::EntryEnd::interrupt:
      detail::signal_interrupt();
    case detail::EntryEnd::error:
      break;
  }
  Rf_error("%s", message);
}

REGATTA_NAMESPACE_END

#endif
