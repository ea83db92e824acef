#include "interpose/nccl/nccl_library.hpp"

#include <algorithm>
#include <iterator>

#include "interpose/nccl/stream_comms.hpp"

namespace ddl::nccl {
namespace {

static_assert(int{DDL_RAILS_ID_BYTES} == DDL_STREAM_ID_BYTES &&
              int{DDL_RAILS_TEXT_BYTES} == DDL_PROBLEM_BYTES);

ncclComm_t comm_of(void* comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
ddl_stream_comm* rails_of(void* rails) { return static_cast<ddl_stream_comm*>(rails); }

int say(int result, const char* text) { return complain(nullptr, result, text); }
const char* last_error(void* comm) { return original::ncclGetLastError(comm_of(comm)); }
int group_start() { return original::ncclGroupStart(); }
int group_end() { return original::ncclGroupEnd(); }
int destroy(void* comm) { return original::ncclCommDestroy(comm_of(comm)); }

int split(void* comm, int color, int key, void** part, const void* config) {
  return original::ncclCommSplit(comm_of(comm), color, key, reinterpret_cast<ncclComm_t*>(part),
                                 const_cast<void*>(config));
}

int state(void* comm) {
  ncclResult_t error = ncclSuccess;
  return original::ncclCommGetAsyncError(comm_of(comm), &error) == ncclSuccess ? error : 0;
}

int reduce_scatter(const void* in, void* out, std::size_t count, int type, int op, void* comm, void* stream) {
  return original::ncclReduceScatter(in, out, count, type, op, comm_of(comm), stream_of(stream));
}

int all_reduce(const void* in, void* out, std::size_t count, int type, int op, void* comm, void* stream) {
  return original::ncclAllReduce(in, out, count, type, op, comm_of(comm), stream_of(stream));
}

int all_gather(const void* in, void* out, std::size_t count, int type, void* comm, void* stream) {
  return original::ncclAllGather(in, out, count, type, comm_of(comm), stream_of(stream));
}

int meet(void* byte, void* comm, void* stream) {
  return all_reduce(byte, byte, 1, ncclInt8, ncclSum, comm, stream);
}

void make_rails_id(void* id) {
  ddl_problem unsaid;  // who opens them will find out
  stream_api()->make_id(id, &unsaid);
}

void* open_rails(const void* id, int place, int extent, void* context, const char* who,
                 char why[DDL_RAILS_TEXT_BYTES]) {
  ddl_problem problem;
  ddl_stream_comm* rails = nullptr;
  if (stream_api()->open_rails(id, place, extent, context, who, &rails, &problem) != DDL_STREAM_OK)
    std::copy(std::begin(problem.text), std::end(problem.text), why);
  return rails;
}

int all_reduce_on_rails(const void* in, void* out, std::size_t count, int type, int op, void* rails,
                        void* stream) {
  return submit_to(rails_of(rails),
                   {Call::Verb::all_reduce, in, out, count, type, op, 0, nullptr, stream_of(stream)});
}

int state_of_rails(void* rails) {
  ddl_problem said;
  return result_of(stream_api()->state(rails_of(rails), &said));
}

void abort_rails(void* rails) { stream_api()->abort(rails_of(rails)); }
void close_rails(void* rails) { stream_api()->destroy(rails_of(rails)); }

}  // namespace

const ddl_library& nccl_library() {
  static constexpr ddl_library kLibrary = {.name = "NCCL",
                                           .all_reduce_name = "ncclAllReduce",
                                           .in_progress = ncclInProgress,
                                           .cuda_error = ncclUnhandledCudaError,
                                           .invalid_usage = ncclInvalidUsage,
                                           .complain = say,
                                           .describe = original::ncclGetErrorString,
                                           .last_error = last_error,
                                           .group_start = group_start,
                                           .group_end = group_end,
                                           .split = split,
                                           .destroy = destroy,
                                           .state = state,
                                           .reduce_scatter = reduce_scatter,
                                           .all_reduce = all_reduce,
                                           .all_gather = all_gather,
                                           .meet = meet,
                                           .make_rails_id = make_rails_id,
                                           .open_rails = open_rails,
                                           .all_reduce_on_rails = all_reduce_on_rails,
                                           .state_of_rails = state_of_rails,
                                           .abort_rails = abort_rails,
                                           .close_rails = close_rails};
  return kLibrary;
}

}  // namespace ddl::nccl
