#include "step_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/error.hpp"
#include "examples/ddl_bench/model.hpp"
#include "methods.hpp"

namespace ddl::simulation {
namespace {

// Direct exchange among many hosts is more messages than can be simulated from here on.
constexpr Bytes kLarge = 2 << 20;

std::vector<Gradient> gradients_of(const StepOptions& options) {
  bench::ModelFile file = bench::read_model(options.model);
  bench::ParsedModel parsed;
  if (file.error.empty()) parsed = bench::parse_model(options.model, file.text);
  if (!file.error.empty() || !parsed.error.empty())
    throw UsageError(file.error + parsed.error, "there is nothing to simulate", "name a list of gradients");
  if (options.compute_ms >= 0) parsed.model.compute_in(options.compute_ms * 1e-3);
  std::vector<Gradient> gradients;
  for (const bench::Tensor& tensor : parsed.model.tensors)
    gradients.push_back({tensor.elements, tensor.seconds});
  if (options.whole) gradients = {{parsed.model.elements(), parsed.model.seconds()}};
  return gradients;
}

// How long an all-reduce takes, found out once for each kind.
class Timer {
 public:
  Timer(const Cluster& cluster, const StepOptions& options, Bytes staging, std::string between)
      : cluster_(cluster), options_(options), staging_(staging), between_(std::move(between)) {}

  double seconds_of(const StepCall& call) {
    auto [known, is_new] = known_.try_emplace({call.bytes, call.wire.as}, Known{});
    if (is_new) known->second = find(call);
    return known->second.seconds;
  }
  const std::string& plan_of(const StepCall& call) { return known_[{call.bytes, call.wire.as}].plan; }

 private:
  struct Known {
    double seconds = NAN;
    std::string plan;
  };

  Known find(const StepCall& call) {
    const Candidate choice =
        our_choice(cluster_, call.bytes, staging_, call.bytes < kLarge ? std::string() : between_, call.wire);
    const std::string plan = describe(grid_of(cluster_), choice.choice);
    if (options_.predicted) return {our_prediction(cluster_, choice.choice, call.bytes).seconds, plan};
    const std::optional<Outcome> outcome =
        simulate(cluster_, our_plans(cluster_, choice.choice), call.bytes, call.wire);
    return {outcome ? outcome->seconds : NAN, plan};
  }

  const Cluster& cluster_;
  const StepOptions& options_;
  const Bytes staging_;
  const std::string between_;
  std::map<std::pair<Bytes, WireType>, Known> known_;
};

}  // namespace

void print_step(const Cluster& cluster, const StepOptions& options, Bytes staging,
                const std::string& between) {
  const std::vector<Gradient> gradients = gradients_of(options);
  StepRule rule = options.rule;
  rule.fusion = fusion_rule(options.lazy, cluster.hosts > 1);
  const std::vector<StepCall> calls = calls_of(gradients, rule);
  Timer timer(cluster, options, staging, between);
  fmt::print("\na step of {} on {} hosts x {} GPUs, {}\n{:>10} {:>12} {:>12}   {}\n", options.model,
             cluster.hosts, cluster.gpus, options.predicted ? "predicted" : "simulated", "ready", "bytes",
             "all-reduce", "our plan");
  auto seconds_of = [&](const StepCall& call) { return timer.seconds_of(call); };
  for (const StepCall& call : calls) {
    const double seconds = seconds_of(call);
    fmt::print("{:>7.2f} ms {:>12} {:>9.3f} ms   {}\n", call.ready * 1e3, call.bytes, seconds * 1e3,
               timer.plan_of(call));
    std::fflush(stdout);
  }
  const StepTime time = time_of_step(gradients, calls, seconds_of);
  fmt::print(
      "step {:.2f} ms: computing {:.2f} ms, {} all-reduces {:.2f} ms, {:.1f} % of them hidden; computing is "
      "{:.1f} % "
      "of the step\n",
      time.seconds * 1e3, time.computing * 1e3, calls.size(), time.reducing * 1e3, 100 * time.hidden(),
      100 * time.computing / time.seconds);
}

}  // namespace ddl::simulation
