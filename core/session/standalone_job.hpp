// StandaloneJob: a job whose ranks meet at a rendezvous of rank 0 and stay there, so that one that waits
// learns when another is gone. Who they are comes from the program, from PMIx or from variables; or from a
// front, which has ways of its own to hand the rendezvous around.
//
// Thread safety: as that of Session.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/bootstrap/job_place.hpp"
#include "core/bootstrap/peer_watch.hpp"
#include "core/bootstrap/rendezvous_server.hpp"
#include "core/session/session.hpp"

namespace ddl {

/// A rank at the rendezvous of its job.
struct Membership {
  std::unique_ptr<RendezvousServer> server;  // rank 0's
  std::shared_ptr<RendezvousClient> rendezvous;
};

/// The id that rank 0 has sent. Error where it is of another version.
RendezvousId id_from(std::span<const std::byte> bytes);

struct StandaloneOptions {
  bool speaks_for_process = true, waits_awake = true, keeps_report = true;  // see SessionOptions
  /// Asked again and again while a call waits: why there is no sense in it, "" as long as there is.
  std::function<std::string()> overdue = [] { return std::string(); };
};

class StandaloneJob {
 public:
  /// Joins it; waits for all ranks. `env` decides how long. Throws Error: alike on all ranks that have come.
  StandaloneJob(const JobAsked& asked, Env env);
  StandaloneJob(Membership membership, Env env, StandaloneOptions options = {});

  Session& session() { return session_; }
  /// A wait of this thread begins: for another rank that is gone it has its whole patience, see PeerWatch.
  void begin_wait() { watch_.begin(); }
  /// The others hear that this rank is gone: it makes no more calls.
  void vanish() { watch_.vanish(); }
  /// All ranks have made their last call: writes the report where it is wanted. Waits for the others. Throws
  /// Error when one of them is gone.
  void leave();

 private:
  SessionOptions session_options(Env env);

  const StandaloneOptions options_;
  const Membership membership_;
  PeerWatch watch_;
  Session session_;
};

}  // namespace ddl
