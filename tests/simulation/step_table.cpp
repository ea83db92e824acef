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
  return gradients;
}

// How long an all-reduce takes, found out once for each size.
class Timer {
 public:
  Timer(const Cluster& cluster, const StepOptions& options, Bytes staging, std::string between)
      : cluster_(cluster), options_(options), staging_(staging), between_(std::move(between)) {}

  double seconds_of(Bytes bytes) {
    auto [known, is_new] = known_.try_emplace(bytes, NAN);
    if (is_new) known->second = find(bytes);
    return known->second;
  }
  const std::string& plan_of(Bytes bytes) { return plan_[bytes]; }

 private:
  // Gradients of 16 bits in memory travel as they are.
  WireFormat format_of(Bytes bytes) const {
    if (options_.rule.element != size_of(DType::float32)) return {};
    return options_.wire.format_of(Kind::all_reduce, DType::float32, bytes, cluster_.hosts > 1);
  }

  double find(Bytes bytes) {
    const WireFormat wire = format_of(bytes);
    const Candidate choice =
        our_choice(cluster_, bytes, staging_, bytes < kLarge ? std::string() : between_, wire);
    plan_[bytes] = describe(grid_of(cluster_), choice.choice);
    if (options_.predicted) return our_prediction(cluster_, choice.choice, bytes).seconds;
    const std::optional<Outcome> outcome =
        simulate(cluster_, our_plans(cluster_, choice.choice), bytes, wire);
    return outcome ? outcome->seconds : NAN;
  }

  const Cluster& cluster_;
  const StepOptions& options_;
  const Bytes staging_;
  const std::string between_;
  std::map<Bytes, double> known_;
  std::map<Bytes, std::string> plan_;
};

}  // namespace

void print_step(const Cluster& cluster, const StepOptions& options, Bytes staging,
                const std::string& between) {
  const std::vector<Gradient> gradients = gradients_of(options);
  const std::vector<StepCall> calls = calls_of(gradients, options.rule);
  Timer timer(cluster, options, staging, between);
  fmt::print("\na step of {} on {} hosts x {} GPUs, {}\n{:>10} {:>12} {:>12}   {}\n", options.model,
             cluster.hosts, cluster.gpus, options.predicted ? "predicted" : "simulated", "ready", "bytes",
             "all-reduce", "our plan");
  auto seconds_of = [&](Bytes bytes) { return timer.seconds_of(bytes); };
  for (const StepCall& call : calls) {
    const double seconds = seconds_of(call.bytes);
    fmt::print("{:>7.2f} ms {:>12} {:>9.3f} ms   {}\n", call.ready * 1e3, call.bytes, seconds * 1e3,
               timer.plan_of(call.bytes));
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
