#ifndef REGATTA_COMPAT_OVERRIDE_HPP
#define REGATTA_COMPAT_OVERRIDE_HPP

// For code written for std::cout, std::cerr and std::thread: with REGATTA_OVERRIDE_COUT, _CERR or
// _THREAD (or RCPPTHREAD_OVERRIDE_...) defined to 1 before the first include, these names stand
// for Rcout, Rcerr and Thread from here on. What declares the originals is included before they
// are renamed.
#if REGATTA_OVERRIDE_COUT || RCPPTHREAD_OVERRIDE_COUT
#include <iostream>
namespace std {
using ::regatta::Rcout;
}
#define cout Rcout
#endif

#if REGATTA_OVERRIDE_CERR || RCPPTHREAD_OVERRIDE_CERR
#include <iostream>
namespace std {
using ::regatta::Rcerr;
}
#define cerr Rcerr
#endif

#if REGATTA_OVERRIDE_THREAD || RCPPTHREAD_OVERRIDE_THREAD
#include <future>
#include <thread>
namespace std {
using RegattaThread = ::regatta::Thread;
}
#define thread RegattaThread
#endif

#endif
