// PeerWatch: tells a rank that waits in a collective when another is gone, by the news of the rendezvous that
// all ranks of the communicator still sit at.
//
// The news alone is no failure: a rank may have done its part of the collective and ended. So a wait goes on
// for a while after it, counted only while this process runs. Thread safety: all, begin() and
// overdue() by one thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/bootstrap/rendezvous.hpp"

namespace ddl {

class PeerWatch {
 public:
  explicit PeerWatch(std::shared_ptr<Rendezvous> seat) : seat_(std::move(seat)) {}
  /// A round of all ranks, see Rendezvous::exchange.
  Rendezvous::Blobs exchange(std::span<const std::byte> blob);
  /// A wait begins: it has its whole patience.
  void begin();
  /// Asked again and again by who waits; cheap. Why there is no sense in waiting on, "" as long as there is.
  std::string overdue();
  /// This rank can do no more: the others hear of it.
  void vanish();

 private:
  std::mutex mutex_;  // of the seat
  std::shared_ptr<Rendezvous> seat_;
  std::string news_;
  std::optional<rendezvous::Patience> patience_;
  Nanoseconds looked_ = 0;
};

}  // namespace ddl
