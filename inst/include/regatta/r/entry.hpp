#ifndef REGATTA_R_ENTRY_HPP
#define REGATTA_R_ENTRY_HPP

#include <csetjmp>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "../core/failure.hpp"
#include "../core/process.hpp"
#include "api.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// R wants to leave by longjmp: thrown where callR() stopped it, so that destructors run, and
// resumed by entry().
struct REGATTA_SHARED RUnwind {
  SEXP token;
};

// One for the whole session: an R error that is on its way ends before the next can begin.
inline SEXP unwind_token() {
  static SEXP token = nullptr;
  if (!token) {
    token = R_MakeUnwindCont();
    R_PreserveObject(token);
  }
  return token;
}

template <class F>
struct RCall {
  F* f;
  SEXP (*run)(F& f);
  static SEXP enter(void* data) {
    RCall& self = *static_cast<RCall*>(data);
    return self.run(*self.f);
  }
};

inline void leave_r(void* data, Rboolean jump) {
  if (jump == TRUE) std::longjmp(*static_cast<std::jmp_buf*>(data), 1);
}

enum class EntryEnd { value, error, interrupt, unwind };

// Runs the body and says how it ended, so that nothing is left to destroy when R is told.
template <class Body>
EntryEnd run_entry(Body& body, SEXP* value, char* message, std::size_t size) {
  try {
    *value = body();
    return EntryEnd::value;
  } catch (const RUnwind& unwind) {
    *value = unwind.token;
    return EntryEnd::unwind;
  } catch (const UserInterruptException&) {
    return EntryEnd::interrupt;
  } catch (const std::exception& error) {
    std::strncpy(message, error.what(), size - 1);
  } catch (...) {
    std::strncpy(message, "an exception was thrown that is no std::exception", size - 1);
  }
  message[size - 1] = '\0';
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
// inside leaves it as an exception, which entry() turns back into what it was. f itself is skipped over by a longjmp: it must own nothing that has to be destroyed.
template <class F>
SEXP callR(F&& f) {
  if (!onMainThread()) {
    throw Error("R was called on a thread that is not R's own: take what a loop needs from R "
                "before it starts");
  }
  using Plain = typename std::remove_reference<F>::type;
  detail::RCall<Plain> call = {&f, [](Plain& g) -> SEXP { return g(); }};
  SEXP token = detail::unwind_token();
  std::jmp_buf home;
  if (setjmp(home)) throw detail::RUnwind{token};
  SEXP value = R_UnwindProtect(&detail::RCall<Plain>::enter, &call, &detail::leave_r, &home, token);
  // Else the token would keep the value alive.
  SETCAR(token, R_NilValue);
  return value;
}

// The body of a .Call entry, which returns a SEXP: a C++ exception becomes an R error, a
// UserInterruptException an interrupt, and what callR() has caught goes on.
template <class Body>
SEXP entry(Body&& body) {
  SEXP value = R_NilValue;
  char message[1024];
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
