// The part of Communicator that gives arrived messages to their operations, and refuses those that do not
// belong.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/collective/communicator.hpp"

namespace ddl {

Operation* Communicator::collective_under_way(Seq seq) const {
  const std::size_t place = (seq - seq_of(first_)) & ~kBetweenTwo;
  return place < opened_ ? queue_[place] : nullptr;
}

// The operation under way that a message is for; null: it is early, or over.
Operation* Communicator::addressee(const Header& header) const {
  if (!(header.seq & kBetweenTwo)) return collective_under_way(header.seq);
  for (Operation* operation : pairs())
    if (operation->seq() == header.seq && operation->call().root == header.from && operation->expects(header))
      return operation;
  return nullptr;
}

// Of a collective, relative to those under way: numbers in messages wrap around.
Communicator::Number Communicator::number_of(Seq seq) const {
  const Seq ahead = (seq - seq_of(first_)) & ~kBetweenTwo;
  const Seq behind = (seq_of(first_) - seq) & ~kBetweenTwo;
  return ahead <= behind ? first_ + ahead : first_ - std::min<Number>(behind, first_);
}

// Whether a message without addressee is for a call that is done; between two, where the direction is not
// known, for one that is done in both. Numbers wrap around.
bool Communicator::is_over(const Header& header) const {
  if (header.seq & kBetweenTwo) {
    auto has_passed = [&header](const std::unordered_map<Rank, Seq>& counts) {
      auto count = counts.find(header.from);
      Seq left = (header.seq - (count == counts.end() ? 0 : count->second)) & ~kBetweenTwo;
      return left > (kBetweenTwo >> 1);
    };
    const std::unordered_map<Rank, Seq> none;
    return has_passed(between_two_ ? between_two_->sent_to : none) &&
           has_passed(between_two_ ? between_two_->received_from : none);
  }
  Seq place = (header.seq - seq_of(first_)) & ~kBetweenTwo;
  return place < opened_ || place > (kBetweenTwo >> 1);
}

std::string Communicator::take(const Header& header, const View& view) {
  if (header.from < 0 || header.from >= size() || header.from == members().me)
    return refuse_foreign(header, view, nullptr);
  if (header.tag == kShown) {
    const bool is_early = !(header.seq & kBetweenTwo) && !is_over(header);
    is_early ? keep_shown(header, view) : take_shown(header, view);
    return {};
  }
  if (!(header.seq & kBetweenTwo)) credit_.heard(header.from, number_of(header.seq));
  if (header.tag == Credit::kAnswer) {
    View(view).release();
    return {};
  }
  Operation* operation = addressee(header);
  if (!operation && is_over(header)) return refuse_without_addressee(header, view);
  if (operation) {
    if (operation->fingerprint() != header.fingerprint) return refuse(header, view, *operation);
    Header plain = header;
    plain.segment &= ~kSenderWasAlone;
    switch (operation->take(plain, view)) {
      case Operation::Taken::yes:
        if (header.segment & kSenderWasAlone) operation->note_sender_was_alone();
        if (Bytes kept = shared_.fabrics.local->kept_block_of(view)) note_kept(header.from, kept);
        return {};
      case Operation::Taken::never:
        return refuse_foreign(header, view, operation);
      case Operation::Taken::later:
        break;
    }
  }
  early_.push_back({header, view});
  return {};
}

std::byte* Communicator::place_for(const Header& header) const {
  Operation* operation = addressee(header);
  return operation && operation->fingerprint() == header.fingerprint ? operation->place_for(header) : nullptr;
}

void Communicator::leave_place(const Header& header) const {
  if (Operation* operation = addressee(header)) operation->leave_place(header);
}

void Communicator::take_early() {
  scratch_.swap(early_);
  take_again(scratch_);
  scratch_.clear();
}

// Those for one operation that has just opened.
void Communicator::take_early_of(Seq seq) {
  if (early_.empty()) return;
  auto left = early_.begin();
  for (Early& early : early_)
    if (early.header.seq == seq)
      scratch_.push_back(early);
    else
      *left++ = early;
  early_.erase(left, early_.end());
  take_again(scratch_);
  scratch_.clear();
}

void Communicator::take_again(const std::vector<Early>& messages) {
  for (const Early& early : messages)
    if (std::string wrong = take(early.header, early.view); !wrong.empty()) problem_ = wrong;
}

// A call that this rank has done without hearing from anybody may have been another one there, or the same
// with other lengths.
std::string Communicator::refuse_without_addressee(const Header& header, View view) {
  std::optional<OwnCall> done;
  if (!(header.seq & kBetweenTwo)) done = own_call(header.seq);
  if (!done || (done->fingerprint == header.fingerprint && !done->is_pairwise))
    return refuse_foreign(header, view, nullptr);
  view.release();
  if (done->fingerprint == header.fingerprint)
    return fmt::format(
        "rank {} of a communicator of {} gets {} bytes of rank {} in call number {}, {}, in which it expects "
        "none",
        members().me, size(), header.bytes, header.from, header.seq, done->title);
  contradict(header, *done, nullptr);
  return {};
}

// A message of another call. Of one between two the other end hears by what it waits for.
std::string Communicator::refuse(const Header& header, View view, const Operation& operation) {
  view.release();
  const OwnCall mine{operation.fingerprint(), operation.title()};
  if (!(header.seq & kBetweenTwo)) {
    contradict(header, mine, nullptr);
    return {};
  }
  std::string wrong = contradiction_of(header, mine.title, kAnotherCall);
  if (operation.call().kind != Kind::send) return wrong;
  if (!warning_) warning_ = std::make_unique<Warning>(warning_of(operation, std::move(wrong)));
  return {};
}

// What no right engine sends; but where each two ranks decide by their own lengths these may differ. The
// message may be a part of what the other one has.
std::string Communicator::refuse_foreign(const Header& header, View view, const Operation* operation) const {
  view.release();
  if (const Call* call = operation ? &operation->call() : nullptr;
      call && call->pairwise && header.from >= 0 && header.from < size()) {
    const auto bytes_in = [&](const BlockLayout& blocks) {
      return blocks.counts ? blocks.counts[header.from] * size_of(call->type) : 0;
    };
    return fmt::format(
        "rank {} of a communicator of {} has {} bytes for rank {} and awaits {} of it in call number {}, {}; "
        "that rank counts otherwise: what two ranks have for each other must have the same length on both",
        members().me, size(), bytes_in(call->in_blocks), header.from, bytes_in(call->out_blocks), header.seq,
        operation->title());
  }
  return fmt::format(
      "rank {} of a communicator of {} got a message of rank {} that has no place in call number {}{}, as "
      "this rank made it: there it is another call, or one with another root or length (tag {:x}, segment "
      "{}, {} bytes)",
      members().me, size(), header.from, header.seq & ~kBetweenTwo,
      operation ? ", " + operation->title() : "", header.tag, header.segment & ~kSenderWasAlone,
      header.bytes);
}

}  // namespace ddl
