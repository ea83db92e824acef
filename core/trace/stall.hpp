// A call that takes long: who says so, and what is said of those who do not come. Pure functions; what the
// ranks are doing is gathered elsewhere (session/stall_watch).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/process.hpp"
#include "core/trace/activity.hpp"

namespace ddl {

/// A call that a rank waits in.
struct Stall {
  Rank me = 0;               // in the job
  CommId comm = 0;           // 0: there is none
  std::uint64_t number = 0;  // of the program's calls there; 0: not known, so nobody is known to be in it
  CallName name;
  std::string what;  // for people: "MPI_Allreduce #12 (all-reduce of 1 int32, sum; 4 ranks)"
  Nanoseconds waited = 0;
  bool needs_all = false;    // nobody gets through it before all have come
  bool goes_on = false;      // while the program does other things: who has begun it is in it
  Rank sink = -1;            // where all of it goes to: that one waits for all, the others for few
  bool in_original = false;  // where the same call on the engine is another
};

/// A rank that may be why.
struct Peer {
  enum class Presence : std::uint8_t { answers, silent, stopped, gone };
  Rank rank = 0;  // in the job
  Presence presence = Presence::answers;
  CallStatus call = {};
  std::uint64_t said = 0;   // see SaidOfStall
  bool is_awaited = false;  // the engine lacks a message of it
  bool gave_up = false;     // see Activity
};

Peer::Presence presence_of(ProcessState state);

/// Of those that are in the call one is to speak: the sink, else the lowest rank that has waited nearly as
/// long.
enum class Speaker : std::uint8_t { me, another, has_spoken };
Speaker speaker_of(const Stall& stall, const std::vector<Peer>& peers);

/// Whether one of them does not come; else this rank waits for ranks that wait themselves.
bool is_explained(const Stall& stall, const std::vector<Peer>& peers);

/// "waiting for 10 s in MPI_Allreduce #12 (...): rank 1 is in MPI_Finalize; ranks 2, 3 ..."; names those who
/// do not come, and where all have come those that this rank waits for.
std::string line_of(const Stall& stall, const std::vector<Peer>& peers);

}  // namespace ddl
