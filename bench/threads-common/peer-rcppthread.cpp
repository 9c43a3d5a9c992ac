#include <RcppThread.h>

namespace api = RcppThread;

#include "same-names.hpp"

static const BenchRegistration registered(same_names_peer("RcppThread"));
