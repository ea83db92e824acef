// TimeUnderWay: how long calls that go on while the program computes were under way, by collective. Calls
// that overlap share their time: it is counted once. Thread safety: none.
#pragma once

#include <vector>

#include "core/base/types.hpp"
#include "core/trace/counters.hpp"

namespace ddl {

class TimeUnderWay {
 public:
  /// `collective` lives as long as the process. One that is done may have begun before others that are, too.
  void begin(const char* collective, Nanoseconds at);
  void end(const char* collective, Nanoseconds at);
  /// Moves what was counted since the last time to `into`, of calls that are under way what has passed so
  /// far.
  void collect(Counters& into, Nanoseconds at);

 private:
  struct Collective {
    const char* name;
    std::uint32_t under_way = 0;
    Nanoseconds since = 0;  // counted up to there
    Nanoseconds time = 0;
  };
  Collective& of(const char* name);
  std::vector<Collective> all_;
};

}  // namespace ddl
