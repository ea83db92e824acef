// RendezvousServer: the meeting place of one group of ranks, and of subgroups of its members (see
// RendezvousId), a thread in the process that made the id. What befalls one subgroup does not concern the
// others.
//
// It listens on one port of every address of this host (a port per address would not fit into the id); the
// token keeps strangers out, who get no answer and little memory. It ends when all have left every subgroup
// (where there were parts, a while later, because others may be on their way) or a limit is reached. The rule
// a user can break: keep it alive until the ranks are through; who destroys it earlier fails those who still
// wait. Thread safety: its functions may be called from any thread. A forked child inherits no server: there
// the destructor does nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/bootstrap/rendezvous_id.hpp"

namespace ddl {

struct RendezvousLimits {
  double first_s = 24 * 3600;  // until the first rank comes: an id may be made long before it is used
  double others_s = 60;        // from then on: until all have come, and from the first to the last of a round
};

/// Where ranks look for it that were told no id.
struct RendezvousPort {
  std::uint16_t port = 0;                         // 0: any
  std::optional<RendezvousId::Token> token = {};  // none: a fresh one
};

class RendezvousServer {
 public:
  /// `rails`: interfaces to be named in the id, as DDL_RAILS; empty: all that lead to other hosts. Throws
  /// Error where nothing can listen.
  explicit RendezvousServer(const RendezvousLimits& limits = {}, const std::vector<std::string>& rails = {},
                            const RendezvousPort& at = {});
  /// Ends the thread: at once, or within two seconds where answers are still under way.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  const RendezvousId& id() const;
  /// True when its thread is through: all have left, or a limit was reached. Then it may be destroyed at no
  /// cost.
  bool is_over() const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace ddl
