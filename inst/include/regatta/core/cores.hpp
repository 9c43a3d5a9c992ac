#ifndef REGATTA_CORE_CORES_HPP
#define REGATTA_CORE_CORES_HPP

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// More threads than this in one pool are taken for a mistake in a variable.
constexpr unsigned max_threads = 1024;

// A whole number from 1 in the environment variable, else 0.
inline unsigned env_count(const char* name) {
  const char* text = std::getenv(name);
  if (!text || !*text) return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 1) return 0;
  return static_cast<unsigned>(std::min<long>(value, max_threads));
}

// Lowers the number of threads to `wish`, of which 0 says nothing.
inline void limit(unsigned* threads, unsigned wish) {
  if (wish > 0 && wish < *threads) *threads = wish;
}

inline unsigned cores_affinity() {
#if defined(__linux__)
  // 65536 CPUs: the kernel refuses a mask shorter than its own.
  unsigned long mask[65536 / (8 * sizeof(unsigned long))] = {};
  if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask)) == 0) {
    unsigned count = 0;
    for (unsigned long bits : mask) {
      for (; bits; bits &= bits - 1) ++count;
    }
    if (count > 0) return count;
  }
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1U : static_cast<unsigned>(online);
}

// CPU time per period that the control group in this folder may use, in CPUs; 0 without a limit.
inline double group_quota(const std::string& folder, bool second) {
  double quota = 0.0, period = 0.0;
  if (second) {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return 0.0;
  } else {
    std::ifstream file(folder + "/cpu.cfs_quota_us"), every(folder + "/cpu.cfs_period_us");
    if (!(file >> quota) || !(every >> period)) return 0.0;
  }
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

// The tightest quota of the group `path` below `root` and of the groups around it.
inline unsigned quota_upward(const std::string& root, std::string path, bool second) {
  double tightest = 0.0;
  for (;;) {
    const double quota = group_quota(root + path, second);
    if (quota > 0.0 && (tightest <= 0.0 || quota < tightest)) tightest = quota;
    if (path.empty() || path == "/") break;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  if (tightest <= 0.0) return 0;
  return static_cast<unsigned>(std::max(1.0, std::min<double>(tightest + 0.5, max_threads)));
}

// The quota of the control groups of this process where they are usually mounted. A container
// sees its own group as the root, which the walk upwards ends at. Half a CPU counts as one.
inline unsigned cores_quota() {
  unsigned cores = max_threads;
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':'), last = line.find(':', first + 1);
    if (first == std::string::npos || last == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, last - first - 1) + ",";
    const std::string path = line.substr(last + 1);
    if (names == ",,") {
      limit(&cores, quota_upward("/sys/fs/cgroup", path, true));
    } else if (names.find(",cpu,") != std::string::npos) {
      limit(&cores, quota_upward("/sys/fs/cgroup/cpu", path, false));
    }
  }
  return cores;
}

// R CMD check allows no more than two where the variable is set and not "false".
inline unsigned cores_check() {
  const char* flag = std::getenv("_R_CHECK_LIMIT_CORES_");
  if (!flag || !*flag) return 0;
  std::string text(flag);
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text == "false" ? 0 : 2;
}

// The cores that this process may use: the fewest that any source names. In a worker of one of
// regatta's maps REGATTA_THREADS is the worker's share and alone decides.
inline unsigned count_cores(const Host& host) {
  const unsigned share = env_count("REGATTA_THREADS");
  if (share > 0) return share;
  unsigned cores = std::min(cores_affinity(), cores_quota());
  static const char* const variables[] = {"SLURM_CPUS_PER_TASK", "PBS_NUM_PPN",
                                          "LSB_DJOB_NUMPROC", "NSLOTS", "REGATTA_SHARE"};
  for (const char* variable : variables) limit(&cores, env_count(variable));
  limit(&cores, cores_check());
  if (host.threads) limit(&cores, host.threads());
  return std::max(1U, cores);
}

// The size of the pool of this process. Decided on first use and kept: a call changes no pool.
inline unsigned pool_size(Process& process) {
  const unsigned known = process.threads.load(std::memory_order_relaxed);
  if (REGATTA_LIKELY(known > 0)) return known;
  const bool main = process.on_main();
  Host host = process.host();
  if (!main) host.threads = nullptr;
  const unsigned fresh = process.forced_threads > 0 ? process.forced_threads : count_cores(host);
  process.threads.store(fresh, std::memory_order_relaxed);
  return fresh;
}

}  // namespace detail

// Threads that a loop uses unless it is told otherwise: those of the pool of this process.
inline std::size_t defaultThreads() { return detail::pool_size(detail::process()); }

// The cores this process may use, whatever the size of its pool.
inline std::size_t detectCores() {
  detail::Process& process = detail::process();
  Host host = process.host();
  if (!process.on_main()) host.threads = nullptr;
  return detail::count_cores(host);
}

REGATTA_NAMESPACE_END

#endif
