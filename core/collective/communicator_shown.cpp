// The part of Communicator that finds out that another member makes another call, and tells all which two
// these are.
//
//   shown := Header text     tag kShown, seq and fingerprint of the call that its sender is in, or has done
//
// Every message carries the fingerprint of its call, so that the first to arrive tells most contradictions.
// Its receiver shows its own call to all members, and so does who learns of another one by that: all that are
// in a call of that number come to know both. Where neither has anything to send to the other both wait;
// so who waits long shows its call to those that it waits for. They may not have come to it yet, and compare
// when they do.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/collective/communicator.hpp"

namespace ddl {
namespace {

// What comes from others is not believed.
std::string printable(const View& view) {
  const auto* letters = static_cast<const char*>(view.data());
  std::string text(letters, view.is_elsewhere() ? 0 : view.bytes());
  std::replace_if(
      text.begin(), text.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return text;
}

}  // namespace

// The call of that number here, under way or done.
std::optional<Communicator::OwnCall> Communicator::own_call(Seq seq) const {
  if (const Operation* operation = collective_under_way(seq))
    return OwnCall{operation->fingerprint(), operation->title()};
  return own_calls_.find(number_of(seq));
}

// Until the call of that number is opened. Of each member the latest: it shows a call again and again.
void Communicator::keep_shown(const Header& header, View view) {
  if (view.bytes() > View::kInline) return view.release();
  auto before = std::find_if(early_.begin(), early_.end(), [&header](const Early& early) {
    return early.header.tag == kShown && early.header.from == header.from;
  });
  if (before == early_.end()) {
    early_.push_back({header, view});
    return;
  }
  before->view.release();
  *before = {header, view};
}

void Communicator::take_shown(const Header& header, View view) {
  const bool is_right = !(header.seq & kBetweenTwo) && view.bytes() <= View::kInline;
  const std::optional<OwnCall> mine = is_right ? own_call(header.seq) : std::nullopt;
  if (mine && header.fingerprint != mine->fingerprint) {
    const std::string theirs = printable(view);
    contradict(header, *mine, &theirs);
  }
  view.release();
}

// That message is of another call than this rank makes; null: nothing is known of that.
void Communicator::contradict(const Header& header, const OwnCall& mine, const std::string* theirs) {
  if (contradiction_ && (contradiction_->names_both || !theirs)) return;
  const bool is_alike = theirs && *theirs == mine.title.substr(0, View::kInline);
  const std::string there = !theirs    ? kAnotherCall
                            : is_alike ? "one that is called alike, with other lengths"
                                       : *theirs;
  const std::string text = contradiction_of(header, mine.title, there);
  if (!contradiction_)
    contradiction_ =
        std::make_unique<Contradiction>(header.seq, mine, text, false, now() + shared_.for_the_other);
  contradiction_->text = text;
  contradiction_->names_both = theirs;
}

// Nothing more is sent from here once this rank has its problem.
void Communicator::tell_contradiction() {
  if (!std::exchange(contradiction_->is_shown, true)) show_to_all(contradiction_->seq, contradiction_->mine);
  const bool has_left = std::all_of(shared_.shown.begin(), shared_.shown.end(),
                                    [](const Shared::Shown& shown) { return shown.unfinished == 0; });
  if ((contradiction_->names_both && has_left) || now() >= contradiction_->until)
    problem_ = contradiction_->text;
}

std::string Communicator::contradiction_of(const Header& header, const std::string& mine,
                                           const std::string& theirs) const {
  return fmt::format(
      "rank {} and rank {} of a communicator of {} do not make the same call number {}: here it is {}, there "
      "{}",
      members().me, header.from, size(), header.seq & ~kBetweenTwo, mine, theirs);
}

void Communicator::show_to_all(Seq seq, const OwnCall& mine) {
  for (Rank member = 0; member < size(); ++member)
    if (member != members().me) show(member, seq, mine);
  if (shared_.fabrics.wire) shared_.fabrics.wire->push(0);
}

// Of a peer that has left something else tells why; who does not get it because its mailbox is full gets
// others.
void Communicator::show(Rank member, Seq seq, const OwnCall& mine) {
  const Rank to[] = {members().ranks[static_cast<std::size_t>(member)]};
  Transport* by = members().is_here(member) ? shared_.fabrics.local : shared_.fabrics.wire;
  if (by->has_left(to[0])) return;
  std::erase_if(shared_.shown, [](const Shared::Shown& shown) { return shown.unfinished == 0; });
  Shared::Shown& shown = shared_.shown.emplace_back(mine.title.substr(0, View::kInline));
  const auto bytes = static_cast<std::uint32_t>(shown.title.size());
  Outgoing message{{id_, kShown, seq, 0, mine.fingerprint, members().me, bytes, 0},
                   std::as_bytes(std::span(shown.title)),
                   to};
  message.unfinished = &shown.unfinished;
  if (by->send(message)) by->flush(to, shown.unfinished);
}

void Communicator::show_oldest() {
  const Operation* operation = oldest_collective();
  if (!operation || !operation->is_open()) return;
  if (shows_.call != first_) shows_ = {first_};
  const Nanoseconds waited = now() - operation->call().began;
  if (waited < shows_.next) return;
  while (shows_.next <= waited) shows_.next *= 2;
  const OwnCall mine{operation->fingerprint(), operation->title()};
  for (Rank member : operation->waiting_for()) show(member, operation->seq(), mine);
  if (shared_.fabrics.wire) shared_.fabrics.wire->push(0);
}

}  // namespace ddl
