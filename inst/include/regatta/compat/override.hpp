#ifndef REGATTA_COMPAT_OVERRIDE_HPP
#define REGATTA_COMPAT_OVERRIDE_HPP

// For code written for std::cout, std::cerr and std::thread: with REGATTA_OVERRIDE_COUT, _CERR or
// _THREAD (or RCPPTHREAD_OVERRIDE_...) defined to 1 before the first include, these names stand
// for Rcout, Rcerr and Thread from here on. What declares the originals is included before they
// are renamed.
#if (defined(REGATTA_OVERRIDE_COUT) && REGATTA_OVERRIDE_COUT) || \
    (defined(RCPPTHREAD_OVERRIDE_COUT) && RCPPTHREAD_OVERRIDE_COUT)
#define REGATTA_REPLACES_COUT 1
#endif
#if (defined(REGATTA_OVERRIDE_CERR) && REGATTA_OVERRIDE_CERR) || \
    (defined(RCPPTHREAD_OVERRIDE_CERR) && RCPPTHREAD_OVERRIDE_CERR)
#define REGATTA_REPLACES_CERR 1
#endif
#if (defined(REGATTA_OVERRIDE_THREAD) && REGATTA_OVERRIDE_THREAD) || \
    (defined(RCPPTHREAD_OVERRIDE_THREAD) && RCPPTHREAD_OVERRIDE_THREAD)
#define REGATTA_REPLACES_THREAD 1
#endif

#if defined(REGATTA_REPLACES_COUT) || defined(REGATTA_REPLACES_CERR)
#include <iostream>
namespace std {
using ::regatta::Rcerr;
using ::regatta::Rcout;
}
#endif

#ifdef REGATTA_REPLACES_COUT
#define cout Rcout
#endif
#ifdef REGATTA_REPLACES_CERR
#define cerr Rcerr
#endif

#ifdef REGATTA_REPLACES_THREAD
#include <future>
#include <thread>
namespace std {
using RegattaThread = ::regatta::Thread;
}
#define thread RegattaThread
#endif

#endif
