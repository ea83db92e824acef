// JoinWatch: says when joining a job takes long, and which ranks of this host do not come to it; ends a rank
// whose host is cut off meanwhile. A thread that looks a few times a second, by whose name the other ranks of
// the host see that this one is joining (bootstrap/siblings).
//
// Until the ranks have met nobody but the starter knows all of them, and a rank inside MPI_Init has nobody to
// tell what has failed: the library waits there for its daemon, which waits for a host that does not answer
// until the kernel gives up, a quarter of an hour later. So who joins under such a daemon ends by SIGTERM, as
// the starter would end it.
//
// Life: constructed before anything that may wait for other ranks → everyone_has_come() → end(). Thread
// safety: all members.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "core/base/watch_thread.hpp"
#include "core/bootstrap/siblings.hpp"

namespace ddl {

/// What `me` is to say after so long in the call `what`; nothing where another rank of its host speaks, or
/// where hosts that know as little do. `here`: the ranks of its host, by rank.
std::optional<std::string> line_of_joining(const std::string& what, Nanoseconds waited, Rank me,
                                           const std::vector<Sibling>& here, bool all_have_come);

class JoinWatch {
 public:
  /// `first`: until the first line; 0: never. `what`: the call by which the program joins.
  JoinWatch(Nanoseconds first, std::string what, Rank me);

  /// No rank is missing any more, but one may still stop or go.
  void everyone_has_come() { all_have_come_ = true; }
  void end() { thread_.end(); }

 private:
  void watch();
  void look();
  void look_at_host(const std::vector<Sibling>& here);
  void speak(const std::string& line) const;

  const std::string what_;
  const Rank me_;
  const Nanoseconds first_, since_;
  Nanoseconds next_, looked_at_host_, ended_ = 0;  // of the thread
  std::atomic<bool> all_have_come_ = false;
  WatchThread thread_;
};

}  // namespace ddl
