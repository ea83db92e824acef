// The C boundary for contexts: translation only. Every exception ends here.
#include "core/api/context_api.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/api/call_from_c.hpp"
#include "core/api/guard.hpp"
#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/net/descriptors.hpp"
#include "core/session/identity.hpp"
#include "core/session/session_communicator.hpp"
#include "core/session/standalone_job.hpp"

extern "C" const ddl_context_api ddl_context_functions;

struct ddl_context {
  ddl::Rank rank = 0, size = 1;
  ddl::Env env;
  std::optional<ddl::DescriptorShare> descriptors;  // let go of last
  ddl::Membership membership;
  std::unique_ptr<ddl::StandaloneJob> job;  // null until it has joined
  std::unique_ptr<ddl::SessionCommunicator> communicator;
  std::string part;  // of the report, lent to a caller

  ~ddl_context() {
    if (job) job->vanish();
    communicator.reset();
  }
};

namespace {

using ddl::guarded, ddl::guarded_in_silence;
using ddl::RendezvousId;
static_assert(RendezvousId::kBytes == DDL_CONTEXT_ID_BYTES);

// Of the call that this thread makes, as long as it waits.
struct Deadline {
  double seconds = 0;
  std::optional<ddl::Timeout> timeout;
};
thread_local Deadline deadline;

std::string overdue() {
  if (!deadline.timeout || !deadline.timeout->is_over()) return {};
  return fmt::format("a call has not ended within {:g} s: a rank is late or gone", deadline.seconds);
}

ddl_context* create(int32_t rank, int32_t size, void* id, ddl_problem* problem) {
  return guarded(problem, static_cast<ddl_context*>(nullptr), [&] {
    auto context = std::make_unique<ddl_context>();
    context->rank = rank;
    context->size = size;
    context->env = ddl::load_env();
    if (!context->env.enable) throw ddl::Error("DDL_ENABLE=0");
    // Shared memory, the meeting place and connections to it, listeners and streams of rails.
    context->descriptors.emplace(8 + 3 * static_cast<std::uint64_t>(size));
    if (rank == 0) {
      // The first may come much later: the library says how long ranks may be late.
      ddl::RendezvousLimits limits;
      limits.others_s = context->env.timeout_s;
      context->membership.server =
          std::make_unique<ddl::RendezvousServer>(limits, ddl::wanted_rails(context->env));
      std::memcpy(id, context->membership.server->id().bytes().data(), RendezvousId::kBytes);
    }
    return context.release();
  });
}

int join(ddl_context* context, const void* id, ddl_problem* problem) {
  return guarded(problem, 0, [&] {
    context->membership.rendezvous = std::make_shared<ddl::RendezvousClient>(
        ddl::id_from(std::span(static_cast<const std::byte*>(id), RendezvousId::kBytes)), context->rank,
        context->size, context->env.timeout_s);
    context->job = std::make_unique<ddl::StandaloneJob>(
        std::move(context->membership), context->env,
        ddl::StandaloneOptions{
            .speaks_for_process = false, .waits_awake = false, .keeps_report = false, .overdue = overdue});
    ddl::Session& session = context->job->session();
    std::vector<ddl::Rank> all(static_cast<std::size_t>(context->size));
    std::iota(all.begin(), all.end(), 0);
    context->communicator = std::make_unique<ddl::SessionCommunicator>(session, ddl::identity_of(0, 1, 0),
                                                                       session.plans_of(all, context->rank));
    session.say_conclusion();
    return 1;
  });
}

// Gradients of which only a part travels are known by their place among the calls.
int may_measure(ddl_context* context) {
  ddl_problem unsaid;
  return guarded(&unsaid, 0, [&]() -> int {
    ddl::Session& session = context->job->session();
    const ddl::TuneSettings& settings = session.tuning().settings();
    return settings.options.mode == ddl::Mode::pick && !settings.deterministic &&
           !session.job_map().gradients.sparse.is_on();
  });
}

void fail(ddl_context* context, const char* why) {
  guarded_in_silence(0, [&] {
    if (*why) context->job->session().fail(why);
    context->job->vanish();  // who waits for this rank waits in vain
    return 0;
  });
}

int run(ddl_context* context, const ddl_context_call* call) {
  ddl_problem problem{};
  deadline.seconds = 1e-3 * static_cast<double>(call->timeout_ms);
  if (call->timeout_ms > 0) deadline.timeout.emplace(deadline.seconds);
  const int done = guarded(&problem, 0, [&]() -> int {
    context->job->begin_wait();
    const ddl::Call made = ddl::from_c(call->call, ddl::now());
    return context->communicator->run(made, call->key).what == ddl::Outcome::What::done;
  });
  deadline.timeout.reset();
  if (!done) fail(context, problem.text);
  return done;
}

const char* failure(ddl_context* context) {
  return guarded_in_silence("an error in the engine",
                            [&] { return context->job->session().failure().c_str(); });
}

const char* report_part(ddl_context* context) {
  return guarded_in_silence("", [&] {
    context->part = context->job->session().report_part();
    return context->part.c_str();
  });
}

void write_report(ddl_context* context, uint64_t parts, const char* const* part) {
  ddl_problem problem{};
  guarded(&problem, 0, [&] { return context->job->session().write_report({part, part + parts}), 0; });
  if (problem.text[0]) ddl::log_warning(std::string("the report is not written: ") + problem.text);
}

void destroy(ddl_context* context) {
  guarded_in_silence(0, [&] { return delete context, 0; });
}

}  // namespace

const ddl_context_api ddl_context_functions = {
    .create = create,
    .join = join,
    .may_measure = may_measure,
    .run = run,
    .failure = failure,
    .fail = fail,
    .report_part = report_part,
    .write_report = write_report,
    .destroy = destroy,
};
