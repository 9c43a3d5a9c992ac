// A .Call function for each way of standing between R and R, with objects on every level.
#include <regatta/regatta.hpp>

#include <string>

namespace {

int alive = 0;
int swallowed = 0;

struct Counted {
  Counted() : memory(100, 'x') { ++alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --alive; }
  const std::string memory;
};

// Keeps what a body returns while the destructors of the body call R.
struct Protected {
  Protected() : cell(PROTECT(Rf_cons(R_NilValue, R_NilValue))) {}
  Protected(const Protected&) = delete;
  Protected& operator=(const Protected&) = delete;
  ~Protected() { UNPROTECT(1); }
  SEXP keep(SEXP value) const {
    SETCAR(cell, value);
    return value;
  }
  SEXP cell;
};

SEXP evaluate(SEXP function) {
  SEXP call = PROTECT(Rf_lang1(function));
  SEXP value = Rf_eval(call, R_GlobalEnv);
  UNPROTECT(1);
  return value;
}

// Calls R when it is destroyed, whatever passes just then.
struct Cleanup {
  explicit Cleanup(SEXP function) : function_(function) { ++alive; }
  Cleanup(const Cleanup&) = delete;
  Cleanup& operator=(const Cleanup&) = delete;
  ~Cleanup() {
    --alive;
    try {
      regatta::callR([this] { return evaluate(function_); });
    } catch (...) {
      ++swallowed;
    }
  }
  SEXP function_;
};

SEXP once(SEXP function) {
  return regatta::callR([&] { return evaluate(function); });
}

// R called in what is given to callR(), by callR() again.
SEXP twice(SEXP function) {
  const Counted outer;
  return regatta::callR([&] {
    return once(function);
  });
}

SEXP held_and_thrown_again(SEXP function) {
  try {
    const Counted outer;
    return once(function);
  } catch (...) {
    const Counted other;
    const std::exception_ptr kept = std::current_exception();
    // A second one begins and ends while the first waits.
    regatta::callR([] { return Rf_allocVector(VECSXP, 3); });
    std::rethrow_exception(kept);
  }
}

}  // namespace

extern "C" SEXP level(SEXP function, SEXP cleanup, SEXP how) {
  return regatta::entry([=]() -> SEXP {
    const Counted first;
    const Protected kept;
    const Cleanup end(cleanup);
    const Counted second;
    switch (Rf_asInteger(how)) {
      case 1: return kept.keep(once(function));
      case 2: return kept.keep(twice(function));
      default: return kept.keep(held_and_thrown_again(function));
    }
  });
}

extern "C" SEXP throws(SEXP kind, SEXP cleanup) {
  return regatta::entry([=]() -> SEXP {
    const Counted first;
    const Protected kept;
    const Cleanup end(cleanup);
    return kept.keep(regatta::callR([&]() -> SEXP {
      const Counted inside;
      switch (Rf_asInteger(kind)) {
        case 1: throw std::runtime_error("thrown inside");
        case 2: throw 2;
        case 3: throw regatta::UserInterruptException();
        case 4: regatta::stop(std::string(3000, 'x') + " end");
        case 5: return regatta::callR([]() -> SEXP { throw std::runtime_error("thrown deeper"); });
        default: return Rf_ScalarInteger(7);
      }
    }));
  });
}

extern "C" SEXP counts() {
  SEXP value = PROTECT(Rf_allocVector(INTSXP, 2));
  INTEGER(value)[0] = alive;
  INTEGER(value)[1] = swallowed;
  UNPROTECT(1);
  return value;
}
