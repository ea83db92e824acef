#include "core/trace/time_under_way.hpp"

#include <algorithm>
#include <utility>

namespace ddl {

// A program makes few kinds of calls.
TimeUnderWay::Collective& TimeUnderWay::of(const char* name) {
  auto known =
      std::find_if(all_.begin(), all_.end(), [&](const Collective& one) { return one.name == name; });
  return known == all_.end() ? all_.emplace_back(Collective{name}) : *known;
}

void TimeUnderWay::begin(const char* collective, Nanoseconds at) {
  Collective& one = of(collective);
  if (one.under_way++ == 0) one.since = std::max(one.since, at);
}

void TimeUnderWay::end(const char* collective, Nanoseconds at) {
  Collective& one = of(collective);
  if (--one.under_way > 0) return;
  one.time += std::max<Nanoseconds>(at - one.since, 0);
  one.since = std::max(one.since, at);
}

void TimeUnderWay::collect(Counters& into, Nanoseconds at) {
  for (Collective& one : all_) {
    if (one.under_way > 0 && at > one.since) {
      one.time += at - one.since;
      one.since = at;
    }
    if (one.time > 0) into.collect_time(one.name, std::exchange(one.time, 0));
  }
}

}  // namespace ddl
