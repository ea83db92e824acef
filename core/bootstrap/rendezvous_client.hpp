// RendezvousClient: one rank's connection to the RendezvousServer at which its group meets; the ranks
// exchange blobs in rounds.
//
// The rules a user can break: all ranks make the same sequence of rounds; after an exception only the
// destructor is called. Ranks may be threads of one process, each with an object of its own. Thread safety:
// one call at a time. In a forked child the destructor closes without a word.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/types.hpp"
#include "core/bootstrap/rendezvous_frame.hpp"
#include "core/bootstrap/rendezvous_id.hpp"
#include "core/net/wait.hpp"

namespace ddl {

class RendezvousClient {
 public:
  using Blobs = std::vector<std::vector<std::byte>>;

  /// Joins as `rank` of `size`; tries every address of the id until somebody answers, up to `timeout_s`. Does
  /// not wait for the other ranks. Throws Error: nobody answers, or the server refuses.
  RendezvousClient(const RendezvousId& id, Rank rank, Rank size, double timeout_s);
  /// Says goodbye: those who still wait for this rank learn it.
  ~RendezvousClient();
  RendezvousClient(const RendezvousClient&) = delete;
  RendezvousClient& operator=(const RendezvousClient&) = delete;

  Rank rank() const { return rank_; }
  Rank size() const { return size_; }

  /// Gives a blob (16 MiB at most) and returns everybody's, by rank. Throws Error naming who is missing when
  /// the server's limit is reached or a rank is gone.
  Blobs exchange(std::span<const std::byte> blob);
  /// The same in two steps: give does not wait for the others. One receive per give.
  void give(std::span<const std::byte> blob);
  Blobs receive();
  /// The same without waiting: nothing as long as they are not here.
  std::optional<Blobs> receive_what_is_here();

  /// Between rounds: why nobody can meet here any more, a rank or the server being gone; "" as long as all is
  /// well. Never waits.
  std::string look();
  /// From another thread: a round under way ends with an Error.
  void interrupt() { socket_.shut_down(); }
  /// Leaves without goodbye, so that the others hear that this rank is gone.
  void vanish();

 private:
  bool try_all(const std::vector<IpAddress>& places, double limit_s, Timeout& timeout);
  bool say_hello(double limit_s);
  void join(double timeout_s);
  bool send(PackedFrame frame, double limit_s);
  FrameReader::State hear(double limit_s);
  Blobs take_answer(FrameReader::State state);
  [[noreturn]] void fail_unreachable(double timeout_s) const;
  [[noreturn]] void fail_silent(FrameReader::State state);

  RendezvousId id_;
  Rank rank_, size_;
  pid_t owner_;
  std::string server_;                 // the address that is tried, and then the one that answered
  std::vector<std::string> refusals_;  // why each of the others did not
  bool is_gone_ = false;               // at the last try nobody listened at any of them
  double limit_s_ = 0;                 // the server's
  Socket socket_;
  FrameReader reader_;
  bool failed_ = false;
};

}  // namespace ddl
