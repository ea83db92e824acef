#include "interpose/gloo/routes.hpp"

#include "core/base/clock.hpp"

namespace ddl::gloo {

using Library = TagTuner::Library;
using What = TagTuner::Begin::What;

Routes::Choice Routes::begin(Class of_class, Tag tag, const Agree& agree) {
  std::unique_lock lock(mutex_);
  TagTuner& tuner = tuners_[of_class];
  TagTuner::Begin how = tuner.begin(tag);
  for (; how.what == What::wait; how = tuner.begin(tag)) changed_.wait(lock);
  lock.unlock();
  if (how.what == What::checkpoint) return meet(tuner, tag, agree);
  return {false, how.library};
}

Routes::Choice Routes::meet(TagTuner& tuner, Tag tag, const Agree& agree) {
  std::unique_lock lock(mutex_);
  TagTuner::Numbers numbers = tuner.numbers(budget_.spent(), budget_.elapsed());
  lock.unlock();
  if (!agree(numbers, 0)) return {true};
  const TagTuner::Decision decision = TagTuner::decide(numbers);
  if (decision.is_verdict) return {!conclude(tuner, tag, decision.library, agree), Library::engine};
  budget_.spend(decision.cost);
  return {false, decision.library, &tuner, now(), decision.cost};
}

bool Routes::conclude(TagTuner& tuner, Tag tag, Library library, const Agree& agree) {
  std::unique_lock lock(mutex_);
  std::int64_t highest[] = {tuner.freeze(tag)};
  lock.unlock();
  const bool agreed = agree(highest, 1);
  lock.lock();
  if (agreed)
    tuner.settle(tag, static_cast<Tag>(highest[0]), library);
  else
    tuner.unfreeze(tag);
  changed_.notify_all();
  return agreed;
}

void Routes::end(const Choice& route) {
  if (!route.measures) return;
  const Nanoseconds time = now() - route.began;
  if (route.library == Library::original) budget_.spend(time - route.reserved);
  std::lock_guard lock(mutex_);
  route.measures->record(route.library, time);
}

}  // namespace ddl::gloo
