#include "collective.hpp"

#include <algorithm>
#include <cstring>

namespace bench {
namespace {

constexpr int kRoot = 0;

struct Row {
  const char* name;
  bool has_root, reduces;
};

// In the order of Calls::Kind.
constexpr Row kRows[] = {
    {"allreduce", false, true},  {"bcast", true, false},          {"reduce", true, true},
    {"allgather", false, false}, {"reduce_scatter", false, true}, {"alltoall", false, false},
    {"gather", true, false},     {"scatter", true, false},        {"allgatherv", false, false},
    {"alltoallv", false, false}, {"gatherv", true, false},        {"scatterv", true, false},
    {"barrier", false, false},   {"copy", false, false}};

bool is_start_of(const std::string& name) { return name[0] == 'i'; }

int kind_of(const std::string& name) {
  const std::string blocking = name.substr(is_start_of(name) ? 1 : 0);
  const Row* row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return blocking == r.name; });
  return static_cast<int>(row - std::begin(kRows));
}

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const Row& row : kRows) {
      names.emplace_back(row.name);
      if (names.back() != "copy") names.push_back("i" + names.back());
    }
    return names;
  }();
  return all;
}

bool has_root(const std::string& name) { return kRows[kind_of(name)].has_root; }
bool reduces(const std::string& name) { return kRows[kind_of(name)].reduces; }
bool can_be_in_place(const std::string& name) { return kind_of(name) == kind_of("allreduce"); }
bool has_bytes(const std::string& name) { return kind_of(name) != kind_of("barrier"); }

double bus_factor(const std::string& name, int ranks) {
  if (name == "copy") return 1;
  const int kind = kind_of(name);
  if (kind == kind_of("allreduce")) return 2.0 * (ranks - 1) / ranks;
  return kind == kind_of("bcast") || kind == kind_of("reduce") ? 1 : ranks - 1;
}

Calls::Calls(const Options& options, const Pattern& pattern, std::size_t count)
    : pattern_(pattern),
      count_(count),
      bytes_(count * element_bytes(options.dtype)),
      op_(mpi_op(options.reduce)),
      kind_(static_cast<Kind>(kind_of(options.op))),
      is_nonblocking_(is_start_of(options.op)),
      in_place_(options.inplace || kind_ == Kind::kBcast) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  counts_.assign(static_cast<std::size_t>(ranks_), static_cast<int>(count));
  for (int rank = 0; rank < ranks_; ++rank) places_.push_back(rank * static_cast<int>(count));
  result_.resize(static_cast<std::size_t>(shape().out) * bytes_);
  if (!in_place_) given_.resize(static_cast<std::size_t>(shape().in) * bytes_);
}

Calls::Shape Calls::shape() const {
  const int at_root = rank_ == kRoot ? 1 : 0;
  switch (kind_) {
    case Kind::kReduce:
      return {1, at_root};
    case Kind::kAllgather:
    case Kind::kAllgatherv:
      return {1, ranks_};
    case Kind::kReduceScatter:
      return {ranks_, 1, true};
    case Kind::kAlltoall:
    case Kind::kAlltoallv:
      return {ranks_, ranks_, true};
    case Kind::kGather:
    case Kind::kGatherv:
      return {1, at_root * ranks_};
    case Kind::kScatter:
    case Kind::kScatterv:
      return {at_root * ranks_, 1, true};
    case Kind::kBarrier:
      return {0, 0};
    default:
      return {1, 1};
  }
}

std::byte* Calls::block(std::vector<std::byte>& of, int number) const {
  return of.data() + static_cast<std::size_t>(number) * bytes_;
}
const std::byte* Calls::block(const std::vector<std::byte>& of, int number) const {
  return of.data() + static_cast<std::size_t>(number) * bytes_;
}

void Calls::prepare(int call) {
  // A broadcast of the root's data overwrites the others' own.
  std::vector<std::byte>& given = in_place_ ? result_ : given_;
  for (int b = 0; b < shape().in; ++b)
    pattern_.fill(block(given, b), count_, call + (shape().tells_in_apart ? b : 0), rank_);
}

void Calls::run() {
  if (!is_nonblocking_) return start(nullptr);
  MPI_Request request = MPI_REQUEST_NULL;
  start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Without a request the blocking form.
void Calls::start(MPI_Request* request) {
  const int n = static_cast<int>(count_);
  const MPI_Datatype type = pattern_.type();
  const MPI_Comm comm = MPI_COMM_WORLD;
  const void* in = in_place_ ? MPI_IN_PLACE : given_.data();
  void* out = result_.data();
  switch (kind_) {
    case Kind::kAllreduce:
      request ? MPI_Iallreduce(in, out, n, type, op_, comm, request)
              : MPI_Allreduce(in, out, n, type, op_, comm);
      break;
    case Kind::kBcast:
      request ? MPI_Ibcast(out, n, type, kRoot, comm, request) : MPI_Bcast(out, n, type, kRoot, comm);
      break;
    case Kind::kReduce:
      request ? MPI_Ireduce(in, out, n, type, op_, kRoot, comm, request)
              : MPI_Reduce(in, out, n, type, op_, kRoot, comm);
      break;
    case Kind::kAllgather:
      request ? MPI_Iallgather(in, n, type, out, n, type, comm, request)
              : MPI_Allgather(in, n, type, out, n, type, comm);
      break;
    case Kind::kReduceScatter:
      request ? MPI_Ireduce_scatter_block(in, out, n, type, op_, comm, request)
              : MPI_Reduce_scatter_block(in, out, n, type, op_, comm);
      break;
    case Kind::kAlltoall:
      request ? MPI_Ialltoall(in, n, type, out, n, type, comm, request)
              : MPI_Alltoall(in, n, type, out, n, type, comm);
      break;
    case Kind::kGather:
      request ? MPI_Igather(in, n, type, out, n, type, kRoot, comm, request)
              : MPI_Gather(in, n, type, out, n, type, kRoot, comm);
      break;
    case Kind::kScatter:
      request ? MPI_Iscatter(in, n, type, out, n, type, kRoot, comm, request)
              : MPI_Scatter(in, n, type, out, n, type, kRoot, comm);
      break;
    case Kind::kAllgatherv:
    case Kind::kAlltoallv:
    case Kind::kGatherv:
    case Kind::kScatterv:
      start_with_counts(request);
      break;
    case Kind::kBarrier:
      request ? MPI_Ibarrier(comm, request) : MPI_Barrier(comm);
      break;
    case Kind::kCopy:
      // What the memory gives when all ranks copy at once, and nothing else.
      std::memcpy(result_.data(), given_.data(), given_.size());
      break;
  }
}

// All counts are the same, so that the times can be compared with those of the forms with one count.
void Calls::start_with_counts(MPI_Request* request) {
  const int n = static_cast<int>(count_), *counts = counts_.data(), *places = places_.data();
  const MPI_Datatype type = pattern_.type();
  const MPI_Comm comm = MPI_COMM_WORLD;
  const void* in = given_.data();
  void* out = result_.data();
  switch (kind_) {
    case Kind::kAllgatherv:
      request ? MPI_Iallgatherv(in, n, type, out, counts, places, type, comm, request)
              : MPI_Allgatherv(in, n, type, out, counts, places, type, comm);
      break;
    case Kind::kAlltoallv:
      request ? MPI_Ialltoallv(in, counts, places, type, out, counts, places, type, comm, request)
              : MPI_Alltoallv(in, counts, places, type, out, counts, places, type, comm);
      break;
    case Kind::kGatherv:
      request ? MPI_Igatherv(in, n, type, out, counts, places, type, kRoot, comm, request)
              : MPI_Gatherv(in, n, type, out, counts, places, type, kRoot, comm);
      break;
    default:
      request ? MPI_Iscatterv(in, counts, places, type, out, n, type, kRoot, comm, request)
              : MPI_Scatterv(in, counts, places, type, out, n, type, kRoot, comm);
      break;
  }
}

bool Calls::is_right(int call) const {
  if (kind_ == Kind::kCopy) return result_ == given_;
  const Shape has = shape();
  for (int b = 0; !in_place_ && b < has.in; ++b)
    if (pattern_.changed(block(given_, b), count_, call + (has.tells_in_apart ? b : 0), rank_) > 0)
      return false;
  for (int b = 0; b < has.out; ++b) {
    const std::byte* out = block(result_, b);
    std::size_t wrong = 0;
    switch (kind_) {
      case Kind::kAllreduce:
      case Kind::kReduce:
        wrong = pattern_.wrong(out, count_, call);
        break;
      case Kind::kReduceScatter:
        wrong = pattern_.wrong(out, count_, call + rank_);
        break;
      case Kind::kAlltoall:
      case Kind::kAlltoallv:
        wrong = pattern_.changed(out, count_, call + rank_, b);
        break;
      case Kind::kScatter:
      case Kind::kScatterv:
        wrong = pattern_.changed(out, count_, call + rank_, kRoot);
        break;
      default:
        wrong = pattern_.changed(out, count_, call, kind_ == Kind::kBcast ? kRoot : b);
        break;
    }
    if (wrong > 0) return false;
  }
  return true;
}

}  // namespace bench
