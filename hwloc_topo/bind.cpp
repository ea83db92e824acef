#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"
#include "hwloc_topo/discover.hpp"
#include "hwloc_topo/hwloc_handle.hpp"

namespace ddl {
namespace {

// Binding needs hwloc's system calls only, not a discovery: one made-up PU is loaded in no time, declared to
// be this system. The set bound to is given by OS numbers and need not be in the topology.
hwloc_topology_t minimal_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw Error("hwloc does not start", std::strerror(errno));
  hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM);
  hwloc_topology_set_synthetic(topology, "pu:1");
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    throw Error("hwloc does not start", std::strerror(errno));
  }
  return topology;
}

class Bitmap {
 public:
  Bitmap() : bits_(hwloc_bitmap_alloc()) {}
  ~Bitmap() { hwloc_bitmap_free(bits_); }
  Bitmap(const Bitmap&) = delete;
  Bitmap& operator=(const Bitmap&) = delete;
  hwloc_bitmap_t get() const { return bits_; }

 private:
  hwloc_bitmap_t bits_;
};

}  // namespace

void bind_this_process(const std::vector<int>& pus) {
  if (pus.empty()) throw Error("no PU to bind to", "", "name at least one");
  hwloc::Handle handle(minimal_topology());
  Bitmap set;
  for (int pu : pus) {
    if (pu < 0) throw Error(fmt::format("PU {} does not exist", pu));
    hwloc_bitmap_set(set.get(), static_cast<unsigned>(pu));
  }
  if (hwloc_set_cpubind(handle.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0)
    throw Error(fmt::format("this process cannot be bound to PUs {}", fmt::join(pus, ",")),
                std::strerror(errno), "choose among the PUs that ddl-probe lists");
}

std::vector<int> binding_of_this_process() {
  hwloc::Handle handle(minimal_topology());
  Bitmap set;
  if (hwloc_get_cpubind(handle.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0) return {};
  return hwloc::numbers_in(set.get());
}

}  // namespace ddl
