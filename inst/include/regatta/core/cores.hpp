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

REGATTA_COLD inline std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

// Names of hosts are compared without domain and without case.
REGATTA_COLD inline bool is_this_host(const std::string& name) {
  char buffer[256] = "";
  gethostname(buffer, sizeof buffer - 1);
  const std::string here(buffer);
  return lower_case(name.substr(0, name.find('.'))) == lower_case(here.substr(0, here.find('.')));
}

// Tasks of this Slurm step on this node, from a list such as "4(x2),3"; 1 outside of a step (a batch
// script's is no number) or if the list cannot be read.
REGATTA_COLD inline unsigned slurm_tasks_here() {
  std::string step = variable("SLURM_STEP_ID");
  if (step.empty()) step = variable("SLURM_STEPID");
  if (step.empty() || step.find_first_not_of("0123456789") != std::string::npos) return 1;
  long node = std::strtol(variable("SLURM_NODEID").c_str(), nullptr, 10);
  std::istringstream parts(variable("SLURM_STEP_TASKS_PER_NODE"));
  std::string part;
  unsigned here = 1;
  while (std::getline(parts, part, ',')) {
    unsigned tasks = 0, times = 1;
    int used = 0;
    if (std::sscanf(part.c_str(), "%6u%n(x%6u)%n", &tasks, &used, &times, &used) < 1 ||
        static_cast<std::size_t>(used) != part.size()) {
      return 1;
    }
    if (node >= 0 && node < static_cast<long>(times)) here = tasks;
    node -= static_cast<long>(times);
  }
  return std::max(1U, here);
}

// SLURM_CPUS_ON_NODE is for all tasks of the step on this node.
REGATTA_COLD inline unsigned cores_slurm() {
  if (!variable("SLURM_CPUS_PER_TASK").empty()) return env_count("SLURM_CPUS_PER_TASK");
  const unsigned cores = env_count("SLURM_CPUS_ON_NODE");
  return cores > 0 ? std::max(1U, cores / slurm_tasks_here()) : 0;
}

// The hosts of a job. Which slots are here counts where there are several, of which one is this.
struct JobHosts {
  REGATTA_COLD void add(const std::string& host, const std::string& slots) {
    ++hosts;
    if (!is_this_host(host)) return;
    ++here;
    slots_here = slots;
  }
  REGATTA_COLD unsigned count(const char* variable_of_all) const {
    return hosts > 1 && here == 1 ? count_in(slots_here) : env_count(variable_of_all);
  }
  int hosts = 0;
  int here = 0;
  std::string slots_here;
};

// LSB_MCPU_HOSTS is "host slots host slots ..."; LSB_DJOB_NUMPROC is their sum.
REGATTA_COLD inline unsigned cores_lsf() {
  const std::vector<std::string> words = words_of(variable("LSB_MCPU_HOSTS"));
  JobHosts job;
  for (std::size_t i = 0; i < words.size() && words.size() % 2 == 0; i += 2) job.add(words[i], words[i + 1]);
  return job.count("LSB_DJOB_NUMPROC");
}

// NSLOTS counts on all hosts; lines of the host file are "host slots queue processors".
REGATTA_COLD inline unsigned cores_sge() {
  std::ifstream file(variable("PE_HOSTFILE"));
  JobHosts job;
  std::string line;
  while (!variable("NSLOTS").empty() && std::getline(file, line)) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() >= 2) job.add(words[0], words[1]);
  }
  return job.count("NSLOTS");
}

// R CMD check allows no more than two where the variable is set and not "false".
REGATTA_COLD inline unsigned cores_check() {
  const std::string flag = lower_case(variable("_R_CHECK_LIMIT_CORES_"));
  return flag.empty() || flag == "false" ? 0 : 2;
}

// The cores that this process may use: the fewest that any source names, read as R's
// workers_available() reads them. In a worker of one of regatta's maps REGATTA_THREADS is the
// worker's share and alone decides.
REGATTA_COLD inline unsigned count_cores(Process& process) {
  const unsigned share = env_count("REGATTA_THREADS");
  if (share > 0) return share;
  const bool asks_host = process.on_main() && process.host().threads;
  unsigned cores = std::min(cores_affinity(), max_threads);
  for (unsigned most : {cores_quota(), cores_slurm(), first_count({"PBS_NUM_PPN", "NCPUS"}), cores_lsf(),
                        cores_sge(), env_count("REGATTA_SHARE"), cores_check(),
                        asks_host ? process.host().threads() : 0U}) {
    if (most > 0) cores = std::min(cores, most);
  }
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
