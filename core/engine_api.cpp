// The wall between C++ and the fronts: every exception ends here and becomes a failure text.
#include "core/engine_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/bootstrap/pmix_bootstrap.hpp"
#include "core/session/session.hpp"
#include "core/device/device_memory.hpp"
#include "core/reduce/reduce.hpp"

using ddl::Bytes;

extern "C" const ddl_native_api ddl_native_functions;  // native_api.cpp

namespace {
struct ddl_work : ddl::SessionCall {
  void* owner = nullptr;
  bool is_under_way = false;
};
}  // namespace

struct ddl_job {
  std::unique_ptr<ddl::Session> job;
  std::string failure;  // found at the wall, before or beside the engine's own
  std::string text;     // last string lent to a caller
  std::mutex mutex;
  std::vector<std::unique_ptr<ddl_work>> works;  // all ever made
  std::vector<ddl_work*> idle;
};

// The engine learns of a communicator in its first call: many are made for their context alone.
struct ddl_comm {
  ddl_job* job;
  ddl::CommId id;
  std::shared_ptr<ddl::PlanStore> plans;
  ddl::Communicator* communicator = nullptr;
  std::unique_ptr<ddl::Selection> selection;
};

namespace {

// Runs `body`; an exception becomes the job's failure and `otherwise` the result.
template <class Body, class Result>
Result guarded(ddl_job* job, Result otherwise, Body body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    if (job) {
      std::lock_guard lock(job->mutex);
      if (job->failure.empty()) job->failure = error.what();
    }
    // What one rank could not do all must learn of: nothing works any more, and the next call says so.
    if (job && job->job && job->job->is_connected()) job->job->engine().fail(error.what());
    return otherwise;
  }
}

// One line per job: by rank 0, unless something only one rank knows.
void warn_once(const ddl_job* job, const std::string& text) {
  if (job->job->rank() == 0) ddl::log_warning(text);
}

ddl_job* announce(int progress_hook) {
  return guarded(nullptr, static_cast<ddl_job*>(nullptr), [&]() -> ddl_job* {
    ddl::Env env;
    std::string trouble;
    try {
      env = ddl::load_env();
    } catch (const ddl::UsageError& error) {
      trouble = error.what();
    }
    std::unique_ptr<ddl::Bootstrap> bootstrap = ddl::make_pmix_bootstrap(env.timeout_s);
    if (!bootstrap) return nullptr;
    auto job = std::make_unique<ddl_job>();
    job->job = std::make_unique<ddl::Session>(std::move(bootstrap), env, trouble, progress_hook != 0);
    for (const std::string& warning : env.warnings) warn_once(job.get(), warning);
    return job.release();
  });
}

void describe_setup(const ddl::Session& job) {
  if (job.rank() != 0 || job.env().verbose == 0) return;
  const ddl::Census& census = job.census();
  std::string lanes;
  for (const std::string& lane : census.lanes) lanes += (lanes.empty() ? "" : ", ") + lane;
  ddl::log_info(fmt::format("engine on {} of {} ranks, {} host{}{}; kernels {}; nonblocking {}", job.size(),
                            job.size(), census.hosts(), census.hosts() == 1 ? "" : "s",
                            lanes.empty() ? "" : ", rails " + lanes, ddl::reduce_kernel_name(),
                            census.nonblocking ? "yes" : "no"));
}

// Says what is in the way: once, by rank 0, when all ranks came to the same conclusion.
int all_well_or_said(ddl_job* job, const std::string& trouble) {
  if (trouble.empty()) return DDL_CONNECTED;
  std::string text = "collectives use the original library: " + trouble;
  if (job->job->census().trouble.empty()) {
    ddl::log_warning(text);
    return DDL_TROUBLE_HERE;
  }
  if (job->job->env().enable) warn_once(job, text);
  return DDL_ALL_PASS_THROUGH;
}

int meet(ddl_job* job, uint64_t* reach) {
  *reach = 0;
  return guarded(job, static_cast<int>(DDL_TROUBLE_HERE), [&]() -> int {
    std::string trouble;
    try {
      trouble = job->job->meet();
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    if (trouble.empty()) *reach = job->job->reach();
    return all_well_or_said(job, trouble);
  });
}

int connect(ddl_job* job, const uint64_t* reach, size_t ranks, void (*guest)()) {
  return guarded(job, static_cast<int>(DDL_TROUBLE_HERE), [&]() -> int {
    std::string trouble;
    try {
      trouble = job->job->connect({reach, ranks}, guest);
    } catch (const std::exception& error) {
      trouble = error.what();
    }
    if (trouble.empty()) describe_setup(*job->job);
    const ddl::Census& census = job->job->census();
    bool said = std::find(reach, reach + ranks, 0) != reach + ranks ||  // by the rank that is in trouble
                (census.hosts() > 1 && census.lanes.empty());           // by the rank that found it
    return said ? static_cast<int>(DDL_ALL_PASS_THROUGH) : all_well_or_said(job, trouble);
  });
}

int nonblocking(ddl_job* job) { return job->job->census().nonblocking; }

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t identity(uint64_t parent, uint64_t number, uint64_t which) {
  return mix(mix(mix(parent) ^ number) ^ which);
}

uint64_t fresh_identity(ddl_job* job) { return mix(job->job->fresh_id()); }

ddl_comm* comm_create(ddl_job* job, uint64_t id, int32_t n, const int32_t* members, int32_t me) {
  return guarded(job, static_cast<ddl_comm*>(nullptr), [&] {
    return new ddl_comm{job, id, job->job->plans_of({members, members + n}, me), nullptr, nullptr};
  });
}

ddl_comm* comm_dup(ddl_comm* comm, uint64_t id) {
  return guarded(comm->job, static_cast<ddl_comm*>(nullptr), [&] {
    return new ddl_comm{comm->job, id, comm->plans, nullptr, nullptr};
  });
}

void make_usable(ddl_comm& comm) {
  if (comm.communicator) return;
  comm.communicator = &comm.job->job->engine().create(comm.id, comm.plans);
  comm.selection = comm.job->job->make_selection(*comm.communicator);
}

void comm_free(ddl_comm* comm) {
  guarded(comm->job, 0, [&] {
    if (comm->communicator) comm->job->job->engine().destroy(*comm->communicator);
    delete comm;
    return 0;
  });
}

ddl_work* take_work(ddl_job* job) {
  std::lock_guard lock(job->mutex);
  if (job->idle.empty()) {
    job->works.push_back(std::make_unique<ddl_work>());
    job->works.back()->ask_for_notice();
    job->idle.push_back(job->works.back().get());
  }
  ddl_work* work = job->idle.back();
  job->idle.pop_back();
  work->is_under_way = true;
  return work;
}

void give_back(ddl_job* job, ddl_work& work) {
  std::lock_guard lock(job->mutex);
  work.is_under_way = false;
  if (work.done()) job->idle.push_back(&work);  // else the engine still knows it
}

ddl::Call call_of(const ddl_all_reduce_call& call) {
  return {call.in,
          call.out,
          call.count,
          static_cast<ddl::DType>(call.type),
          static_cast<ddl::Op>(call.op),
          call.collective,
          ddl::now()};
}

// What the front is told of a call that is left to the original.
int leave(const ddl::Way& way, const char** why) {
  *why = way.original;
  return way.how == ddl::Way::Original::as_called ? DDL_ORIGINAL : DDL_ORIGINAL_IN_TWO_STEPS;
}

ddl::CallShape shape_of(const ddl::Call& call) { return {call.task(), call.bytes(), fingerprint_of(call)}; }

int run(ddl_comm* comm, const ddl_all_reduce_call* asked, const char** why) {
  return guarded(comm->job, static_cast<int>(DDL_FAILED), [&]() -> int {
    ddl::Session& job = *comm->job->job;
    if (job.engine().failed()) return DDL_FAILED;
    make_usable(*comm);
    ddl::Call call = call_of(*asked);
    ddl::Way way = comm->selection->blocking(shape_of(call));
    if (job.engine().failed()) return DDL_FAILED;  // while the ranks met
    if (way.began_anew) call.began = ddl::now();
    if (!way.plan) return leave(way, why);
    ddl::Observed observed;
    job.run(*comm->communicator, call, *way.plan, way.is_watched ? &observed : nullptr);
    if (way.is_watched && !job.engine().failed())
      comm->selection->finished(shape_of(call), way, ddl::now() - call.began, &observed);
    return job.engine().failed() ? DDL_FAILED : DDL_DONE;
  });
}

void original_done(ddl_comm* comm, const ddl_all_reduce_call* call, int64_t ns) {
  guarded(comm->job, 0, [&] {
    if (!comm->job->job->engine().failed())
      comm->selection->finished(shape_of(call_of(*call)), {}, ns, nullptr);
    return 0;
  });
}

int start(ddl_comm* comm, const ddl_all_reduce_call* asked, void* owner, const char** why) {
  return guarded(comm->job, static_cast<int>(DDL_FAILED), [&]() -> int {
    ddl::Session& job = *comm->job->job;
    if (job.engine().failed()) return DDL_FAILED;
    make_usable(*comm);
    ddl::Call call = call_of(*asked);
    ddl::Way way = comm->selection->nonblocking(shape_of(call));
    if (!way.plan) return leave(way, why);
    ddl_work* work = take_work(comm->job);
    work->owner = owner;
    if (job.start(*work, *comm->communicator, call, *way.plan) == ddl::Started::under_way)
      return DDL_UNDER_WAY;
    job.finish(*work);
    give_back(comm->job, *work);
    return DDL_DONE;
  });
}

void poll(ddl_job* job) {
  guarded(job, 0, [&]() -> int { return job->job->engine().poll(); });
}

// After a failure, one of those that will never be done.
ddl_work* give_up_one(ddl_job* job) {
  std::lock_guard lock(job->mutex);
  for (auto& work : job->works)
    if (work->is_under_way) return work.get();
  return nullptr;
}

void* next_done(ddl_job* job, int* right) {
  return guarded(job, static_cast<void*>(nullptr), [&]() -> void* {
    ddl::Engine& engine = job->job->engine();
    auto* work = static_cast<ddl_work*>(engine.next_done());
    if (!work && engine.failed()) work = give_up_one(job);
    if (!work) return nullptr;
    *right = guarded(job, 0, [&] { return job->job->finish(*work), 1; }) && !engine.failed();
    void* owner = work->owner;
    give_back(job, *work);
    return owner;
  });
}

const char* failure(ddl_job* job) {
  std::string engine = job->job->engine().failure();
  std::lock_guard lock(job->mutex);
  if (job->failure.empty()) job->failure = engine;
  return job->failure.c_str();
}

void count_original(ddl_job* job, const char* collective, const char* reason, uint64_t bytes, int64_t ns) {
  guarded(nullptr, 0, [&] {
    job->job->counters().count_original(collective, reason, bytes, ns);
    return 0;
  });
}

int is_device(const void* one, const void* other) {
  return guarded(nullptr, 0, [&]() -> int { return ddl::is_device_memory(one, other, ddl::now()); });
}

int copy_device(void* to, const void* from, uint64_t bytes) {
  return guarded(nullptr, 0, [&]() -> int { return ddl::copy_device_memory(to, from, bytes); });
}

int report_wanted(ddl_job* job) {
  const ddl::Census& census = job->job->census();
  return census.trouble.empty() && census.hosts() > 0 ? census.report : !job->job->env().report.empty();
}

const char* report_part(ddl_job* job) {
  return guarded(job, "", [&] {
    job->text = job->job->report_part();
    return job->text.c_str();
  });
}

void write_report(ddl_job* job, size_t parts, const char* const* part) {
  guarded(nullptr, 0, [&] {
    std::ofstream file(job->job->env().report);
    file << job->job->report({part, part + parts});
    file.close();
    if (!file) ddl::log_warning(fmt::format("cannot write the report to {}", job->job->env().report));
    return 0;
  });
}

void close_job(ddl_job* job) {
  guarded(nullptr, 0, [&] {
    delete job;
    return 0;
  });
}

const ddl_engine_api kApi = {DDL_ENGINE_VERSION,
                             announce,
                             meet,
                             connect,
                             nonblocking,
                             identity,
                             fresh_identity,
                             comm_create,
                             comm_dup,
                             comm_free,
                             run,
                             original_done,
                             start,
                             poll,
                             next_done,
                             failure,
                             count_original,
                             is_device,
                             copy_device,
                             report_wanted,
                             report_part,
                             write_report,
                             close_job,
                             &ddl_native_functions};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ddl_engine_api* ddl_engine(uint32_t version) {
  return version == DDL_ENGINE_VERSION ? &kApi : nullptr;
}
