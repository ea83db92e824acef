// Communicators that live shortly: made, perhaps used once, and freed.
#include <thread>

#include "items.hpp"
#include "timing.hpp"

namespace calls {
namespace {

constexpr Loop kLoop{10, 20};
constexpr int kCyclesOfThread = 50;
constexpr std::uint64_t kUnused = 0;

MPI_Comm duplicate(MPI_Comm parent) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(parent, &made);
  return made;
}

MPI_Comm split(MPI_Comm parent) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_split(parent, 0, 0, &made);
  return made;
}

MPI_Comm create(MPI_Comm parent) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(parent, &group);
  MPI_Comm_create(parent, group, &made);
  MPI_Group_free(&group);
  return made;
}

MPI_Comm create_group(MPI_Comm parent) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(parent, &group);
  MPI_Comm_create_group(parent, group, 0, &made);
  MPI_Group_free(&group);
  return made;
}

struct Cycle {
  const char* what;
  MPI_Comm (*make)(MPI_Comm);
  std::uint64_t bytes;  // of the all-reduce on it, or kUnused
};

constexpr Cycle kCycles[] = {{"dup, free", duplicate, kUnused},
                             {"dup, allreduce, free", duplicate, 4},
                             {"dup, allreduce, free", duplicate, 4 << 10},
                             {"split, free", split, kUnused},
                             {"split, allreduce, free", split, 4 << 10},
                             {"create, free", create, kUnused},
                             {"create_group, free", create_group, kUnused}};

double time_cycle_us(const Options& options, const Cycle& cycle, Report& report) {
  Reduction data(cycle.bytes);
  Loop loop = kLoop;
  if (options.rounds > 0) loop.batches = options.rounds;
  return time_loop_us(loop, data, report, [&] {
    MPI_Comm comm = cycle.make(MPI_COMM_WORLD);
    if (cycle.bytes != kUnused) data.call(comm);
    MPI_Comm_free(&comm);
  });
}

void make_and_free(MPI_Comm parent, int times) {
  for (int i = 0; i < times; ++i) {
    MPI_Comm made = duplicate(parent);
    MPI_Comm_free(&made);
  }
}

// The time of a whole round, in which every thread makes and frees `cycles` communicators.
double time_threads(const std::vector<MPI_Comm>& parents, int cycles) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  std::vector<std::thread> threads;
  for (MPI_Comm parent : parents) threads.emplace_back(make_and_free, parent, cycles);
  for (std::thread& thread : threads) thread.join();
  return MPI_Wtime() - start;
}

void measure_with_threads(const Options& options, Report& report, int threads) {
  std::vector<MPI_Comm> parents;
  for (int i = 0; i < threads; ++i) parents.push_back(duplicate(MPI_COMM_WORLD));
  const int rounds = options.rounds > 0 ? options.rounds : kLoop.batches;
  std::vector<double> times;
  time_threads(parents, kCyclesOfThread);
  for (int round = 0; round < rounds; ++round)
    times.push_back(time_threads(parents, kCyclesOfThread) / kCyclesOfThread);
  Reduction data(4 << 10);
  for (MPI_Comm& parent : parents) {
    data.prepare();
    data.call(parent);
    report.check(data.right());
    MPI_Comm_free(&parent);
  }
  const std::string what = "dup, free, threads: " + std::to_string(threads);
  report.add({"threads", what, 0, median(slowest(times)) * 1e6, "us"});
}

}  // namespace

void measure_communicators(const Options& options, Report& report) {
  for (const Cycle& cycle : kCycles)
    report.add({"communicators", cycle.what, cycle.bytes, time_cycle_us(options, cycle, report), "us"});
}

void measure_threads(const Options& options, Report& report) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) return;
  for (const int threads : {1, 4}) measure_with_threads(options, report, threads);
}

}  // namespace calls
