// Many nonblocking calls under way at once, as a program has them that starts one for every tensor it gets
// ready.
#include <numeric>

#include "items.hpp"
#include "resnet50.hpp"
#include "timing.hpp"

namespace calls {
namespace {

constexpr int kRounds = 7;

std::uint64_t total(const std::vector<std::uint64_t>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0});
}

// Milliseconds until all are done on the slowest rank, the median over the rounds. Each round starts after a
// barrier, two more come before to warm up.
template <typename Run>
double time_rounds_ms(const Options& options, std::vector<Reduction>& tensors, Report& report, Run run) {
  const int rounds = options.rounds > 0 ? options.rounds : kRounds;
  std::vector<double> times;
  for (int round = -2; round < rounds; ++round) {
    for (Reduction& tensor : tensors) tensor.prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    run();
    const double end = MPI_Wtime();
    for (const Reduction& tensor : tensors) report.check(tensor.right());
    if (round >= 0) times.push_back(end - start);
  }
  return median(slowest(times)) * 1e3;
}

void measure_many(const Options& options, Report& report, const std::string& what,
                  const std::vector<std::uint64_t>& bytes) {
  std::vector<Reduction> tensors(bytes.begin(), bytes.end());
  std::vector<MPI_Request> requests;
  const double ms = time_rounds_ms(options, tensors, report, [&] {
    requests.clear();
    for (Reduction& tensor : tensors) requests.push_back(tensor.start(MPI_COMM_WORLD));
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  });
  report.add({"outstanding", what, total(bytes), ms, "ms"});
}

void measure_one(const Options& options, Report& report, const std::string& what, std::uint64_t bytes) {
  std::vector<Reduction> whole;
  whole.emplace_back(bytes);
  const double ms = time_rounds_ms(options, whole, report, [&] { whole.front().call(MPI_COMM_WORLD); });
  report.add({"outstanding", what, bytes, ms, "ms"});
}

}  // namespace

void measure_outstanding(const Options& options, Report& report) {
  constexpr std::uint64_t kSmall = 4 << 10;
  measure_many(options, report, "400 x 4 KiB", std::vector<std::uint64_t>(400, kSmall));
  measure_many(options, report, "2000 x 4 KiB", std::vector<std::uint64_t>(2000, kSmall));
  const std::vector<std::uint64_t> gradients = resnet50_gradients();
  measure_many(options, report, "161 tensors of ResNet-50", gradients);
  measure_one(options, report, "ResNet-50, one blocking call", total(gradients));
}

}  // namespace calls
