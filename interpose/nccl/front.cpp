// The table of functions that the shim asks for, with what guards them: handles that are none, groups, and
// calls that no hook of ours knows.
#include "interpose/nccl/front.hpp"

#include <atomic>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "interpose/nccl/call.hpp"
#include "interpose/nccl/comms.hpp"
#include "interpose/nccl/creation.hpp"
#include "interpose/nccl/group.hpp"
#include "interpose/nccl/pending.hpp"
#include "interpose/nccl/report.hpp"
#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

ddl_nccl_table originals;

constexpr ncclResult_t kVersionWithoutNccl = 22809;  // whose interface we serve where there is no NCCL

// ncclCollConfig_t of NCCL 2.32: launchCompletionEvent, which a program waits for.
bool wants_event(const ncclCollConfig_t* config) {
  struct UpToEvent {
    std::size_t size;
    std::byte others[56];
    void* event;
  };
  const auto* known = static_cast<const UpToEvent*>(config);
  return known && known->size >= sizeof(UpToEvent) && known->event;
}

template <class Result>
Result refuse(const char* name) {
  if constexpr (std::is_same_v<Result, ncclResult_t>) return refuse_ours(nullptr, name);
  if constexpr (!std::is_same_v<Result, ncclResult_t>) return refuse_ours(nullptr, name), Result();
}

// What no hook of ours knows: forwarded, after what a group has recorded before it; our own communicators do
// not have it.
namespace forward {
#define DDL_NCCL_CALL(Result, name, parameters, arguments) \
  Result name parameters {                                 \
    if (any_ours arguments) return refuse<Result>(#name);  \
    open_group();                                          \
    return original::name arguments;                       \
  }
#define DDL_NCCL_QUERY(Result, name, parameters, arguments) \
  Result name parameters {                                  \
    if (any_ours arguments) return refuse<Result>(#name);   \
    return original::name arguments;                        \
  }
#include "interpose/nccl/hooks.def"
}  // namespace forward

// A collective with a configuration: as without where there is none, and on a communicator of ours, for which
// most of it has no meaning.
template <auto kPlain, auto kForwarded>
struct Configured;
template <class... Arguments, ncclResult_t (*kPlain)(Arguments...), auto kForwarded>
struct Configured<kPlain, kForwarded> {
  static ncclResult_t call(Arguments... arguments, const ncclCollConfig_t* config) {
    const bool is_ours = any_ours(arguments...);
    if (config && !is_ours) return kForwarded(arguments..., config);
    if (is_ours && wants_event(config))
      return refuse_ours(nullptr, "a collective with an event for its launch");
    return kPlain(arguments...);
  }
};

// What is asked of a communicator that another thread still makes is refused, as NCCL does, but for these.
constexpr bool is_for_unmade(std::string_view name) {
  return name == "ncclCommGetAsyncError" || name == "ncclGetLastError" || name == "ncclCommAbort" ||
         name == "ncclCommDestroy";
}
// The functions behind the hooks, with the communicators that the program's handles stand for.
ddl_nccl_table behind;
namespace resolving {
// An argument of a hook: what a handle stands for, and any other as it is.
template <class Other>
struct Argument {
  explicit Argument(Other other) : real(other) {}
  Other real;
  ncclResult_t refuse(const char*) const { return ncclSuccess; }
  bool ended = false;
};
template <>
struct Argument<ncclComm_t> : Standing {
  explicit Argument(ncclComm_t comm) : Standing(standing_of(comm)) {}
  ncclResult_t refuse(const char* name) const { return refuse_unmade(name, *this); }
};

template <class Function>
struct Resolved {
  const char* name;
  Function* call;
  template <class... Arguments>
  auto operator()(Arguments... arguments) const {
    using Result = decltype(call(arguments...));
    return std::apply(
        [&](const auto&... one) -> Result {
          const bool ended = (false || ... || one.ended);
          const bool may_be_ended = name == std::string_view("ncclGetLastError");
          if (is_for_unmade(name) && (!ended || may_be_ended)) return call(arguments...);
          ncclResult_t wrong = ncclSuccess;
          (void)(false || ... || ((wrong = one.refuse(name)) != ncclSuccess));
          if (wrong == ncclSuccess) return call(one.real...);
          if constexpr (std::is_same_v<Result, ncclResult_t>) return wrong;
          if constexpr (!std::is_same_v<Result, ncclResult_t>) return Result();
        },
        std::tuple(Argument<Arguments>(arguments)...));
  }
};

#define DDL_NCCL_HOOK(Result, name, parameters, arguments)           \
  Result name parameters {                                           \
    auto call = reinterpret_cast<Result(*) parameters>(behind.name); \
    if (!has_pending()) return call arguments;                       \
    return Resolved<Result parameters>{#name, call} arguments;       \
  }
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
}  // namespace resolving

template <class Function>
ddl_function as_word(Function* function) {
  return reinterpret_cast<ddl_function>(function);
}

ncclResult_t get_version(int* version) {
  if (next().ncclGetVersion) return original::ncclGetVersion(version);
  if (!version) return ncclInvalidArgument;
  *version = kVersionWithoutNccl;
  return ncclSuccess;
}

const char* get_error_string(ncclResult_t result) {
  if (next().ncclGetErrorString) return original::ncclGetErrorString(result);
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result >= 0 && result <= ncclInProgress ? kTexts[result] : "unknown result code";
}

// Calls that move data find out for themselves what a handle stands for, if they have to.
void fill_calls(ddl_nccl_table& front) {
  front.ncclRedOpDestroy = as_word(red_op_destroy);
  front.ncclAllReduce = as_word(all_reduce);
  front.ncclReduce = as_word(reduce);
  front.ncclBcast = as_word(bcast);
  front.ncclBroadcast = as_word(broadcast);
  front.ncclAllGather = as_word(all_gather);
  front.ncclReduceScatter = as_word(reduce_scatter);
  front.ncclAlltoAll = as_word(all_to_all);
  front.ncclGather = as_word(gather);
  front.ncclScatter = as_word(scatter);
  front.ncclSend = as_word(send);
  front.ncclRecv = as_word(recv);
}

void fill(ddl_nccl_table& front) {
#define DDL_NCCL_HOOK(Result, name, parameters, arguments) front.name = as_word(resolving::name);
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
  fill_calls(front);
}

void fill_behind(ddl_nccl_table& front) {
#define DDL_NCCL_HOOK(Result, name, parameters, arguments) front.name = as_word(forward::name);
#include "interpose/nccl/hooks.def"
#undef DDL_NCCL_HOOK
  front.ncclGetVersion = as_word(get_version);
  front.ncclGetErrorString = as_word(get_error_string);
  front.ncclGetUniqueId = as_word(get_unique_id);
  front.ncclGetLastError = as_word(get_last_error);
  front.ncclCommInitRank = as_word(comm_init_rank);
  front.ncclCommInitRankConfig = as_word(comm_init_rank_config);
  front.ncclCommInitRankScalable = as_word(comm_init_rank_scalable);
  front.ncclCommInitAll = as_word(comm_init_all);
  front.ncclCommSplit = as_word(comm_split);
  front.ncclCommShrink = as_word(comm_shrink);
  front.ncclCommFinalize = as_word(comm_finalize);
  front.ncclCommGetAsyncError = as_word(comm_get_async_error);
  front.ncclCommCount = as_word(comm_count);
  front.ncclCommCuDevice = as_word(comm_cu_device);
  front.ncclCommUserRank = as_word(comm_user_rank);
  front.ncclCommRegister = as_word(comm_register);
  front.ncclCommDeregister = as_word(comm_deregister);
  front.ncclMemAlloc = as_word(mem_alloc);
  front.ncclMemFree = as_word(mem_free);
  front.ncclRedOpCreatePreMulSum = as_word(red_op_create_pre_mul_sum);
  front.ncclCommDestroy = as_word(comm_destroy);
  front.ncclCommAbort = as_word(comm_abort);
  front.ncclCommRevoke = as_word(comm_revoke);
  front.ncclGroupStart = as_word(group_start);
  front.ncclGroupEnd = as_word(group_end);
  front.ncclGroupSimulateEnd = as_word(group_simulate_end);
  front.ncclAllReduceConfig = as_word(Configured<all_reduce, forward::ncclAllReduceConfig>::call);
  front.ncclReduceConfig = as_word(Configured<reduce, forward::ncclReduceConfig>::call);
  front.ncclBroadcastConfig = as_word(Configured<broadcast, forward::ncclBroadcastConfig>::call);
  front.ncclAllGatherConfig = as_word(Configured<all_gather, forward::ncclAllGatherConfig>::call);
  front.ncclReduceScatterConfig = as_word(Configured<reduce_scatter, forward::ncclReduceScatterConfig>::call);
  front.ncclAlltoAllConfig = as_word(Configured<all_to_all, forward::ncclAlltoAllConfig>::call);
  front.ncclGatherConfig = as_word(Configured<gather, forward::ncclGatherConfig>::call);
  front.ncclScatterConfig = as_word(Configured<scatter, forward::ncclScatterConfig>::call);
}

}  // namespace

const ddl_nccl_table& next() { return originals; }

ncclResult_t no_original(const char* name) {
  if (has_ours() && !next().ncclCommInitRank)
    return complain(
        nullptr, ncclInvalidArgument,
        std::string(name) + " names no communicator of the engine, and there is no NCCL in this process");
  static std::atomic_flag said;
  bool older = next().ncclCommInitRank != nullptr;
  if (!said.test_and_set())
    log_error(Error::sentence(std::string(name) + " cannot be served",
                              older ? "the NCCL library in this process does not have it"
                                    : "no NCCL library is loaded in this process",
                              older ? "run the program with the NCCL it was built for"
                                    : "link the program with libnccl.so.2, or put it on LD_LIBRARY_PATH"));
  return ncclSystemError;
}

ncclResult_t report_exception(const std::exception& error) {
  log_error(error.what());
  return ncclInternalError;
}

}  // namespace ddl::nccl

extern "C" __attribute__((visibility("default"))) int ddl_nccl_front(uint32_t version,
                                                                     const ddl_nccl_table* next,
                                                                     ddl_nccl_table* front) {
  if (version != DDL_FRONT_VERSION) return 0;
  ddl::nccl::originals = *next;
  return ddl::nccl::guarded([front] {
           ddl::nccl::start_report();
           ddl::nccl::fill_behind(ddl::nccl::behind);
           ddl::nccl::fill(*front);
           return ncclSuccess;
         }) == ncclSuccess;
}
