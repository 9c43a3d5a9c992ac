#include <cstdlib>
#include <regatta/core.hpp>

#include "check.hpp"

namespace {

class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    was_set_ = before != nullptr;
    if (before) before_ = before;
    setenv(name, value, 1);
  }
  ~Variable() {
    if (was_set_) {
      setenv(name_, before_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  bool was_set_;
  std::string before_;
};

}  // namespace

TEST(the_share_of_a_worker_decides) {
  const Variable share("REGATTA_THREADS", "7");
  CHECK(regatta::detectCores() == 7);
  regatta::set_default_threads(0);
  CHECK(regatta::defaultThreads() == 7);
  regatta::set_default_threads(4);
}

TEST(variables_lower_the_number_of_cores) {
  const Variable none("REGATTA_THREADS", "");
  CHECK(regatta::detectCores() >= 1);
  {
    const Variable nonsense("SLURM_CPUS_PER_TASK", "many");
    CHECK(regatta::detectCores() >= 1);
  }
  const Variable slurm("SLURM_CPUS_PER_TASK", "1");
  CHECK(regatta::detectCores() == 1);
}

TEST(r_cmd_check_allows_two) {
  const Variable none("REGATTA_THREADS", "");
  const Variable checks("_R_CHECK_LIMIT_CORES_", "TRUE");
  CHECK(regatta::detectCores() <= 2);
  CHECK(regatta::detail::cores_check() == 2);
  const Variable off("_R_CHECK_LIMIT_CORES_", "False");
  CHECK(regatta::detail::cores_check() == 0);
}

TEST(idle_threads_use_no_cpu) {
  regatta::parallelFor(0, 1000000, [](int i) { __asm__ volatile("" : : "r"(i)); });
  // After the last loop a worker spins and watches for a while, less and less often.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                      1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  CHECK(used < 0.05 * check::slowness);
}
