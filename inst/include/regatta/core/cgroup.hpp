#ifndef REGATTA_CORE_CGROUP_HPP
#define REGATTA_CORE_CGROUP_HPP

#include <fstream>
#include <sstream>
#include <string>

#include "config.hpp"

REGATTA_NAMESPACE_BEGIN
namespace detail {

// A control group's hierarchy of one version: where it is mounted, and which group of it this process
// is in. Found as the package's own C code finds it, from /proc/self/mountinfo.
struct Hierarchy {
  std::string group;     // as /proc/self/cgroup says, "" if the version is not in use
  std::string folder;    // of the best mount so far, "" if there is none
  std::string rest;      // what the group's path is below the mount
  std::size_t rank = 0;  // of the mount, the less the better
};

REGATTA_COLD inline bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Lines "number:controllers:path", for version 2 "0::path".
REGATTA_COLD inline void find_groups(const std::string& root, Hierarchy* both) {
  std::ifstream lines(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const bool unified = names.empty() && line.compare(0, 2, "0:") == 0;
    if (unified || has_word(names, "cpu")) both[unified].group = line.substr(second + 1);
  }
}

// Blanks and their kind are written as three octal digits there.
REGATTA_COLD inline std::string unescaped(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Of several mounts the one with the shortest top shows most of the groups around this one. Where none
// has this group below it (a namespace made elsewhere), the top is all that can be seen.
REGATTA_COLD inline void consider_mount(const std::string& root, const std::string& top,
                                        const std::string& mounted_at, Hierarchy& one) {
  const std::string& group = one.group;
  const std::size_t length = top == "/" ? 0 : top.size();
  const bool inside = group.compare(0, length, top, 0, length) == 0 &&
                      (group.size() == length || group[length] == '/');
  const std::size_t rank = inside ? top.size() : std::string::npos;
  if (group.empty() || (!one.folder.empty() && rank >= one.rank)) return;
  one.rank = rank;
  one.folder = root + mounted_at;
  one.rest = inside && group != "/" ? group.substr(length) : "";
}

// Lines "id parent device top point options ... - type source options".
REGATTA_COLD inline void find_mounts(const std::string& root, Hierarchy* both) {
  std::ifstream lines(root + "/proc/self/mountinfo");
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t dash = line.find(" - cgroup");
    if (dash == std::string::npos) continue;
    std::istringstream front(line.substr(0, dash)), back(line.substr(dash + 3));
    std::string skip, top, mounted_at, type, source, options;
    if (!(front >> skip >> skip >> skip >> top >> mounted_at) || !(back >> type)) continue;
    back >> source >> options;
    const bool unified = type == "cgroup2";
    if (!unified && !has_word(options, "cpu")) continue;
    consider_mount(root, unescaped(top), unescaped(mounted_at), both[unified]);
  }
}

// CPU time per period that the group in this folder may use, in CPUs; 0 without a limit.
REGATTA_COLD inline double group_quota(const std::string& folder, bool unified) {
  double quota = 0.0, period = 0.0;
  if (unified) {
    std::ifstream file(folder + "/cpu.max");
    if (!(file >> quota >> period)) return 0.0;
  } else {
    std::ifstream file(folder + "/cpu.cfs_quota_us"), every(folder + "/cpu.cfs_period_us");
    if (!(file >> quota) || !(every >> period)) return 0.0;
  }
  return quota > 0.0 && period > 0.0 ? quota / period : 0.0;
}

// The tightest quota of this process's groups and those around them, in CPUs; 0 without one. `root` is a
// folder that stands for the machine's /.
REGATTA_COLD inline double cpu_quota(const std::string& root = std::string()) {
  Hierarchy both[2];
  find_groups(root, both);
  find_mounts(root, both);
  double tightest = 0.0;
  for (int unified = 0; unified < 2; ++unified) {
    const Hierarchy& one = both[unified];
    if (one.folder.empty()) continue;
    std::string rest = one.rest;
    for (;;) {
      const double quota = group_quota(one.folder + rest, unified == 1);
      if (quota > 0.0 && (tightest <= 0.0 || quota < tightest)) tightest = quota;
      if (rest.find('/') == std::string::npos) break;
      rest.resize(rest.rfind('/'));
    }
  }
  return tightest;
}

}  // namespace detail
REGATTA_NAMESPACE_END

#endif
