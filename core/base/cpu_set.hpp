// CpuSet: CPUs by number, on machines of more than the 1024 that cpu_set_t ends at.
#pragma once

#include <sched.h>

#include <cstddef>
#include <vector>

namespace ddl {

class CpuSet {
 public:
  static constexpr int kMost = 8192;

  CpuSet() : bits_(CPU_ALLOC(kMost)) { CPU_ZERO_S(bytes(), bits_); }
  ~CpuSet() { CPU_FREE(bits_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  static std::size_t bytes() { return CPU_ALLOC_SIZE(kMost); }
  /// Those that the calling thread may use; false where the kernel does not tell.
  bool read() { return ::sched_getaffinity(0, bytes(), bits_) == 0; }
  /// It may use these alone from now on; false where the kernel refuses.
  bool apply() const { return ::sched_setaffinity(0, bytes(), bits_) == 0; }
  friend bool operator==(const CpuSet& a, const CpuSet& b) { return CPU_EQUAL_S(bytes(), a.bits_, b.bits_); }
  bool has(int cpu) const { return CPU_ISSET_S(cpu, bytes(), bits_); }
  void add(int cpu) { CPU_SET_S(cpu, bytes(), bits_); }

 private:
  cpu_set_t* bits_;
};

/// That the calling thread may use; none where the kernel does not tell.
inline std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  CpuSet set;
  if (!set.read()) return cpus;
  for (int cpu = 0; cpu < CpuSet::kMost; ++cpu)
    if (set.has(cpu)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace ddl
