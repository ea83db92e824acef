#include "step.hpp"

#include <algorithm>
#include <cmath>

namespace ddl::simulation {
namespace {

DType type_of(const StepRule& rule) { return rule.element == 2 ? DType::float16 : DType::float32; }

bool is_sparse(Bytes bytes, const StepRule& rule) {
  return rule.sparse.is_on() && can_be_sparse(type_of(rule), Op::sum) && bytes >= rule.sparse.from;
}

WireFormat format_of(Bytes bytes, const StepRule& rule) {
  return rule.wire.format_of(Kind::all_reduce, type_of(rule), bytes);
}

// The norms stay exact; what the chunks travel as is decided by the gradient they are of.
void add_sparse(Elements elements, double ready, const StepRule& rule, std::vector<StepCall>& calls) {
  const Elements chunks = divide_up(elements, rule.chunk), sent = chunks_sent(rule.sparse, chunks, 0);
  calls.push_back({ready, chunks * sizeof(float)});
  calls.push_back({ready, sent * rule.chunk * rule.element, format_of(elements * rule.element, rule)});
}

double computing_of(const std::vector<Gradient>& gradients) {
  double seconds = 0;
  for (const Gradient& gradient : gradients) seconds += gradient.seconds;
  return seconds;
}

}  // namespace

std::vector<StepCall> calls_of(const std::vector<Gradient>& gradients, const StepRule& rule) {
  std::vector<StepCall> calls;
  std::vector<Part> waiting;
  Bytes waiting_bytes = 0;
  double now = 0;
  auto send_waiting = [&] {
    for (const std::vector<std::size_t>& batch : cut_batches(waiting, rule.fusion.largest_batch)) {
      Elements elements = 0;
      for (std::size_t part : batch) elements += waiting[part].count;
      calls.push_back({now, elements * rule.element, waiting[batch[0]].of.wire});
    }
    waiting.clear();
    waiting_bytes = 0;
  };
  for (const Gradient& gradient : gradients) {
    now += gradient.seconds;
    const Bytes bytes = gradient.elements * rule.element;
    if (bytes == 0) continue;
    if (is_sparse(bytes, rule)) {
      add_sparse(gradient.elements, now, rule, calls);
    } else if (rule.fusion.takes(bytes)) {
      waiting.push_back({{type_of(rule), Op::sum, format_of(bytes, rule)}, gradient.elements});
      waiting_bytes += bytes;
      if (waiting_bytes >= rule.fusion.threshold) send_waiting();
    } else {
      calls.push_back({now, bytes, format_of(bytes, rule)});
    }
  }
  send_waiting();
  return calls;
}

StepTime time_of_step(const std::vector<Gradient>& gradients, const std::vector<StepCall>& calls,
                      const std::function<double(const StepCall&)>& seconds_of) {
  StepTime time;
  time.computing = computing_of(gradients);
  double free = 0;
  for (const StepCall& call : calls) {
    const double seconds = seconds_of(call);
    time.reducing += seconds;
    free = std::max(free, call.ready) + seconds;
  }
  time.seconds = std::max(time.computing, free);
  return time;
}

}  // namespace ddl::simulation
