#ifndef REGATTA_REGATTA_HPP
#define REGATTA_REGATTA_HPP

// Threads beside R: loops, pools and threads that print, throw and answer interrupts. Everything
// of R may be called on R's own thread only; see vignette("threads", "regatta").
#include "core.hpp"
#include "r/entry.hpp"
#include "r/host.hpp"
#include "r/views.hpp"
// Last, since it renames what the others use.
#include "compat/override.hpp"

#endif
