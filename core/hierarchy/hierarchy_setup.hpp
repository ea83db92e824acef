// How hierarchical communicators come into being: the library splits the smaller communicators off, the ranks
// of each group open their rails, and all ranks agree on what they have. Where that fails on any rank, all
// ranks' calls are left to the library: never an error of the program's.
// Thread safety: all; each rank's part belongs to one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/bootstrap/exchange.hpp"
#include "core/hierarchy/hierarchical_communicator.hpp"

namespace ddl {

/// One rank's part in it.
struct HierarchySetup {
  void* whole = nullptr;  // the library's communicator, which exists
  cuda::Context context = nullptr;
  HierarchyShape shape;
  std::vector<std::byte> config;     // for the library's splits
  std::string who;                   // "rank 1 of 4", for people
  std::unique_ptr<Exchange> rounds;  // of all ranks of the whole
};

/// All of one thread's, whose ranks take part at the same time. By setup; null: the library's alone.
/// `verbose`: says why.
std::vector<std::shared_ptr<HierarchicalCommunicator>> set_up_hierarchies(const ddl_library& library,
                                                                          const cuda::Driver& driver,
                                                                          std::vector<HierarchySetup> setups,
                                                                          bool verbose);

}  // namespace ddl
