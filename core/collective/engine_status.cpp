// The part of Engine about what the ranks are doing, for when a call takes long: which calls do, and
// questions and answers between hosts. Within a host a rank looks for itself, see trace/activity.hpp.
//
//   question := Header StatusQuestion     comm = kStatus, tag 0, from: the rank in the job that asks
//   answer   := Header StatusAnswer       comm = kStatus, tag 1, from: the rank in the job that answers
//
// Whoever makes progress answers: a thread in a call, or the watch of the session (session/stall_watch), so
// that a rank that computes or waits in the original library answers, too.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/collective/engine.hpp"

namespace ddl {
namespace {

constexpr std::uint64_t kQuestion = 0, kAnswer = 1;  // tags
constexpr std::size_t kMostQuestions = 4096;         // that wait for an answer; more are not meant well

struct StatusQuestion {
  CommId comm;
  std::uint64_t number;
  Rank about;
  std::uint32_t unused;
};

struct StatusAnswer {
  CommId comm;
  std::uint64_t number;
  Nanoseconds age;
  std::uint64_t said;
  CallName name;
  Rank about;
  CallStatus::State state;
  Peer::Presence presence;
  std::uint8_t in_original;
  std::uint8_t unused;
};
static_assert(sizeof(StatusAnswer) <= View::kInline);

StatusAnswer packed(const Peer& peer) {
  const CallStatus& call = peer.call;
  return {call.comm, call.number, call.age,      peer.said,        call.name,
          peer.rank, call.state,  peer.presence, call.in_original, 0};
}

// What comes over a wire is not believed.
Peer unpacked(const StatusAnswer& answer) {
  Peer peer{answer.about, answer.presence, {}, answer.said, false};
  if (peer.presence > Peer::Presence::gone) peer.presence = Peer::Presence::silent;
  if (answer.state <= CallStatus::State::ended)
    peer.call = {
        answer.state,           answer.name, answer.comm, answer.number, std::max<Nanoseconds>(answer.age, 0),
        answer.in_original != 0};
  return peer;
}

void add_missed(std::vector<Rank>& ranks, const Communicator& communicator) {
  for (Rank rank : communicator.waiting_for())
    if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
}

// With a root all the others depend on it, or it on all of them.
LongCall long_call_of(const Call& call, CommId comm, const Members& members) {
  const bool has_source = call.kind == Kind::broadcast || call.kind == Kind::scatter;
  LongCall made;
  made.comm = comm;
  made.name = CallName(call.collective);
  made.number = call.number;
  made.text = describe(call);
  made.began = call.began;
  made.needs_all = has_root(call.kind) ? !has_source && call.root == members.me : !is_between_two(call.kind);
  made.members = members.ranks;
  if (has_source && call.root != members.me) made.source = members.ranks[static_cast<std::size_t>(call.root)];
  if (has_root(call.kind) && !has_source) made.sink = members.ranks[static_cast<std::size_t>(call.root)];
  return made;
}

LongCall long_call_of(const Communicator& communicator, const Operation& operation, bool goes_on) {
  LongCall made = long_call_of(operation.call(), communicator.known_as(), communicator.members());
  made.seq = operation.seq() & ~kBetweenTwo;
  made.goes_on = goes_on;
  made.waits_for = communicator.waiting_for();
  return made;
}

// The engine's calls that it stands for come and go.
LongCall long_call_of(const ProgramCall& waiting) {
  LongCall made = long_call_of(*waiting.call, waiting.comm, waiting.communicators[0]->members());
  made.seq = static_cast<Seq>(made.number ? made.number : static_cast<std::uint64_t>(made.began / 1'000'000));
  made.goes_on = true;
  for (const Communicator* communicator : waiting.communicators) add_missed(made.waits_for, *communicator);
  return made;
}

}  // namespace

std::vector<LongCall> Engine::calls_longer_than(Nanoseconds time) {
  std::lock_guard lock(mutex_);
  take_arithmetic();
  settle();
  const Nanoseconds began_before = now() - time;
  const std::uint32_t rounds = rounds_.load(std::memory_order_relaxed);
  // A program that only tests now and then what goes on does not wait for it.
  constexpr std::uint32_t kRoundsOfWaiting = 20;
  const bool program_waits = rounds - std::exchange(rounds_at_look_, rounds) > kRoundsOfWaiting;
  std::vector<LongCall> calls;
  if (failed()) return calls;
  std::vector<const Communicator*> known;
  for (const Attached& one : backgrounds_) {
    const ProgramCall call = one.background->oldest();
    known.insert(known.end(), call.communicators.begin(), call.communicators.end());
    if (call.call && call.call->began <= began_before && program_waits) calls.push_back(long_call_of(call));
  }
  for (const Communicator* communicator : active_) {
    const Operation* operation = communicator->oldest();
    if (!operation || operation->call().began > began_before ||
        std::find(known.begin(), known.end(), communicator) != known.end())
      continue;
    const bool goes_on = operation->completion()->goes_on_;
    if (goes_on && !program_waits) continue;
    calls.push_back(long_call_of(*communicator, *operation, goes_on));
  }
  return calls;
}

void Engine::show_long_calls() {
  std::lock_guard lock(mutex_);
  if (failed() || wire_is_closed_) return;
  for (Communicator* communicator : active_) communicator->show_oldest();
}

std::vector<Rank> Engine::members_of(CommId comm) const {
  std::lock_guard lock(mutex_);
  for (const auto& [id, one] : communicators_)
    if (one->known_as() == comm) return one->members().ranks;
  return {};
}

std::optional<Peer> Engine::look_at(Rank rank, CommId comm, std::uint64_t number) const {
  const Activity* activity = fabrics_.local->activity_of(rank);
  if (!activity) return std::nullopt;
  return Peer{rank,
              rank == fabrics_.local->rank()
                  ? Peer::Presence::answers
                  : presence_of(state_of_process(activity->pid.load(std::memory_order_relaxed))),
              status_for(statuses_of(*activity, now()), comm, number),
              activity->said.load(std::memory_order_relaxed),
              false,
              activity->gave_up.load(std::memory_order_acquire) != 0};
}

void Engine::ask(Rank rank, Rank about, CommId comm, std::uint64_t number) {
  const StatusQuestion question{comm, number, about, 0};
  std::lock_guard lock(mutex_);
  send_status(rank, kQuestion, std::as_bytes(std::span(&question, 1)));
}

std::vector<Peer> Engine::take_answers() {
  std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

void Engine::look_after() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !fabrics_.wire) return;
  progress_or_fail_locked();
  if (failed() && !wire_is_closed_ && is_over()) fabrics_.wire->say_failed(failure_);
}

// It may have ended because of another; or after it has sent all that this rank needs of it.
void Engine::fail_without(Rank rank, Nanoseconds waited) {
  const Activity* activity = fabrics_.local->activity_of(rank);
  const Rank cause = activity ? activity->gave_up.load(std::memory_order_acquire) - 1 : -1;
  const bool is_first = cause < 0 || cause == rank || cause == fabrics_.local->rank();
  const bool has_failed = cause == rank && look_at(rank, 0, 0)->presence != Peer::Presence::gone;
  const std::string how = has_failed ? fmt::format("it has failed: {}", activity->failure.data())
                          : is_first ? "its process has ended"
                                     : fmt::format("rank {} has ended because of it", rank);
  std::lock_guard lock(mutex_);
  while (progress_or_fail_locked()) {
  }
  const bool is_missed = std::any_of(active_.begin(), active_.end(), [&](const Communicator* one) {
    const std::vector<Rank> missed = one->waiting_for();
    return std::find(missed.begin(), missed.end(), rank) != missed.end();
  });
  if (failed() || !is_missed) return;
  peer_failed(is_first ? rank : cause,
              fmt::format("{}, waited for {:.1f} s", how, static_cast<double>(waited) * 1e-9));
}

void Engine::fail_without(Rank rank, const std::string& why) {
  std::lock_guard lock(mutex_);
  if (!failed() && !wire_is_closed_) peer_failed(rank, why);
}

void Engine::close_wire() {
  std::lock_guard lock(mutex_);
  wire_is_closed_ = true;
}

bool Engine::has_wire() const {
  std::lock_guard lock(mutex_);
  return fabrics_.wire && !wire_is_closed_;
}

// Small, and rare: the few that are under way are kept until the wire has read them.
void Engine::send_status(Rank to, std::uint64_t tag, std::span<const std::byte> payload) {
  const bool is_elsewhere = to >= 0 && to < fabrics_.ranks && !fabrics_.local->activity_of(to);
  if (!fabrics_.wire || wire_is_closed_ || failed() || !is_elsewhere) return;
  std::erase_if(status_sent_, [](const StatusSent& sent) { return sent.unfinished == 0; });
  StatusSent& sent = status_sent_.emplace_back();
  std::copy(payload.begin(), payload.end(), sent.payload.begin());
  const Header header{
      kStatus, tag, 0, 0, 0, fabrics_.local->rank(), static_cast<std::uint32_t>(payload.size()), 0};
  Outgoing message{header, std::span(sent.payload).first(payload.size()), std::span(&to, 1)};
  message.unfinished = &sent.unfinished;
  fabrics_.wire->send(message);
}

// Noted, and answered when the round of progress is over.
void Engine::take_status(const Header& header, const View& view) {
  if (header.tag == kQuestion && view.bytes() == sizeof(StatusQuestion) &&
      questions_.size() < kMostQuestions) {
    StatusQuestion question;
    std::memcpy(&question, view.data(), sizeof(question));
    questions_.push_back({header.from, question.about, question.comm, question.number});
  } else if (header.tag == kAnswer && view.bytes() == sizeof(StatusAnswer) &&
             answers_.size() < kMostQuestions) {
    StatusAnswer answer;
    std::memcpy(&answer, view.data(), sizeof(answer));
    answers_.push_back(unpacked(answer));
  }
  View(view).release();
}

void Engine::answer_questions() {
  for (const Question& question : std::exchange(questions_, {})) {
    const std::optional<Peer> peer = look_at(question.about, question.comm, question.number);
    if (!peer) continue;
    const StatusAnswer answer = packed(*peer);
    send_status(question.from, kAnswer, std::as_bytes(std::span(&answer, 1)));
  }
}

}  // namespace ddl
