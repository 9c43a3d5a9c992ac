#ifndef REGATTA_CORE_HPP
#define REGATTA_CORE_HPP

// Everything that needs no R: for programs and tests that stand alone.
#include "core/algorithms.hpp"
#include "core/local.hpp"
#include "core/matrix.hpp"
#include "core/output.hpp"
#include "core/pipeline.hpp"
#include "core/progress.hpp"
#include "compat/thread.hpp"
#include "core/task_group.hpp"
#include "core/thread_pool.hpp"
#ifndef REGATTA_REGATTA_HPP
#include "core/plain.hpp"
#endif

#endif
