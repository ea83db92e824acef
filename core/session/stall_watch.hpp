// StallWatch: says when a call takes long, of whom it waits for and what these are doing; and lets others
// know what this rank is doing. A thread that looks a few times a second, while the ranks of the job compute,
// wait in the engine or in the original library.
//
// After DDL_STALL_WARN seconds, then twice, four times, ... as many, one of the ranks in the call says one
// line (trace/stall). Those of this host are looked at, those of others asked; who does not answer within a
// second is said not to, or what a rank of its host knows of it.
//
// Life: constructed when the job is being joined, which another watches (session/join_watch) → begin() →
// destroyed. Thread safety: all members.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/watch_thread.hpp"
#include "core/bootstrap/job_map.hpp"
#include "core/collective/engine.hpp"

namespace ddl {

class StallWatch {
 public:
  /// A rank that does not answer, and why.
  using SilentPeer = std::function<std::optional<std::pair<Rank, std::string>>()>;

  /// `first`: until the first line; 0: never. `job_map` is read from begin() on. `silent_peer` is asked while
  /// a call takes long.
  StallWatch(Nanoseconds first, Rank me, const JobMap& job_map, SilentPeer silent_peer);

  /// This rank has joined, with an engine, or without one (null): there is nothing to watch then.
  void begin(Engine* engine, Activity* activity);

 private:
  struct Said {                  // of a call that takes long
    Nanoseconds next = 0;        // to be said when it has taken so long
    Nanoseconds left_since = 0;  // another rank is to say it
    bool is_fresh = true;        // seen in the last look
  };
  using Key = std::pair<CommId, std::uint64_t>;

  void watch();
  void look();
  void look_for_the_gone(const std::vector<LongCall>& calls);
  void look_for_silence();
  void look_at_calls(const std::vector<LongCall>& calls, const std::vector<CallStatus>& mine);
  void look_at_originals(const std::vector<CallStatus>& mine);
  void consider(const Key& key, Stall stall, const std::vector<Rank>& members,
                const std::vector<Rank>& awaited);
  bool is_still_in(const Stall& stall) const;
  std::vector<Peer> gather(const Stall& stall, const std::vector<Rank>& members,
                           const std::vector<Rank>& awaited);
  void ask(const std::vector<Rank>& ranks, const Stall& stall, std::vector<Peer>& peers, bool of_neighbours);
  std::vector<Rank> neighbours_of(Rank rank) const;

  const Nanoseconds first_, lead_;  // so long before a line is due the others are asked
  const Rank me_;
  const JobMap& job_map_;
  const SilentPeer silent_peer_;
  Nanoseconds looked_for_silence_ = 0;
  Engine* engine_ = nullptr;
  Activity* activity_ = nullptr;
  Nanoseconds resumed_at_ = 0;
  std::map<Key, Said> said_;
  WatchThread thread_;
};

}  // namespace ddl
