// The engine's C boundary: translation only. Every exception ends here and becomes the session's failure.
#include "core/api/engine_api.h"

#include <memory>
#include <string>

#include "core/api/call_from_c.hpp"
#include "core/api/guard.hpp"
#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/device/device_memory.hpp"
#include "core/session/identity.hpp"
#include "core/session/mpi_session.hpp"
#include "core/session/session_communicator.hpp"

extern "C" const ddl_stream_api ddl_stream_functions;    // stream_api.cpp
extern "C" const ddl_context_api ddl_context_functions;  // context_api.cpp

struct ddl_job {
  std::unique_ptr<ddl::Session> session;
  std::string part;  // of the report, lent to a caller
};

struct ddl_comm {
  ddl::SessionCommunicator communicator;
};

namespace {

void note(ddl::Session* session, const char* what) noexcept {
  try {
    session ? session->fail(what) : ddl::log_warning(what);
  } catch (...) {  // no memory for more words
  }
}

// An exception becomes the session's failure, or a line where there is none.
template <class Result, class Body>
Result guarded(ddl::Session* session, Result otherwise, Body body) noexcept {
  return ddl::guarded_by([session](const char* what) { note(session, what); }, otherwise, body);
}

template <class Body>
void guarded(ddl::Session* session, Body body) noexcept {
  guarded(session, 0, [&] { return body(), 0; });
}

ddl_job* announce(const ddl_host_library* host) {
  return guarded(nullptr, static_cast<ddl_job*>(nullptr), [&]() -> ddl_job* {
    auto all_gather = [gather = host->all_gather](std::span<const std::byte> mine, std::byte* all) {
      return gather(mine.data(), mine.size(), all) != 0;
    };
    auto job = std::make_unique<ddl_job>();
    job->session =
        ddl::announce({host->has_progress_hook != 0, {all_gather, host->published_key}, host->progress});
    return job->session ? job.release() : nullptr;
  });
}

int join(ddl_job* job) {
  return guarded(job->session.get(), 0, [&]() -> int {
    bool joined = job->session->join().joined;
    job->session->say_conclusion();
    return joined;
  });
}

int nonblocking(ddl_job* job) { return job->session->job_map().nonblocking; }

uint64_t identity(uint64_t parent, uint64_t number, uint64_t which) {
  return ddl::identity_of(parent, number, which);
}

uint64_t fresh_identity(ddl_job* job) { return ddl::mix(job->session->fresh_id()); }

ddl_comm* comm_create(ddl_job* job, uint64_t id, int32_t n, const int32_t* members, int32_t me) {
  ddl::Session* session = job->session.get();
  return guarded(session, static_cast<ddl_comm*>(nullptr), [&] {
    return new ddl_comm{{*session, id, session->plans_of({members, members + n}, me)}};
  });
}

ddl_comm* comm_dup(ddl_comm* comm, uint64_t id) {
  ddl::Session& session = comm->communicator.session();
  return guarded(&session, static_cast<ddl_comm*>(nullptr), [&] {
    return new ddl_comm{{session, id, comm->communicator.plans()}};
  });
}

ddl_comm* comm_of_request(ddl_comm* comm, uint64_t id) {
  return guarded(&comm->communicator.session(), static_cast<ddl_comm*>(nullptr), [&] {
    return new ddl_comm{{comm->communicator, id}};
  });
}

void comm_warm_up(ddl_comm* comm) {
  guarded(&comm->communicator.session(), [&] { comm->communicator.warm_up(); });
}

void comm_free(ddl_comm* comm) {
  guarded(&comm->communicator.session(), [&] { delete comm; });
}

int is_within_host(ddl_comm* comm) {
  return guarded(nullptr, 0,
                 [&]() -> int { return !comm->communicator.plans()->members().grid.spans_hosts(); });
}

ddl::Call call_of(const ddl_collective_call& call) { return ddl::from_c(call, ddl::now()); }

ddl_outcome told(ddl::Outcome::What what) {
  using What = ddl::Outcome::What;
  switch (what) {
    case What::failed:
      return DDL_FAILED;
    case What::done:
      return DDL_DONE;
    case What::original:
      return DDL_ORIGINAL;
    case What::original_in_two_steps:
      return DDL_ORIGINAL_IN_TWO_STEPS;
    case What::under_way:
      return DDL_UNDER_WAY;
  }
  return DDL_FAILED;
}

ddl_outcome told(const ddl::Outcome& outcome, const char** why) {
  *why = outcome.why;
  return told(outcome.what);
}

void keep(ddl_kept_call** kept, ddl::SessionCommunicator& communicator, const ddl_collective_call& call,
          const ddl::Outcome& outcome, ddl::SessionCommunicator::How how) {
  if (kept && outcome.plan)
    *kept = reinterpret_cast<ddl_kept_call*>(communicator.keep(ddl::from_c(call, 0), *outcome.plan, how));
}

ddl_outcome run(ddl_comm* comm, const ddl_collective_call* call, const char** why, int* is_measured,
                ddl_kept_call** kept) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  return guarded(&communicator.session(), DDL_FAILED, [&] {
    const ddl::Outcome outcome = communicator.run(call_of(*call));
    *is_measured = outcome.is_measured;
    keep(kept, communicator, *call, outcome, ddl::SessionCommunicator::How::run);
    return told(outcome, why);
  });
}

ddl_outcome run_kept(ddl_comm* comm, ddl_kept_call* call, const void* in, void* out, uint64_t number) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  return guarded(&communicator.session(), DDL_FAILED, [&] {
    return told(communicator.run(*reinterpret_cast<ddl::SessionCommunicator::Kept*>(call), in, out, number));
  });
}

int recount(ddl_comm* comm, ddl_kept_call* call, const ddl_counts* counts) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  return guarded(&communicator.session(), 0, [&]() -> int {
    return communicator.recount(*reinterpret_cast<ddl::SessionCommunicator::Kept*>(call),
                                {counts->count,
                                 {counts->in_blocks.counts, counts->in_blocks.offsets},
                                 {counts->out_blocks.counts, counts->out_blocks.offsets},
                                 counts->lengths});
  });
}

void forget_kept(ddl_comm* comm) {
  guarded(&comm->communicator.session(), [&] { comm->communicator.forget_kept(); });
}

void original_done(ddl_comm* comm, const ddl_collective_call* call, int64_t ns) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  guarded(&communicator.session(), [&] { communicator.original_done(call_of(*call), ns); });
}

const char* left_to_original(ddl_comm* comm, const ddl_collective_call* call) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  return guarded(&communicator.session(), static_cast<const char*>(nullptr),
                 [&] { return communicator.left_to_original(call_of(*call)); });
}

ddl_outcome start(ddl_comm* comm, const ddl_collective_call* call, void* owner, ddl_started** started,
                  const char** why, ddl_kept_call** kept) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  return guarded(&communicator.session(), DDL_FAILED, [&] {
    ddl::SessionCall* under_way = nullptr;
    const ddl::Outcome outcome = communicator.start(call_of(*call), owner, under_way);
    *started = reinterpret_cast<ddl_started*>(under_way);
    keep(kept, communicator, *call, outcome, ddl::SessionCommunicator::How::started);
    return told(outcome, why);
  });
}

ddl_outcome start_kept(ddl_comm* comm, ddl_kept_call* call, const void* in, void* out, uint64_t number,
                       void* owner, ddl_started** started) {
  ddl::SessionCommunicator& communicator = comm->communicator;
  return guarded(&communicator.session(), DDL_FAILED, [&] {
    ddl::SessionCall* under_way = nullptr;
    const ddl::Outcome outcome = communicator.start(*reinterpret_cast<ddl::SessionCommunicator::Kept*>(call),
                                                    in, out, number, owner, under_way);
    *started = reinterpret_cast<ddl_started*>(under_way);
    return told(outcome.what);
  });
}

int wait(ddl_job* job, ddl_started* started, void* owner, int* right) {
  return guarded(job->session.get(), 0, [&]() -> int {
    auto& call = reinterpret_cast<ddl::SessionCall&>(*started);
    const std::optional<ddl::Session::Ended> ended = job->session->wait(call, owner);
    if (ended) *right = ended->is_right;
    return ended.has_value();
  });
}

void poll(ddl_job* job) {
  guarded(job->session.get(), [&] { job->session->poll(); });
}

void* next_done(ddl_job* job, int* right) {
  return guarded(job->session.get(), static_cast<void*>(nullptr), [&]() -> void* {
    std::optional<ddl::Session::Ended> ended = job->session->next_ended();
    if (!ended) return nullptr;
    *right = ended->is_right;
    return ended->owner;
  });
}

const char* failure(ddl_job* job) {
  return guarded(nullptr, "no memory", [&] { return job->session->failure().c_str(); });
}

void count_original(ddl_job* job, const char* collective, const char* reason, uint64_t calls, uint64_t bytes,
                    int64_t ns) {
  guarded(nullptr, [&] { job->session->counters().count_original(collective, reason, {calls, bytes, ns}); });
}

void count_empty(ddl_job* job, const char* collective, uint64_t calls) {
  guarded(nullptr, [&] { job->session->counters().collect(collective, 0, "no elements", {calls, 0, 0}); });
}

int is_device(const void* one, const void* other) {
  return guarded(nullptr, 0, [&]() -> int { return ddl::is_device_memory(one, other); });
}

int copy_device(void* to, const void* from, uint64_t bytes) {
  return guarded(nullptr, 0, [&]() -> int { return ddl::copy_device_memory(to, from, bytes); });
}

int report_wanted(ddl_job* job) { return job->session->wants_report(); }

const char* report_part(ddl_job* job) {
  return guarded(nullptr, "", [&] {
    job->part = job->session->report_part();
    return job->part.c_str();
  });
}

void write_report(ddl_job* job, size_t parts, const char* const* part) {
  guarded(nullptr, [&] { job->session->write_report({part, part + parts}); });
}

void* activity(ddl_job* job) { return &job->session->activity(); }

void leave(ddl_job* job) {
  guarded(nullptr, [&] { job->session->close(); });
}

void close_job(ddl_job* job) {
  guarded(nullptr, [&] { delete job; });
}

const ddl_engine_api kApi = {
    .version = DDL_ENGINE_VERSION,
    .announce = announce,
    .join = join,
    .nonblocking = nonblocking,
    .identity = identity,
    .fresh_identity = fresh_identity,
    .comm_create = comm_create,
    .comm_dup = comm_dup,
    .comm_of_request = comm_of_request,
    .comm_warm_up = comm_warm_up,
    .comm_free = comm_free,
    .is_within_host = is_within_host,
    .run = run,
    .run_kept = run_kept,
    .recount = recount,
    .forget_kept = forget_kept,
    .original_done = original_done,
    .left_to_original = left_to_original,
    .start = start,
    .start_kept = start_kept,
    .wait = wait,
    .poll = poll,
    .next_done = next_done,
    .failure = failure,
    .count_original = count_original,
    .count_empty = count_empty,
    .is_device = is_device,
    .copy_device = copy_device,
    .report_wanted = report_wanted,
    .report_part = report_part,
    .write_report = write_report,
    .activity = activity,
    .leave = leave,
    .close = close_job,
    .stream = &ddl_stream_functions,
    .context = &ddl_context_functions,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ddl_engine_api* ddl_engine(uint32_t version) {
  return version == DDL_ENGINE_VERSION ? &kApi : nullptr;
}
