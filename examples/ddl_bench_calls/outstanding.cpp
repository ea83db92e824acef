// Many nonblocking calls under way at once, as a program has them that starts one for every tensor it gets
// ready.
#include <fmt/core.h>

#include <numeric>

#include "examples/ddl_bench/model.hpp"
#include "items.hpp"
#include "timing.hpp"

namespace calls {
namespace {

std::uint64_t total(const std::vector<Reduction>& tensors) {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const Reduction& tensor) { return sum + tensor.bytes(); });
}

int rounds_for(const Options& options, std::uint64_t bytes) {
  if (options.rounds > 0) return options.rounds;
  return bytes <= 16 << 20 ? 7 : 4;
}

// Reports the time until all tensors are reduced on the slowest rank: the median over the rounds. Each round
// starts after a barrier; one more comes before to warm up.
template <typename Run>
void measure_rounds(const Options& options, Report& report, const std::string& what,
                    std::vector<Reduction>& tensors, Run run) {
  const int rounds = rounds_for(options, total(tensors));
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {
    for (Reduction& tensor : tensors) tensor.prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    run();
    const double end = MPI_Wtime();
    leave_together();
    for (const Reduction& tensor : tensors) report.check(tensor.right());
    if (round >= 0) times.push_back(end - start);
  }
  report.add({"outstanding", what, total(tensors), median(slowest(times)) * 1e3, "ms"});
}

void measure_many(const Options& options, Report& report, const std::string& what,
                  const std::vector<std::uint64_t>& bytes) {
  std::vector<Reduction> tensors(bytes.begin(), bytes.end());
  std::vector<MPI_Request> requests;
  measure_rounds(options, report, what, tensors, [&] {
    requests.clear();
    for (Reduction& tensor : tensors) requests.push_back(tensor.start(MPI_COMM_WORLD));
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  });
}

void measure_one(const Options& options, Report& report, const std::string& what, std::uint64_t bytes) {
  std::vector<Reduction> whole(1, Reduction(bytes));
  measure_rounds(options, report, what, whole, [&] { whole.front().call(MPI_COMM_WORLD); });
}

// Bytes of the gradients in float32, last layer first; none where the list is not there.
std::vector<std::uint64_t> resnet50_gradients() {
  const bench::ModelFile file = bench::read_model("resnet50");
  const bench::ParsedModel parsed = bench::parse_model("resnet50", file.text);
  if (!file.error.empty()) fmt::print(stderr, "{}\n", file.error);
  std::vector<std::uint64_t> bytes;
  for (const bench::Tensor& tensor : parsed.model.tensors)
    if (tensor.elements > 0) bytes.push_back(tensor.elements * sizeof(float));
  return bytes;
}

}  // namespace

void measure_outstanding(const Options& options, Report& report) {
  constexpr std::uint64_t kSmall = 4 << 10;
  measure_many(options, report, "400 x 4 KiB", std::vector<std::uint64_t>(400, kSmall));
  measure_many(options, report, "2000 x 4 KiB", std::vector<std::uint64_t>(2000, kSmall));
  const std::vector<std::uint64_t> gradients = resnet50_gradients();
  if (gradients.empty()) return;
  measure_many(options, report, "161 tensors of ResNet-50", gradients);
  measure_one(options, report, "ResNet-50, one blocking call",
              std::accumulate(gradients.begin(), gradients.end(), std::uint64_t{0}));
}

}  // namespace calls
