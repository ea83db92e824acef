#include "interpose/mpi/own_reductions.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <utility>
#include <vector>

#include "interpose/mpi/made_types.hpp"
#include "interpose/mpi/state.hpp"

namespace ddl::mpi {
namespace {

bool is_among(MPI_Datatype type, std::initializer_list<MPI_Datatype> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}
bool is_among(MPI_Op op, std::initializer_list<MPI_Op> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

bool is_pair(MPI_Datatype type) {
  return is_among(type, {MPI_FLOAT_INT, MPI_DOUBLE_INT, MPI_LONG_INT, MPI_2INT, MPI_SHORT_INT, MPI_2REAL,
                         MPI_2DOUBLE_PRECISION, MPI_2INTEGER});
}
bool is_complex(MPI_Datatype type) {
  return is_among(type, {MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX, MPI_DOUBLE_COMPLEX});
}

// What MPI defines; else the original has an error to report.
bool is_defined(MPI_Datatype type, MPI_Op op) {
  if (is_among(op, {MPI_MINLOC, MPI_MAXLOC})) return is_pair(type);
  if (is_among(op, {MPI_SUM, MPI_PROD})) return is_complex(type) || type == MPI_LONG_DOUBLE;
  if (is_among(op, {MPI_MIN, MPI_MAX})) return type == MPI_LONG_DOUBLE;
  if (is_among(op, {MPI_LAND, MPI_LOR, MPI_LXOR})) return type == MPI_C_BOOL;
  return false;
}

bool is_named(MPI_Datatype type) { return combiner_of(type) == MPI_COMBINER_NAMED; }

bool is_predefined(MPI_Op op) {
  return is_among(op, {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR,
                       MPI_BXOR, MPI_MINLOC, MPI_MAXLOC, MPI_REPLACE, MPI_NO_OP});
}

// By part of the hash of their handles.
constexpr int kFreedBits = 6;
std::array<std::atomic<unsigned>, 1 << kFreedBits> freed_so_far{};
std::atomic<unsigned>& freed_like(const void* handle) {
  const std::uint64_t hash = reinterpret_cast<std::uintptr_t>(handle) * 0x9e3779b97f4a7c15ull;
  return freed_so_far[hash >> (64 - kFreedBits)];
}

// Operations of the program's under way, and those that it has freed meanwhile.
std::mutex reductions_mutex;
std::vector<MPI_Op>& in_use() {
  static auto& all = *new std::vector<MPI_Op>;  // outlives exit handlers of the program
  return all;
}
std::vector<MPI_Op>& to_free() {
  static auto& all = *new std::vector<MPI_Op>;
  return all;
}

bool contains(const std::vector<MPI_Op>& ops, MPI_Op op) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

}  // namespace

std::optional<DType> layout_of_own(MPI_Datatype type, MPI_Op op) {
  if (op == MPI_OP_NULL || type == MPI_DATATYPE_NULL) return std::nullopt;
  int commutes = 0;
  const bool may_be = is_predefined(op) ? is_defined(type, op)
                                        : PMPI_Op_commutative(op, &commutes) == MPI_SUCCESS && commutes &&
                                              (is_named(type) || (size_in_call(type) && is_dense(type)));
  const TypeFacts* facts = may_be ? facts_of(type) : nullptr;
  if (!facts || facts->lower != 0) return std::nullopt;
  return layout_of(static_cast<Bytes>(std::max<MPI_Aint>(facts->extent, 0)));
}

bool has_gaps(MPI_Datatype pair) { return is_among(pair, {MPI_DOUBLE_INT, MPI_LONG_INT, MPI_SHORT_INT}); }

namespace {

template <class Value>
void copy_pairs_of(std::byte* to, const std::byte* from, std::uint64_t count) {
  struct Pair {
    Value value;
    int place;
  };
  for (; count > 0; --count, to += sizeof(Pair), from += sizeof(Pair)) {
    std::memcpy(to, from, sizeof(Value));
    std::memcpy(to + offsetof(Pair, place), from + offsetof(Pair, place), sizeof(int));
  }
}

}  // namespace

void copy_pairs(void* to, const void* from, std::uint64_t count, MPI_Datatype pair) {
  const auto copy = pair == MPI_DOUBLE_INT ? copy_pairs_of<double>
                    : pair == MPI_LONG_INT ? copy_pairs_of<long>
                                           : copy_pairs_of<short>;
  copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), count);
}

bool may_outlive_call(MPI_Datatype type) { return is_named(type); }

OwnReductionCall::OwnReductionCall(MPI_Datatype type, MPI_Op op, Meanwhile meanwhile)
    : type_(type), op_(op), holds_op_(meanwhile == Meanwhile::may_be_freed && !is_predefined(op)) {
  if (!holds_op_) return;
  std::lock_guard lock(reductions_mutex);
  in_use().push_back(op);
}

OwnReductionCall::~OwnReductionCall() {
  if (!holds_op_) return;
  std::lock_guard lock(reductions_mutex);
  in_use().erase(std::find(in_use().begin(), in_use().end(), op_));
  auto freed = std::find(to_free().begin(), to_free().end(), op_);
  if (freed == to_free().end() || contains(in_use(), op_)) return;
  MPI_Op op = *freed;
  to_free().erase(freed);
  DDL_NEXT(MPI_Op_free)(&op);
}

void OwnReductionCall::combine(void* self, const void* in, void* inout, uint64_t count) {
  auto* call = static_cast<OwnReductionCall*>(self);
  if (call->thrown_) return;
  try {
    PMPI_Reduce_local(in, inout, static_cast<int>(count), call->type_, call->op_);
  } catch (...) {  // it must not pass the engine, which goes on
    call->thrown_ = std::current_exception();
  }
}

void OwnReductionCall::throw_on() {
  if (!thrown_) return;
  note_thrown_by_program();
  std::rethrow_exception(std::exchange(thrown_, nullptr));
}

unsigned operations_freed(const void* handle) { return freed_like(handle).load(std::memory_order_relaxed); }

int free_operation(MPI_Op* op) {
  freed_like(*op).fetch_add(1, std::memory_order_relaxed);
  {
    std::lock_guard lock(reductions_mutex);
    if (contains(in_use(), *op)) {
      to_free().push_back(*op);
      *op = MPI_OP_NULL;
      return MPI_SUCCESS;
    }
  }
  return DDL_NEXT(MPI_Op_free)(op);
}

}  // namespace ddl::mpi
