#include "core/tune/stream_tuner.hpp"

#include <algorithm>

namespace ddl {

StreamTuner::Choice StreamTuner::next(Bytes size_class, Fingerprint call) {
  ++calls_;
  auto known = classes_.find(size_class);
  if (known == classes_.end()) {
    const TunerPlan plan = {static_cast<int>(ways_), static_cast<int>(kRounds), false};
    known = classes_.emplace(size_class, Class{Tuner(plan)}).first;
  }
  Class& its = known->second;
  if (its.agreed && calls_ >= its.at) {
    std::copy(its.agreed->begin(), its.agreed->end(), its.tuner.times().begin());
    its.tuner.agreed();
    its.agreed.reset();
    its.waits = false;
  }
  if (its.waits) return {};
  const Trial how = its.tuner.next(call);
  if (how.what == Trial::What::best) return {static_cast<std::size_t>(its.tuner.best()), its.tuner.settled()};
  const std::size_t place = its.tuner.done();
  its.tuner.record(0);  // times come with decide()
  its.waits = its.tuner.must_agree();
  return {static_cast<std::size_t>(how.index), false, place};
}

std::optional<std::size_t> StreamTuner::time_of(std::size_t attempt) {
  const std::size_t route = attempt / (1 + kRounds), round = attempt % (1 + kRounds);
  if (round == 0) return std::nullopt;
  return route * kRounds + round - 1;
}

void StreamTuner::decide(Bytes size_class, const Times& times, std::uint64_t at) {
  Class& its = classes_.at(size_class);
  its.agreed = times;
  its.at = at;
}

}  // namespace ddl
