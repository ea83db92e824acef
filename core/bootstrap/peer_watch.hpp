// PeerWatch: tells a rank that waits in a collective when another is gone, by the news of the rendezvous that
// all ranks of the communicator stay at.
//
// The news alone is no failure: a rank may have done its part of the collective and ended. So a wait goes on
// for a while after it, counted only while this process runs, for each thread that waits. Thread safety: all.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/bootstrap/rendezvous_client.hpp"

namespace ddl {

class PeerWatch {
 public:
  explicit PeerWatch(std::shared_ptr<RendezvousClient> rendezvous) : rendezvous_(std::move(rendezvous)) {}
  /// A round of all ranks, see RendezvousClient::exchange.
  RendezvousClient::Blobs exchange(std::span<const std::byte> blob);
  /// The same with a plain value. Throws Error also where another rank's is not of this type.
  template <class Value>
  std::vector<Value> all_of(const Value& mine);
  /// A wait of this thread begins: it has its whole patience.
  void begin();
  /// Asked again and again by who waits; cheap. Why there is no sense in waiting on, "" as long as there is.
  std::string overdue();
  /// This rank can do no more: the others hear of it, and a round that another thread is in ends with an
  /// Error.
  void vanish();

 private:
  std::atomic<bool> gone_{false};
  std::mutex mutex_;  // of the rendezvous
  std::shared_ptr<RendezvousClient> rendezvous_;
  std::string news_;
  Nanoseconds looked_ = 0;
  std::mutex patience_mutex_;  // taken behind the other; of what follows
  std::map<std::thread::id, Timeout> patience_;
};

template <class Value>
std::vector<Value> PeerWatch::all_of(const Value& mine) {
  std::vector<Value> values;
  for (const auto& bytes : exchange(std::as_bytes(std::span(&mine, 1)))) {
    std::optional<Value> value = Frame{{}, bytes}.template as<Value>();
    if (!value) throw Error("a rank of the communicator runs another version of the engine");
    values.push_back(*value);
  }
  return values;
}

}  // namespace ddl
