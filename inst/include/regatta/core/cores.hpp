#ifndef REGATTA_CORE_CORES_HPP
#define REGATTA_CORE_CORES_HPP

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "cgroup.hpp"
#include "process.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// More threads than this in one pool are taken for a mistake in a variable.
constexpr unsigned max_threads = 1024;

// A whole number from 1, however it is written, else 0.
REGATTA_COLD inline unsigned count_in(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || text.find_first_not_of(" \t\n", static_cast<std::size_t>(
                                 end - text.c_str())) != std::string::npos) {
    return 0;
  }
  if (!(value >= 1.0) || value != std::floor(value)) return 0;
  return static_cast<unsigned>(std::min<double>(value, max_threads));
}

REGATTA_COLD inline std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

REGATTA_COLD inline unsigned env_count(const char* name) { return count_in(variable(name)); }

// The first of the variables that is set, be it a number or not.
REGATTA_COLD inline unsigned first_count(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string text = variable(name);
    if (!text.empty()) return count_in(text);
  }
  return 0;
}

// Lowers the number of threads to `wish`, of which 0 says nothing.
inline void limit(unsigned* threads, unsigned wish) {
  if (wish > 0 && wish < *threads) *threads = wish;
}

REGATTA_COLD inline unsigned cores_affinity() {
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

// Half a CPU counts as one.
REGATTA_COLD inline unsigned cores_quota() {
  const double quota = cpu_quota();
  if (quota <= 0.0) return 0;
  return static_cast<unsigned>(std::max(1.0, std::min<double>(quota + 0.5, max_threads)));
}

REGATTA_COLD inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return std::vector<std::string>(std::istream_iterator<std::string>(stream),
                                  std::istream_iterator<std::string>());
}

// Names of hosts are compared without domain and without case.
REGATTA_COLD inline bool is_this_host(std::string name) {
  char here[256] = "";
  gethostname(here, sizeof here - 1);
  const auto plain = [](std::string host) {
    host = host.substr(0, host.find('.'));
    for (char& letter : host) {
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return host;
  };
  return plain(std::move(name)) == plain(here);
}

// Tasks of this Slurm step on this node, from a list such as "4(x2),3"; 1 outside of a step (a batch
// script's is no number) or if the list cannot be read.
REGATTA_COLD inline unsigned slurm_tasks_here() {
  std::string step = variable("SLURM_STEP_ID");
  if (step.empty()) step = variable("SLURM_STEPID");
  if (step.empty() || step.find_first_not_of("0123456789") != std::string::npos) return 1;
  const std::string node_text = variable("SLURM_NODEID");
  const long node = node_text.empty() ? 0 : std::strtol(node_text.c_str(), nullptr, 10);
  std::istringstream parts(variable("SLURM_STEP_TASKS_PER_NODE"));
  std::string part;
  long before = 0;
  unsigned here = 1;
  bool found = false;
  while (std::getline(parts, part, ',')) {
    unsigned tasks = 0, times = 1;
    int used = 0;
    if (std::sscanf(part.c_str(), "%6u%n(x%6u)%n", &tasks, &used, &times, &used) < 1 ||
        static_cast<std::size_t>(used) != part.size()) {
      return 1;
    }
    before += static_cast<long>(times);
    if (!found && node < before) {
      here = tasks;
      found = true;
    }
  }
  return std::max(1U, here);
}

// SLURM_CPUS_ON_NODE is for all tasks of the step on this node.
REGATTA_COLD inline unsigned cores_slurm() {
  if (!variable("SLURM_CPUS_PER_TASK").empty()) return env_count("SLURM_CPUS_PER_TASK");
  const unsigned cores = env_count("SLURM_CPUS_ON_NODE");
  return cores > 0 ? std::max(1U, cores / slurm_tasks_here()) : 0;
}

// LSB_MCPU_HOSTS is "host slots host slots ..."; LSB_DJOB_NUMPROC is their sum.
REGATTA_COLD inline unsigned cores_lsf() {
  const std::vector<std::string> words = words_of(variable("LSB_MCPU_HOSTS"));
  if (words.size() >= 4 && words.size() % 2 == 0) {
    std::string slots;
    int here = 0;
    for (std::size_t i = 0; i < words.size(); i += 2) {
      if (!is_this_host(words[i])) continue;
      slots = words[i + 1];
      ++here;
    }
    if (here == 1) return count_in(slots);
  }
  return env_count("LSB_DJOB_NUMPROC");
}

// NSLOTS counts on all hosts; lines of the host file are "host slots queue processors".
REGATTA_COLD inline unsigned cores_sge() {
  std::ifstream file(variable("PE_HOSTFILE"));
  if (!variable("NSLOTS").empty() && file) {
    std::string line, slots;
    int lines = 0, here = 0;
    while (std::getline(file, line)) {
      const std::vector<std::string> words = words_of(line);
      if (words.size() < 2) continue;
      ++lines;
      if (!is_this_host(words[0])) continue;
      slots = words[1];
      ++here;
    }
    if (lines > 1 && here == 1) return count_in(slots);
  }
  return env_count("NSLOTS");
}

// R CMD check allows no more than two where the variable is set and not "false".
REGATTA_COLD inline unsigned cores_check() {
  const char* flag = std::getenv("_R_CHECK_LIMIT_CORES_");
  if (!flag || !*flag) return 0;
  std::string text(flag);
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text == "false" ? 0 : 2;
}

// The cores that this process may use: the fewest that any source names, read as R's
// workers_available() reads them. In a worker of one of regatta's maps REGATTA_THREADS is the
// worker's share and alone decides.
REGATTA_COLD inline unsigned count_cores(Process& process) {
  const unsigned share = env_count("REGATTA_THREADS");
  if (share > 0) return share;
  unsigned cores = std::min(cores_affinity(), max_threads);
  limit(&cores, cores_quota());
  limit(&cores, cores_slurm());
  limit(&cores, first_count({"PBS_NUM_PPN", "NCPUS"}));
  limit(&cores, cores_lsf());
  limit(&cores, cores_sge());
  limit(&cores, env_count("REGATTA_SHARE"));
  limit(&cores, cores_check());
  if (process.on_main() && process.host().threads) limit(&cores, process.host().threads());
  return std::max(1U, cores);
}

// The size of the pool of this process. Decided on first use and kept: a call changes no pool.
inline unsigned pool_size(Process& process) {
  const unsigned known = process.threads.load(std::memory_order_relaxed);
  if (REGATTA_LIKELY(known > 0)) return known;
  const unsigned fresh = process.forced_threads > 0 ? process.forced_threads : count_cores(process);
  process.threads.store(fresh, std::memory_order_relaxed);
  return fresh;
}

}  // namespace detail

// Threads that a loop uses unless it is told otherwise: those of the pool of this process.
inline std::size_t defaultThreads() { return detail::pool_size(detail::process()); }

// The cores this process may use, whatever the size of its pool.
inline std::size_t detectCores() { return detail::count_cores(detail::process()); }

REGATTA_NAMESPACE_END

#endif
