#include "core/session/join_watch.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"
#include "core/bootstrap/host_identity.hpp"
#include "core/net/unanswered.hpp"
#include "core/trace/stall.hpp"

namespace ddl {
namespace {

constexpr Nanoseconds kLookAtOthersEvery = 250'000'000, kLookAtHostEvery = 1'000'000'000;
constexpr Nanoseconds kToEnd = 2'000'000'000;  // what SIGTERM has for it

}  // namespace

std::optional<std::string> line_of_joining(const std::string& what, Nanoseconds waited, Rank me,
                                           const std::vector<Sibling>& here, bool all_have_come) {
  std::vector<Peer> missing;
  Rank speaker = me;
  for (const Sibling& one : here) {
    const bool runs = one.state == ProcessState::runs;
    if (runs && one.joining == Joining::under_way && one.rank < speaker) speaker = one.rank;
    if (!runs || (one.joining == Joining::not_yet && !all_have_come))
      missing.push_back({one.rank, presence_of(one.state), {}, 0, true});
  }
  // Where nothing is known two hosts speak, of which one may be the one that does not come: those of the
  // ranks 0 and 1, or of the first rank behind as many as are here.
  const bool is_first = me <= 1 || static_cast<std::size_t>(me) == here.size();
  if (speaker != me || (missing.empty() && !is_first)) return std::nullopt;
  const std::string unknown = ", to which perhaps not all ranks of other hosts have come";
  return line_of({me, 0, 0, {}, what + (missing.empty() ? unknown : ""), waited}, missing);
}

JoinWatch::JoinWatch(Nanoseconds first, std::string what, Rank me)
    : what_(std::move(what)), me_(me), first_(first), since_(now()), next_(first), looked_at_host_(since_) {
  thread_.start([this] { watch(); });
}

void JoinWatch::watch() {
  ::pthread_setname_np(::pthread_self(), kJoiningThread);
  while (thread_.sleep(kLookAtOthersEvery)) {
    try {
      look();
    } catch (const std::exception&) {
      // No memory for a line.
    }
  }
}

void JoinWatch::look() {
  const Nanoseconds when = now(), waited = when - since_;
  const bool is_due = first_ > 0 && waited >= next_,
             looks_at_host = when - looked_at_host_ > kLookAtHostEvery;
  if (!is_due && !looks_at_host) return;
  const std::vector<Sibling> here = siblings();
  if (looks_at_host) {
    looked_at_host_ = when;
    look_at_host(here);
  }
  if (!is_due) return;
  next_ *= 2;
  if (const auto line = line_of_joining(what_, waited, me_, here, all_have_come_)) speak(*line);
}

void JoinWatch::look_at_host(const std::vector<Sibling>& here) {
  if (ended_ > 0) {
    if (now() - ended_ > kToEnd) ::kill(::getpid(), SIGKILL);
    return;
  }
  const pid_t parent = ::getppid();
  if (!is_starter(executable_of(parent))) return;  // a script, whose connections are its own
  const std::vector<std::string> unanswered = unanswered_connections_of(parent);
  if (unanswered.empty()) return;
  if (here.empty() || here.front().rank == me_) {
    const std::string& host = host_identity().host;
    speak(fmt::format(
        "{} is cut off: {} has not answered for 6 s, and {} cannot end without it; the ranks of {} end", host,
        unanswered.front(), what_, host));
  }
  ended_ = now();
  ::kill(::getpid(), SIGTERM);
}

void JoinWatch::speak(const std::string& line) const {
  set_log_speaker(fmt::format("rank {} on {}", me_, host_identity().host));
  log_warning(line);
}

}  // namespace ddl
