// StandaloneJob: a job of programs that use neither MPI nor NCCL: who its ranks are comes from the program,
// from PMIx or from variables; they meet at a rendezvous of rank 0.
//
// Thread safety: as that of Session.
#pragma once

#include <memory>
#include <string>

#include "core/bootstrap/job_place.hpp"
#include "core/bootstrap/rendezvous_server.hpp"
#include "core/bootstrap/peer_watch.hpp"
#include "core/session/session.hpp"

namespace ddl {

class StandaloneJob {
 public:
  /// Joins it; waits for all ranks. `env` decides how long. Throws Error: alike on all ranks that have come.
  StandaloneJob(const JobAsked& asked, Env env);

  Session& session() { return session_; }
  /// All ranks have made their last call: writes the report where it is wanted. Waits for the others. Throws
  /// Error when one of them is gone.
  void leave();

 private:
  struct Seat {                                // at the rendezvous
    std::unique_ptr<RendezvousServer> server;  // rank 0's
    std::shared_ptr<Rendezvous> rendezvous;
  };
  static Seat find_seat(const JobAsked& asked, const Env& env);
  SessionOptions options(Env env);

  const Seat seat_;
  PeerWatch watch_;
  Session session_;
};

}  // namespace ddl
