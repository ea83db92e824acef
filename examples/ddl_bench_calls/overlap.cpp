// How much of a nonblocking call goes on while its caller does something else, and what it costs the
// processors.
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>

#include "items.hpp"
#include "timing.hpp"

namespace calls {
namespace {

std::vector<std::uint64_t> overlap_sizes(const Options& options) {
  return sizes_or(options, {4 << 10, 1 << 20, 16 << 20});
}

// Something to do between start and wait.
class Work {
 public:
  virtual ~Work() = default;
  // Before each round, nothing being under way: the work is to take that many seconds.
  virtual void prepare(double seconds) = 0;
  // Does it and returns how long it would have taken had nothing been under way.
  virtual double run() = 0;
};

class Sleep final : public Work {
 public:
  void prepare(double seconds) override {
    time_.tv_sec = static_cast<time_t>(seconds);
    time_.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  }
  // A sleeper is not slowed down, so that the time it slept is the time it would have.
  double run() override {
    const double start = MPI_Wtime();
    nanosleep(&time_, nullptr);
    return MPI_Wtime() - start;
  }

 private:
  timespec time_{};
};

// Arithmetic in registers, without memory.
class Compute final : public Work {
 public:
  void prepare(double seconds) override {
    if (steps_per_second_ == 0) calibrate();
    steps_ = static_cast<std::uint64_t>(seconds * steps_per_second_);
    alone_ = timed(steps_);
  }
  double run() override {
    timed(steps_);
    return alone_;
  }

 private:
  void calibrate() {
    constexpr std::uint64_t kSteps = 1 << 20;
    double fastest = timed(kSteps);
    for (int i = 0; i < 10; ++i) fastest = std::min(fastest, timed(kSteps));
    steps_per_second_ = static_cast<double>(kSteps) / fastest;
  }
  double timed(std::uint64_t steps) {
    const double start = MPI_Wtime();
    double x = 0.5;
    for (std::uint64_t i = 0; i < steps; ++i) x = x * 0.999999 + 1e-7;
    kept_ = x;
    return MPI_Wtime() - start;
  }

  double steps_per_second_ = 0;
  std::uint64_t steps_ = 0;
  double alone_ = 0;
  volatile double kept_ = 0;  // so that the compiler leaves the loop
};

// Seconds from start to the end of the wait, less what the work took by itself.
double timed_round(Reduction& data, Work* work, Report& report) {
  data.prepare();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  MPI_Request request = data.start(MPI_COMM_WORLD);
  const double alone = work ? work->run() : 0;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  const double end = MPI_Wtime();
  leave_together();
  report.check(data.right());
  return end - start - alone;
}

// The same on all ranks.
double typical_seconds(const Loop& loop, Reduction& data, Report& report) {
  std::vector<double> times;
  for (int i = 0; i < loop.warmups(); ++i) timed_round(data, nullptr, report);
  for (int i = 0; i < loop.warmups(); ++i) times.push_back(timed_round(data, nullptr, report));
  double seconds = median(slowest(times));
  MPI_Bcast(&seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return seconds;
}

// Rounds with work and without alternate, each after a barrier; of the ranks the slowest counts.
void measure_hidden(const Options& options, Report& report, const std::string& item, Work& work) {
  for (const std::uint64_t bytes : overlap_sizes(options)) {
    const Loop loop = loop_for(options, bytes);
    Reduction data(bytes);
    const double seconds = typical_seconds(loop, data, report);
    std::vector<double> waited, left;
    for (int round = 0; round < loop.batches; ++round) {
      waited.push_back(timed_round(data, nullptr, report));
      work.prepare(1.2 * seconds);
      left.push_back(timed_round(data, &work, report));
    }
    const double whole = median(slowest(waited)), visible = median(slowest(left));
    report.add({item, "start, wait", bytes, whole * 1e6, "us"});
    report.add({item, "hidden", bytes, std::clamp(1 - visible / whole, 0.0, 1.0), "share"});
  }
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

// Processor time of a call in microseconds, user and system, all threads of all ranks; on rank 0.
template <typename Call>
double processor_us(const Loop& loop, Reduction& data, Report& report, Call call) {
  for (int i = 0; i < loop.warmups() * loop.calls; ++i) call();
  data.prepare();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = processor_seconds();
  for (int i = 0; i < loop.batches * loop.calls; ++i) call();
  const double own = (processor_seconds() - start) / (loop.batches * loop.calls);
  report.check(data.right());
  double all = 0;
  MPI_Reduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  return all * 1e6;
}

}  // namespace

void measure_sleep(const Options& options, Report& report) {
  Sleep sleep;
  measure_hidden(options, report, "overlap-sleep", sleep);
}

void measure_compute(const Options& options, Report& report) {
  Compute compute;
  measure_hidden(options, report, "overlap-compute", compute);
}

void measure_processor(const Options& options, Report& report) {
  for (const std::uint64_t bytes : overlap_sizes(options)) {
    Reduction data(bytes);
    const Loop loop = loop_for(options, bytes);
    const double blocking = processor_us(loop, data, report, [&] { data.call(MPI_COMM_WORLD); });
    const double nonblocking = processor_us(loop, data, report, [&] {
      MPI_Request request = data.start(MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    });
    report.add({"processor", "allreduce", bytes, blocking, "us"});
    report.add({"processor", "iallreduce, wait", bytes, nonblocking, "us"});
  }
}

}  // namespace calls
