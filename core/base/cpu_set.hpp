// CpuSet: CPUs by number, on machines of more than the 1024 that cpu_set_t ends at.
#pragma once

#include <sched.h>

#include <cstddef>

namespace ddl {

class CpuSet {
 public:
  static constexpr int kMost = 8192;

  CpuSet() : bits_(CPU_ALLOC(kMost)) { CPU_ZERO_S(bytes(), bits_); }
  ~CpuSet() { CPU_FREE(bits_); }
  CpuSet(const CpuSet&) = delete;
  CpuSet& operator=(const CpuSet&) = delete;
  static std::size_t bytes() { return CPU_ALLOC_SIZE(kMost); }
  cpu_set_t* bits() { return bits_; }
  bool has(int cpu) const { return CPU_ISSET_S(cpu, bytes(), bits_); }
  void add(int cpu) { CPU_SET_S(cpu, bytes(), bits_); }

 private:
  cpu_set_t* bits_;
};

}  // namespace ddl
