#include "replay.hpp"

#include <fmt/core.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compute.hpp"
#include "job.hpp"
#include "measure.hpp"
#include "model.hpp"
#include "pattern.hpp"
#include "results_file.hpp"

namespace bench {
namespace {

// Rank 0 reads, for the others may be on hosts that do not have the file. Empty when it cannot be used, which
// rank 0 has said then.
Model load(const Options& options, int rank) {
  ModelFile file;
  if (rank == 0) {
    file = read_model(options.replay);
    if (file.error.empty()) file.error = parse_model(options.replay, file.text).error;
    if (!file.error.empty()) fmt::print(stderr, "ddl-bench: error: {}\n", file.error);
  }
  std::uint64_t bytes = file.error.empty() ? file.text.size() : 0;
  MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (bytes == 0) return {};
  file.text.resize(bytes);
  MPI_Bcast(file.text.data(), static_cast<int>(bytes), MPI_CHAR, 0, MPI_COMM_WORLD);
  Model model = parse_model(options.replay, file.text).model;
  if (options.compute_ms >= 0) model.compute_in(options.compute_ms * 1e-3);
  return model;
}

// The gradients of one rank, and the three things that are done with them.
class Step {
 public:
  Step(const Options& options, const Model& model, const Pattern& pattern, int rank)
      : options_(options),
        model_(model),
        pattern_(pattern),
        rank_(rank),
        op_(mpi_op(options.reduce)),
        compute_(options.sleep ? Computing::sleep : Computing::busy) {
    for (const Tensor& tensor : model.tensors) {
      const std::size_t bytes = tensor.elements * element_bytes(options.dtype);
      results_.emplace_back(bytes);
      given_.emplace_back(options.inplace ? 0 : bytes);
    }
  }

  /// Contributions to the all-reduces of one step.
  void prepare(int step) {
    auto& given = options_.inplace ? results_ : given_;
    for (std::size_t t = 0; t < given.size(); ++t)
      pattern_.fill(given[t].data(), elements(t), call_of(step, t), rank_);
  }

  void compute_alone() {
    for (const Tensor& tensor : model_.tensors) compute_.run(tensor.seconds);
  }
  void all_reduces_alone() {
    for (std::size_t t = 0; t < results_.size(); ++t) reduce(t);
    wait();
  }
  void both() {
    for (std::size_t t = 0; t < results_.size(); ++t) {
      compute_.run(model_.tensors[t].seconds);
      reduce(t);
    }
    wait();
  }

  std::uint64_t wrong(int step) const {
    std::uint64_t tensors = 0;
    for (std::size_t t = 0; t < results_.size(); ++t)
      tensors += pattern_.wrong(results_[t].data(), elements(t), call_of(step, t)) > 0 ? 1 : 0;
    return tensors;
  }

 private:
  std::size_t elements(std::size_t t) const { return model_.tensors[t].elements; }
  // Tensors of a step contribute differently, so that results in each other's place are wrong.
  static int call_of(int step, std::size_t t) { return 5 * step + static_cast<int>(t); }

  void reduce(std::size_t t) {
    if (elements(t) == 0) return;
    const void* from = options_.inplace ? MPI_IN_PLACE : given_[t].data();
    void* to = results_[t].data();
    const int count = static_cast<int>(elements(t));
    if (options_.blocking) {
      MPI_Allreduce(from, to, count, pattern_.type(), op_, MPI_COMM_WORLD);
      return;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(from, to, count, pattern_.type(), op_, MPI_COMM_WORLD, &request);
    requests_.push_back(request);
  }
  void wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
  }

  const Options& options_;
  const Model& model_;
  const Pattern& pattern_;
  const int rank_;
  const MPI_Op op_;
  Compute compute_;
  std::vector<std::vector<std::byte>> results_, given_;  // by tensor
  std::vector<MPI_Request> requests_;
};

// What is measured, in turn in each round.
struct Part {
  const char* name;
  void (Step::*run)();
  bool reduces;
};
constexpr Part kParts[] = {{"step", &Step::both, true},
                           {"computing alone", &Step::compute_alone, false},
                           {"all-reduces alone", &Step::all_reduces_alone, true}};

struct Replayed {
  Times parts[std::size(kParts)];
  std::uint64_t verified = 0, wrong = 0;

  // Of the all-reduces' time, what a step does not take longer for them. Below 0 where they slow computing
  // down by more than they hide.
  double hidden() const {
    const double exchange = parts[2].median_us;
    return exchange > 0 ? (parts[1].median_us + exchange - parts[0].median_us) / exchange : 0;
  }
};

Replayed measure(const Options& options, const Model& model, const Pattern& pattern, const Job& job,
                 int rank) {
  Step step(options, model, pattern, rank);
  const int warmup = options.warmup >= 0 ? options.warmup : 2,
            rounds = options.iters > 0 ? options.iters : 10;
  std::vector<double> seconds[std::size(kParts)];
  std::uint64_t wrong = 0;
  Replayed result;
  for (int round = 0; round < warmup + rounds; ++round)
    for (std::size_t p = 0; p < std::size(kParts); ++p) {
      const int number = round * static_cast<int>(std::size(kParts)) + static_cast<int>(p);
      if (kParts[p].reduces) step.prepare(number);
      MPI_Barrier(MPI_COMM_WORLD);
      const double start = MPI_Wtime();
      (step.*kParts[p].run)();
      const double end = MPI_Wtime();
      if (round >= warmup) seconds[p].push_back(end - start);
      leave_together();
      if (!kParts[p].reduces) continue;
      wrong += step.wrong(number);
      result.verified += model.reduced() * static_cast<std::uint64_t>(job.ranks);
    }
  for (std::size_t p = 0; p < std::size(kParts); ++p) result.parts[p] = times_of_slowest(seconds[p]);
  MPI_Reduce(&wrong, &result.wrong, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(&result.wrong, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  return result;
}

void print_head(const Options& options, const Model& model, const Job& job, std::FILE* out) {
  fmt::print(out, "# replay {}: {} tensors, {} elements; {} {}{}, {}, {} ranks on {}\n", model.name,
             model.reduced(), model.elements(), options.blocking ? "allreduce" : "iallreduce", options.dtype,
             options.inplace ? " in place" : "", options.reduce, job.ranks, job.hosts);
  fmt::print(out, "# library {}, engine {}\n", job.library, job.engine ? "on" : "off");
  fmt::print(out, "# computing {:.1f} ms a step, {}\n", model.seconds() * 1e3,
             options.sleep ? "slept" : "busy work of the processor");
  std::fflush(out);
}

void print_table(const Options& options, const Model& model, const Replayed& result, std::FILE* out) {
  fmt::print(out, "{:>18} {:>12} {:>12} {:>7} {:>12} {:>12} {:>12} {:>12}\n", "what", "bytes", "count",
             "iters", "median us", "avg us", "min us", "max us");
  for (std::size_t p = 0; p < std::size(kParts); ++p) {
    const Times& times = result.parts[p];
    const std::size_t count = kParts[p].reduces ? model.elements() : 0;
    fmt::print(out, "{:>18} {:>12} {:>12} {:>7} {:>12.2f} {:>12.2f} {:>12.2f} {:>12.2f}\n", kParts[p].name,
               count * element_bytes(options.dtype), count, times.iters, times.median_us, times.average_us,
               times.min_us, times.max_us);
  }
  const double exchange = result.parts[2].median_us * 1e-6, after = model.seconds_after_first();
  fmt::print(out, "hidden {:.1f} % of the all-reduces", 100 * result.hidden());
  if (!options.blocking && exchange > 0)
    fmt::print(out, "; the computing behind the first of them is {:.1f} % of their time",
               100 * after / exchange);
  fmt::print(out, "\ncheck: {} {} tensors {} results {} wrong\n", model.name, model.reduced(),
             result.verified, result.wrong);
  std::fflush(out);
}

nlohmann::json to_json(const Options& options, const Model& model, const Job& job, const Replayed& result) {
  nlohmann::json parts;
  for (std::size_t p = 0; p < std::size(kParts); ++p) {
    const Times& times = result.parts[p];
    parts[kParts[p].name] = {{"iters", times.iters},
                             {"median_us", times.median_us},
                             {"avg_us", times.average_us},
                             {"min_us", times.min_us},
                             {"max_us", times.max_us}};
  }
  return {{"program", "ddl-bench"},
          {"replay", model.name},
          {"op", options.blocking ? "allreduce" : "iallreduce"},
          {"dtype", options.dtype},
          {"reduce", options.reduce},
          {"inplace", options.inplace},
          {"ranks", job.ranks},
          {"hosts", job.hosts},
          {"library", job.library},
          {"engine", job.engine},
          {"tensors", model.reduced()},
          {"bytes", model.elements() * element_bytes(options.dtype)},
          {"parts", parts},
          {"hidden", result.hidden()},
          {"verified", result.verified},
          {"wrong", result.wrong}};
}

}  // namespace

int run_replay(const Options& options, int rank, std::ofstream& json) {
  const Model model = load(options, rank);
  if (model.tensors.empty()) return 2;
  const Job job = describe_job();
  const auto pattern = make_pattern(options.dtype, options.reduce, world_size(), options.tolerance);
  std::FILE* out = options.json == "-" ? stderr : stdout;
  if (rank == 0) print_head(options, model, job, out);
  const Replayed result = measure(options, model, *pattern, job, rank);
  int code = result.wrong == 0 ? 0 : 1;
  if (rank == 0) {
    if (!write_results(options, to_json(options, model, job, result), json)) code = 1;
    print_table(options, model, result, out);
  }
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

}  // namespace bench
