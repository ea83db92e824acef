// Lists of hosts as people and schedulers write them. Pure; every parser throws UsageError on malformed text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/strings.hpp"

namespace ddl {

struct HostSlots {
  std::string host;
  std::uint64_t slots = 0;  // 0: not said
  std::string user{};       // who starts processes there; "" as here
  friend bool operator==(const HostSlots&, const HostSlots&) = default;
};
using HostList = std::vector<HostSlots>;

/// `h1:2,h2` as in -H. A host named twice without slots has two of them, as in mpirun.
HostList parse_host_list(std::string_view text);
/// The lines of a hostfile: `host [slots=N] [max_slots=N]`, `#` starts a comment. `name` is for messages.
HostList parse_host_file(std::string_view text, const std::string& name);
/// Whether a hostfile says slots as MPICH does, `host:4`.
bool has_colon_slots(std::string_view text);
/// A file with one line per slot (PBS_NODEFILE, LSB_DJOB_HOSTFILE).
HostList parse_slot_file(std::string_view text, const std::string& name);
/// LSF's `h1 4 h2 2` (LSB_MCPU_HOSTS).
HostList parse_lsf_hosts(std::string_view text);
/// Slurm's `n[001-003,7],gpu1`.
Strings expand_slurm_nodes(std::string_view text);
/// Slurm's `2(x3),1` -> 2 2 2 1.
std::vector<std::uint64_t> expand_slurm_tasks(std::string_view text);

/// `h1:2,h2:1`, the form for -H.
std::string host_list_text(const HostList& hosts);

}  // namespace ddl
