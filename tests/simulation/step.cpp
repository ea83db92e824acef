#include "step.hpp"

#include <algorithm>
#include <cmath>

namespace ddl::simulation {
namespace {

constexpr Bytes kNorm = 4;

// The all-reduces of so many gradients that go together.
void add_calls(Elements elements, double ready, const StepRule& rule, std::vector<StepCall>& calls) {
  if (rule.share >= 1) {
    calls.push_back({ready, elements * rule.element});
    return;
  }
  const Elements chunks = divide_up(elements, rule.chunk);
  const auto sent = static_cast<Elements>(std::ceil(static_cast<double>(chunks) * rule.share));
  calls.push_back({ready, chunks * kNorm});
  calls.push_back({ready, std::min(elements, sent * rule.chunk) * rule.element});
}

double computing_of(const std::vector<Gradient>& gradients) {
  double seconds = 0;
  for (const Gradient& gradient : gradients) seconds += gradient.seconds;
  return seconds;
}

}  // namespace

std::vector<StepCall> calls_of(const std::vector<Gradient>& gradients, const StepRule& rule) {
  std::vector<StepCall> calls;
  Elements waiting = 0;
  double now = 0;
  auto send_waiting = [&] {
    if (waiting > 0) add_calls(waiting, now, rule, calls);
    waiting = 0;
  };
  for (const Gradient& gradient : gradients) {
    now += gradient.seconds;
    const Bytes bytes = gradient.elements * rule.element;
    if (bytes == 0) continue;
    if (bytes >= rule.threshold || bytes > rule.largest_call) {
      add_calls(gradient.elements, now, rule, calls);
      continue;
    }
    waiting += gradient.elements;
    if (waiting * rule.element >= rule.threshold) send_waiting();
  }
  send_waiting();
  return calls;
}

StepTime time_of_step(const std::vector<Gradient>& gradients, const std::vector<StepCall>& calls,
                      const std::function<double(Bytes)>& seconds_of) {
  StepTime time;
  time.computing = computing_of(gradients);
  double free = 0;
  for (const StepCall& call : calls) {
    const double seconds = seconds_of(call.bytes);
    time.reducing += seconds;
    free = std::max(free, call.ready) + seconds;
  }
  time.seconds = std::max(time.computing, free);
  return time;
}

}  // namespace ddl::simulation
