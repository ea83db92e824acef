// What the handles of ddl.h are, and how its functions turn exceptions into errors.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/api/ddl.h"
#include "core/api/guard.hpp"
#include "core/base/error.hpp"
#include "core/session/session_communicator.hpp"
#include "core/session/standalone_job.hpp"

namespace ddl::api {
struct World;
}

// Stays when its job is finalized, so that a late call on it can be refused.
struct ddl_group {
  ddl::api::World* world = nullptr;
  std::uint64_t serial = 0;        // no other group of this process has had it
  std::vector<ddl::Rank> members;  // ranks of the world
  ddl::Rank me = 0;
  ddl::CommId id = 0;
  std::optional<ddl::SessionCommunicator> communicator;     // none: the job is finalized
  std::map<std::vector<ddl::Rank>, std::uint64_t> created;  // groups of these members
};

// Likewise. One that is done serves the next call.
struct ddl_request {
  ddl_group* group = nullptr;
  ddl::SessionCall call;
  bool is_under_way = false;
  ddl::Outcome outcome;
};

// Likewise, as long as it is not freed.
struct ddl_gradient {
  std::uint64_t group = 0;  // its serial: the group may have been freed
  uint64_t count = 0;
  ddl_type type = DDL_FLOAT32;
  std::shared_ptr<ddl::SparseGradient> sparse;
};

namespace ddl::api {

/// Grows by one in a child that this process forks.
unsigned forks_before_this_process() noexcept;

// A job and all that was made of it.
struct World {
  unsigned forks = forks_before_this_process();
  std::unique_ptr<ddl::StandaloneJob> job;  // null: finalized
  std::mutex mutex;                         // of what follows
  std::deque<std::unique_ptr<ddl_group>> groups;
  std::deque<std::unique_ptr<ddl_request>> requests;
  std::vector<ddl_request*> idle;
};

// ---- errors ----

inline constexpr const char* kNoMemory = "there is no memory left";

/// Keeps the words for ddl_error_message().
ddl_status refuse(ddl_status status, const char* text) noexcept;

// What a function answers with that status: the job is as it was before.
struct Refusal : Error {
  template <class... Text>
  explicit Refusal(ddl_status which, Text&&... text) : Error(std::forward<Text>(text)...), status(which) {}
  ddl_status status;
};
// The program has given it.
struct BadArgument : Refusal {
  template <class... Text>
  explicit BadArgument(Text&&... text) : Refusal(DDL_ERROR_ARGUMENT, std::forward<Text>(text)...) {}
};
struct Finalized : Refusal {
  Finalized()
      : Refusal(DDL_ERROR_STATE, "the job is finalized", "no call can be made any more",
                "call ddl_init again") {}
};
struct Forked : Refusal {
  Forked()
      : Refusal(DDL_ERROR_STATE, "this process was forked by the rank whose group that is",
                "two processes cannot be one rank", "make the call in the parent") {}
};
struct JobFailed : Refusal {
  explicit JobFailed(const std::string& why) : Refusal(DDL_ERROR_JOB, why) {}
};
// For something that no other rank waits for.
struct NoMemory : Refusal {
  explicit NoMemory(const std::string& what) : Refusal(DDL_ERROR_SYSTEM, what) {}
};

// Runs `body`; what it throws becomes a status.
template <class Body>
ddl_status guarded(ddl_status otherwise, Body body) noexcept {
  auto tell = [](const char* what) { refuse(DDL_SUCCESS, what); };
  return guarded_by(tell, otherwise, [&] {
    try {
      body();
      return DDL_SUCCESS;
    } catch (const Refusal& error) {
      return refuse(error.status, error.what());
    } catch (const std::bad_alloc&) {
      return refuse(DDL_ERROR_SYSTEM, kNoMemory);
    }
  });
}

inline void check(bool is_right, const char* problem, const char* why) {
  if (!is_right) throw BadArgument(problem, why);
}

// The fields that the program knows, over the defaults of the others. What a newer program sets that this
// library does not know is refused.
template <class Options>
Options known_fields(const Options* given, Options fallback, const char* name) {
  if (!given) return fallback;
  if (given->size < sizeof(given->size))
    throw BadArgument(fmt::format("{}.size is {}", name, given->size), "it says which fields there are",
                      fmt::format("begin with its initializer, or set it to sizeof({})", name));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t at = sizeof(Options); at < given->size; ++at)
    if (bytes[at] != 0)
      throw BadArgument(fmt::format("{} has a field that this library does not know", name),
                        "the program was built for a newer one", "install that, or leave the field zero");
  std::memcpy(static_cast<void*>(&fallback), given, std::min(given->size, sizeof(Options)));
  return fallback;
}

/// The group, whose job is this process's and not finalized.
inline ddl_group& checked(ddl_group* group) {
  check(group, "the group is NULL", "ddl_init and ddl_group_create make one");
  if (group->world->forks != forks_before_this_process()) throw Forked();
  if (!group->world->job || !group->communicator) throw Finalized();
  return *group;
}

inline void check_outcome(ddl_group& group, const Outcome& outcome) {
  if (outcome.what == ddl::Outcome::What::failed) throw JobFailed(group.world->job->session().failure());
}

// The job fails: the other ranks make a call that this one could not make.
inline ddl_status fail_job(ddl_group& group, const char* why) noexcept {
  guarded(DDL_ERROR_JOB, [&] { group.world->job->session().fail(why); });
  return refuse(DDL_ERROR_JOB, why);
}

// `body` makes a call that other ranks make, too.
template <class Body>
ddl_status call_on(ddl_group* given, Body body) noexcept {
  const ddl_status usable = guarded(DDL_ERROR_JOB, [&] { checked(given); });
  if (usable != DDL_SUCCESS) return usable;
  auto fail = [given](const char* why) { fail_job(*given, why); };
  return guarded_by(fail, DDL_ERROR_JOB, [&] {
    try {
      body(*given);
      return DDL_SUCCESS;
    } catch (const Refusal& error) {
      return refuse(error.status, error.what());
    } catch (const std::bad_alloc&) {
      return fail_job(*given, kNoMemory);
    }
  });
}

}  // namespace ddl::api
