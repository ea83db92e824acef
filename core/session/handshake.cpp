#include "core/session/handshake.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace ddl {
namespace {

// Of fixed size, as all rounds after the first; longer ones are cut.
using Reason = std::array<char, 512>;

Reason reason_of(const std::string& text) {
  Reason reason{};
  text.copy(reason.data(), reason.size() - 1);
  return reason;
}

constexpr std::uint64_t kTrouble = 0;
constexpr std::uint64_t kWell = 1;

// One bit per rail, one for whether it reads its neighbours' memory, one for lines that do not come slowly,
// and one that is always set.
constexpr std::uint64_t kFastLines = std::uint64_t{1} << 61, kReadsNeighbours = std::uint64_t{1} << 62;

std::uint64_t mask_of(const Reach& reach) {
  std::uint64_t mask = ~std::uint64_t{0};
  if (reach.slow_lines) mask &= ~kFastLines;
  if (!reach.reads_neighbours) mask &= ~kReadsNeighbours;
  for (std::size_t rail = 0; rail < reach.rail_trouble.size(); ++rail)
    if (!reach.rail_trouble[rail].empty()) mask &= ~(std::uint64_t{1} << rail);
  return mask;
}

std::size_t first_with(const std::vector<std::uint64_t>& values, std::uint64_t value) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

void append(std::string& list, const char* separator, const std::string& word) {
  list += (list.empty() ? "" : separator) + word;
}

}  // namespace

template <class Step>
void Handshake::attempt(Step step) {
  try {
    step();
  } catch (const std::exception& error) {
    trouble_ = error.what();
    if (trouble_.empty()) trouble_ = "an error without a text";
  }
}

void Handshake::start() { exchange_.start(pack(steps_.describe())); }

bool Handshake::step() {
  if (round_ != Round::over) advance([&] { return exchange_.test(); });
  return round_ == Round::over;
}

const Conclusion& Handshake::finish() {
  while (round_ != Round::over) advance([&] { return std::optional(exchange_.wait()); });
  return conclusion_;
}

template <class Listen>
void Handshake::advance(Listen listen) {
  try {
    if (std::optional<Exchange::Answers> answers = listen()) hear(*answers);
  } catch (const std::exception& error) {
    exchange_failed(error);
  }
}

void Handshake::hear(const Exchange::Answers& answers) {
  switch (round_) {
    case Round::endpoints:
      return hear_endpoints(answers);
    case Round::reach:
      return hear_reach(answers);
    case Round::connected:
      return hear_connected(answers);
    case Round::reason:
      return hear_reason(answers);
    case Round::over:
      return;
  }
}

// Without all endpoint infos this rank knows nothing, but the others may be well: they hear of it in the next
// round.
void Handshake::exchange_failed(const std::exception& error) {
  if (trouble_.empty()) trouble_ = error.what();
  if (round_ == Round::endpoints) {
    try {
      return say_reach();
    } catch (const std::exception&) {  // of the same cause: nothing can be said any more
    }
  }
  give_up(trouble_, static_cast<std::size_t>(exchange_.rank()), exchange_.rank());
}

void Handshake::hear_endpoints(const Exchange::Answers& answers) {
  attempt([&] { take_endpoints(answers); });
  // Rank 0 says it; its front does where it has no engine, with the cause that only it knows.
  if (!job_map_.trouble.empty()) return give_up(job_map_.trouble, 0, -1);
  if (trouble_.empty()) attempt([&] { reach_ = steps_.reach(job_map_, endpoints_); });
  say_reach();
}

void Handshake::take_endpoints(const Exchange::Answers& answers) {
  std::vector<std::optional<EndpointInfo>> maybe;
  maybe.reserve(answers.size());
  for (const auto& bytes : answers) maybe.push_back(bytes ? unpack(*bytes) : std::nullopt);
  job_map_ = map_job(maybe);
  if (!job_map_.trouble.empty()) return;
  endpoints_.reserve(maybe.size());
  for (auto& endpoint : maybe) endpoints_.push_back(std::move(*endpoint));
}

void Handshake::say_reach() {
  round_ = Round::reach;
  const std::uint64_t mine = trouble_.empty() ? mask_of(reach_) : kTrouble;
  exchange_.start(bytes_of_value(mine));
}

void Handshake::hear_reach(const Exchange::Answers& answers) {
  const auto reach_of_rank = values_of<std::uint64_t>(answers);
  if (std::size_t rank = first_with(reach_of_rank, kTrouble); rank < reach_of_rank.size())
    return ask_reason(rank);
  if (job_map_.hosts() > 1) {
    const std::size_t finder = choose_rails(reach_of_rank);
    if (job_map_.rails.empty()) return ask_reason(finder);
  }
  auto all_say = [&](std::uint64_t bit) {
    return std::all_of(reach_of_rank.begin(), reach_of_rank.end(),
                       [bit](std::uint64_t reach) { return (reach & bit) != 0; });
  };
  job_map_.single_copy = all_say(kReadsNeighbours);
  job_map_.slow_lines = !all_say(kFastLines);
  attempt([&] { steps_.connect(job_map_, endpoints_); });
  say_connected();
}

// A rail that one rank cannot use nobody uses. The first who found that says so, for all. Returns the first
// rank that has lost one.
std::size_t Handshake::choose_rails(const std::vector<std::uint64_t>& reach_of_rank) {
  std::vector<bool> keep;
  std::string kept, lost;
  std::size_t finder = reach_of_rank.size();
  for (std::size_t rail = 0; rail < job_map_.rails.size(); ++rail) {
    auto cannot = [&](std::uint64_t reach) { return (reach >> rail & 1) == 0; };
    auto at = std::find_if(reach_of_rank.begin(), reach_of_rank.end(), cannot);
    const auto first = static_cast<std::size_t>(at - reach_of_rank.begin());
    keep.push_back(at == reach_of_rank.end());
    finder = std::min(finder, first);
    if (keep[rail])
      append(kept, ", ", job_map_.rails[rail]);
    else if (is_me(first))
      append(lost, "; ", reach_.rail_trouble[rail]);
  }
  job_map_.keep_rails(keep);
  if (kept.empty())
    trouble_ = lost;
  else if (!lost.empty())
    steps_.rails_lost(lost, kept);
  return finder;
}

void Handshake::say_connected() {
  round_ = Round::connected;
  exchange_.start(bytes_of_value(trouble_.empty() ? kWell : kTrouble));
}

void Handshake::hear_connected(const Exchange::Answers& answers) {
  const auto connected = values_of<std::uint64_t>(answers);
  const std::size_t rank = first_with(connected, kTrouble);
  if (rank < connected.size()) return ask_reason(rank);
  Conclusion joined;
  joined.joined = true;
  conclude(std::move(joined));
}

void Handshake::ask_reason(std::size_t of_rank) {
  round_ = Round::reason;
  troubled_ = of_rank;
  exchange_.start(bytes_of_value(reason_of(trouble_)));
}

void Handshake::hear_reason(const Exchange::Answers& answers) {
  const auto reasons = values_of<Reason>(answers);
  give_up(is_me(troubled_) ? trouble_ : reasons[troubled_].data(), troubled_, static_cast<Rank>(troubled_));
}

void Handshake::give_up(const std::string& reason, std::size_t sayer, Rank of_rank) {
  const std::string copy = reason;  // it may be the job map's own
  job_map_.trouble = copy;
  conclude({.reason = copy, .says = is_me(sayer), .of_rank = of_rank});
}

void Handshake::conclude(Conclusion conclusion) {
  round_ = Round::over;
  conclusion_ = std::move(conclusion);
  endpoints_ = {};
}

}  // namespace ddl
