#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
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

TEST(quotas_of_control_groups_are_read_upwards) {
  char root[] = "/tmp/regatta-test-XXXXXX";
  CHECK(mkdtemp(root) != nullptr);
  const std::string top = std::string(root) + "/job", leaf = top + "/step";
  mkdir(top.c_str(), 0700);
  mkdir(leaf.c_str(), 0700);
  const auto write = [](const std::string& path, const char* text) { std::ofstream(path) << text; };
  write(leaf + "/cpu.max", "max 100000\n");
  CHECK(regatta::detail::quota_upward(root, "/job/step", true) == 0);
  write(top + "/cpu.max", "250000 100000\n");
  CHECK(regatta::detail::quota_upward(root, "/job/step", true) == 3);
  write(leaf + "/cpu.max", "20000 100000\n");
  CHECK(regatta::detail::quota_upward(root, "/job/step", true) == 1);
  write(leaf + "/cpu.cfs_quota_us", "-1\n");
  write(leaf + "/cpu.cfs_period_us", "100000\n");
  CHECK(regatta::detail::quota_upward(root, "/job/step", false) == 0);
  write(leaf + "/cpu.cfs_quota_us", "400000\n");
  CHECK(regatta::detail::quota_upward(root, "/job/step", false) == 4);
  for (const char* file : {"/job/step/cpu.max", "/job/step/cpu.cfs_quota_us",
                           "/job/step/cpu.cfs_period_us", "/job/cpu.max"}) {
    CHECK(unlink((std::string(root) + file).c_str()) == 0);
  }
  CHECK(rmdir(leaf.c_str()) == 0 && rmdir(top.c_str()) == 0 && rmdir(root) == 0);
}

TEST(idle_threads_use_no_cpu) {
  regatta::parallelFor(0, 1000000, [](int i) { __asm__ volatile("" : : "r"(i)); });
  // After the last loop a helper spins and watches for a while, less and less often.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used = static_cast<double>(after.tv_sec - before.tv_sec) +
                      1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  CHECK(used < 0.05 * check::slowness);
}
