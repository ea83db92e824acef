// Calls on communicators of our own: NCCL's words in those of the engine.
#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "core/api/c_types.hpp"
#include "core/base/error.hpp"
#include "core/plan/kind.hpp"
#include "core/reduce/types.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/stream_comm.hpp"

namespace ddl::nccl {
namespace {

using Verb = Call::Verb;

constexpr ncclRedOp_t kFirstOwnOp = 16;  // NCCL keeps the small numbers for itself

// What cannot be done, and whose fault it is; no text: all is well.
struct Wrong {
  ncclResult_t result = ncclSuccess;
  std::string text;
};

Kind kind_of(Verb verb) {
  static constexpr Kind kKindOf[] = {Kind::all_reduce, Kind::reduce,     Kind::broadcast,
                                     Kind::broadcast,  Kind::all_gather, Kind::reduce_scatter,
                                     Kind::all_to_all, Kind::gather,     Kind::scatter,
                                     Kind::send,       Kind::receive};
  return kKindOf[static_cast<std::size_t>(verb)];
}

// Bytes of whatever meaning are as good as any, where nothing is computed.
std::optional<DType> type_of(ncclDataType_t type, Kind kind) {
  static constexpr DType kTypeOf[] = {DType::int8,    DType::uint8,   DType::int32,   DType::uint32,
                                      DType::int64,   DType::uint64,  DType::float16, DType::float32,
                                      DType::float64, DType::bfloat16};
  if (type >= 0 && static_cast<std::size_t>(type) < std::size(kTypeOf)) return kTypeOf[type];
  bool is_byte = type == ncclFloat8e4m3 || type == ncclFloat8e5m2;
  return is_byte && !computes(kind) ? std::optional(DType::uint8) : std::nullopt;
}

// Of NCCL's own; an average is a sum that is divided.
constexpr Op kOpOf[] = {Op::sum, Op::prod, Op::max, Op::min, Op::sum};

ddl_stream_call in_our_words(const Call& call, Kind kind, DType type) {
  ddl_stream_call to{};
  to.kind = to_c(kind);
  to.in = call.in;
  to.out = call.out;
  to.count = call.count;
  to.type = to_c(type);
  to.root = call.peer;
  to.stream = call.stream;
  to.name = name_of(call.verb);
  return to;
}

Wrong translate_op(StreamComm& ours, const Call& call, ddl_stream_call& to) {
  to.op = to_c(Op::sum);
  to.scale = call.op == ncclAvg ? DDL_STREAM_AVERAGE : DDL_STREAM_UNSCALED;
  if (call.op >= 0 && call.op <= ncclAvg) {
    to.op = to_c(kOpOf[call.op]);
    return {};
  }
  std::lock_guard lock(ours.mutex);
  auto own = ours.ops.find(call.op);
  if (own == ours.ops.end())
    return {ncclInvalidArgument,
            std::string(name_of(call.verb)) + " names an operation that this communicator does not have"};
  if (own->second.type != call.type)
    return {ncclInvalidArgument, std::string(name_of(call.verb)) + " has another type than its operation"};
  to.scale = DDL_STREAM_TIMES_SCALAR;
  std::memcpy(to.scalar, own->second.scalar.data(), sizeof(to.scalar));
  return {};
}

Wrong translate(StreamComm& ours, const Call& call, ddl_stream_call& to) {
  Kind kind = kind_of(call.verb);
  std::optional<DType> type = type_of(call.type, kind);
  if (!type)
    return {ncclInvalidUsage, Error::sentence(std::string(name_of(call.verb)) + " has a type (" +
                                                  std::to_string(call.type) + ") that the engine lacks",
                                              "the engine itself serves this communicator, without NCCL",
                                              "convert the data, or give every rank a GPU of its own")};
  to = in_our_words(call, kind, *type);
  return computes(kind) ? translate_op(ours, call, to) : Wrong{};
}

ncclResult_t destroy_op(StreamComm& ours, const Call& call) {
  std::unique_lock lock(ours.mutex);
  if (ours.ops.erase(call.op) == 1) return ncclSuccess;
  lock.unlock();
  return complain(call.comm, ncclInvalidArgument,
                  "ncclRedOpDestroy names an operation that this communicator does not have");
}

std::string on_rank(const StreamComm& ours, const std::string& text) {
  return "rank " + std::to_string(ours.rank) + " of " + std::to_string(ours.size) + ": " + text;
}

// What the engine says went wrong: the call's, or the communicator's, which has been said.
ncclResult_t pass_on(StreamComm& ours, ncclComm_t comm, ncclResult_t result, const ddl_problem& problem) {
  ddl_problem said;
  if (stream_api()->state(ours.engine, &said) == DDL_STREAM_OK)
    return complain(comm, result, on_rank(ours, problem.text));
  std::lock_guard lock(ours.mutex);
  std::copy(std::begin(said.text), std::end(said.text), ours.last_error.begin());
  return result;
}

ncclResult_t perform(StreamComm& ours, const Call& call) {
  if (call.verb == Verb::destroy_op) return destroy_op(ours, call);
  ddl_stream_call translated{};
  ddl_problem problem;
  if (Wrong wrong = translate(ours, call, translated); wrong.result != ncclSuccess)
    return complain(call.comm, wrong.result, on_rank(ours, wrong.text));
  Nanoseconds began = report_clock();
  ddl_stream_became became;
  ncclResult_t result = result_of(stream_api()->submit(ours.engine, &translated, &became, &problem));
  if (result != ncclSuccess) return pass_on(ours, call.comm, result, problem);
  count_served(call, became.where, report_clock() - began);
  if (call.verb == Verb::send && call.out) {  // it was a receive too
    Call receive = call;
    receive.verb = Verb::recv;
    count_served(receive, became.where, 0);
  }
  return result;
}

// The all-reduces of one communicator in a group, and what became of them. Groups come again and again: the
// places stay.
struct Together {
  std::vector<Call> calls;
  std::vector<ddl_stream_call> translated;
  std::vector<ddl_stream_became> became;  // where a report is wanted
  std::vector<const Call*> batch;
};
thread_local Together together;

std::string class_of(const ddl_stream_call& call, const ddl_stream_became& became) {
  const auto wire = static_cast<WireType>(became.wire);
  std::string_view op = name_of(from_c(call.op));
  if (call.scale == DDL_STREAM_AVERAGE) op = "average";
  if (call.scale == DDL_STREAM_TIMES_SCALAR) op = "sum of multiples";
  const std::string text = fmt::format("{}, {}", name_of(from_c(call.type)), op);
  return wire == WireType::exact ? text : fmt::format("{}, {} between hosts", text, name_of(wire));
}

void count_together(Nanoseconds time) {
  if (together.became.empty()) return;
  const Nanoseconds each = time / static_cast<Nanoseconds>(together.calls.size());
  for (std::size_t i = 0; i < together.calls.size(); ++i) {
    const std::uint32_t batch = together.became[i].batch;
    if (batch == 0) count_served(together.calls[i], together.became[i].where, each);
    if (batch == 0 || batch != i + 1) continue;  // it is counted with the first
    together.batch.clear();
    for (std::size_t k = i; k < together.calls.size(); ++k)
      if (together.became[k].batch == batch) together.batch.push_back(&together.calls[k]);
    count_fused(together.batch, class_of(together.translated[i], together.became[i]), each);
  }
}

// None is begun where one is wrong, as NCCL has it.
ncclResult_t perform_together(StreamComm& ours) {
  const ncclComm_t comm = together.calls[0].comm;
  together.translated.clear();
  for (const Call& call : together.calls)
    if (Wrong wrong = translate(ours, call, together.translated.emplace_back()); wrong.result != ncclSuccess)
      return complain(comm, wrong.result, on_rank(ours, wrong.text));
  const Nanoseconds began = report_clock();
  ddl_problem problem;
  together.became.assign(is_counted() ? together.calls.size() : 0, {});
  ncclResult_t result = result_of(
      stream_api()->submit_together(ours.engine, together.translated.data(), together.translated.size(),
                                    together.became.empty() ? nullptr : together.became.data(), &problem));
  if (result != ncclSuccess) return pass_on(ours, comm, result, problem);
  count_together(report_clock() - began);
  return result;
}

// All that belongs to it from the first on.
void take_together(std::vector<Call>& calls, std::size_t first) {
  const Comm* record = calls[first].record.get();
  together.calls.clear();
  for (std::size_t i = first; i < calls.size(); ++i)
    if (calls[i].verb == Verb::all_reduce && calls[i].record.get() == record)
      together.calls.push_back(std::move(calls[i]));
}

}  // namespace

ncclResult_t perform_ours(const Call& call) {
  return with_ours(*call.record, name_of(call.verb), [&](StreamComm& ours) { return perform(ours, call); });
}

ncclResult_t perform_group(std::vector<Call>& calls) {
  struct Clear {
    ~Clear() { together.calls.clear(); }
  } whatever_happens;
  ncclResult_t first = ncclSuccess;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].record) continue;  // it went with an earlier one
    const std::shared_ptr<StreamComm> ours = calls[i].record->stream();
    const bool are_together = ours && ours->fuses && calls[i].verb == Verb::all_reduce;
    if (are_together) take_together(calls, i);
    ncclResult_t result = are_together ? perform_together(*ours) : perform_ours(calls[i]);
    if (went_well(first)) first = result;
  }
  return first;
}

ncclResult_t submit_to(ddl_stream_comm* ours, const Call& call) {
  const Kind kind = kind_of(call.verb);
  ddl_stream_call one = in_our_words(call, kind, *type_of(call.type, kind));
  one.op = to_c(kOpOf[call.op]);
  ddl_problem problem, said;
  ncclResult_t result = result_of(stream_api()->submit(ours, &one, nullptr, &problem));
  if (result != ncclSuccess && stream_api()->state(ours, &said) == DDL_STREAM_OK)
    complain(nullptr, result, problem.text);
  return result;
}

ncclResult_t red_op_create_pre_mul_sum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  CommPtr record = find_ours(comm);
  if (!record) return original::ncclRedOpCreatePreMulSum(op, scalar, type, residence, comm);
  return with_ours(*record, "ncclRedOpCreatePreMulSum", [&](StreamComm& ours) -> ncclResult_t {
    std::optional<DType> known = type_of(type, Kind::all_reduce);
    if (!op || !scalar || !known)
      return complain(comm, ncclInvalidArgument,
                      "ncclRedOpCreatePreMulSum has a null pointer or no such type");
    if (residence != ncclScalarHostImmediate)
      return complain(
          comm, ncclInvalidUsage,
          Error::sentence("ncclRedOpCreatePreMulSum has a scalar in device memory",
                          "the host computes on this communicator", "use ncclScalarHostImmediate"));
    OwnOp made{type, {}};
    std::memcpy(made.scalar.data(), scalar, size_of(*known));
    std::lock_guard lock(ours.mutex);
    ncclRedOp_t free = kFirstOwnOp;
    while (ours.ops.count(free)) ++free;
    ours.ops[free] = made;
    *op = free;
    return ncclSuccess;
  });
}

}  // namespace ddl::nccl
