// SetupMessage: what a rank tells the others when a communicator is set up, and what all conclude from all
// messages. Pure: every rank concludes the same.
//
//   a map in CBOR; the wire version is in it
//
// Thread safety: values and functions of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/bootstrap/job_map.hpp"
#include "core/plan/hierarchy_plan.hpp"

namespace ddl {

struct SetupMessage {
  int version = kWireVersion;
  bool has_original = false;
  bool can_split = false;    // the original's communicator will be blocking, and can be split
  bool by_sockets = false;   // the original has nothing better between hosts
  std::string device;        // see gpu::identity_of
  std::string host;          // see host_identity(); of a split: its parent's number for it
  std::string options = {};  // DDL_OPTIONS; of this and what follows rank 0's count
  bool deterministic = false;
  std::vector<int> fake_hosts = {};
  Bytes segment = 0;
};

std::vector<std::byte> pack(const SetupMessage& message);
/// Nothing for bytes that are no message of this version.
std::optional<SetupMessage> unpack_setup_message(const std::vector<std::byte>& bytes);

struct SetupOutcome {
  std::string why_ours;  // "": the communicator is the original's
  std::string why_flat;  // the original's calls are left to it as a whole; "": there are plans on this grid
  std::string trouble;   // with what rank 0 asks for; said once
  std::vector<HostIndex> host_of_rank = {};  // where the mode allows plans
  std::optional<Grid> grid = {};
  Bytes segment = 0;
  std::vector<HierarchyRoute> routes = {};  // of the plans; several: the one that proves fastest

  /// Whether parts of these ranks may have plans, also where all of them together have none.
  bool splits_may_have_plans() const;
};

/// messages[r] is rank r's, at least one. Throws Error when a rank speaks another language.
SetupOutcome conclude(const std::vector<std::vector<std::byte>>& messages);

}  // namespace ddl
