#include "core/plan/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace ddl {
namespace {

// The contributions of one element: how often each rank's share is in it. Counting, not a set of bits, so
// that a share added twice shows.
using Contributions = std::vector<std::uint8_t>;
using Cells = std::vector<Contributions>;
using Key = std::tuple<Rank, Rank, Tag>;  // from, to, tag

class Simulation {
 public:
  Simulation(const std::vector<Plan>& plans, Elements count, Bytes element_size)
      : plans_(plans), count_(count) {
    std::size_t ranks = plans.size();
    result_.wire_sent.resize(ranks);
    result_.local_sent.resize(ranks);
    tables_.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      tables_[r].compute(plans[r], count, element_size);
      output_.emplace_back(count, Contributions(ranks));
      for (Contributions& cell : output_.back()) cell[r] = 1;
      counters_.emplace_back(plans[r].flows.size());
    }
  }

  CheckResult run() {
    while (sweep() && result_.problem.empty()) {
    }
    if (result_.problem.empty()) check_end();
    return std::move(result_);
  }

 private:
  // Every flow of every rank as far as it goes; false when nothing moved.
  bool sweep() {
    bool moved = false;
    for (std::size_t r = 0; r < plans_.size(); ++r)
      for (std::size_t f = 0; f < plans_[r].flows.size(); ++f) {
        const Flow& flow = plans_[r].flows[f];
        while (counters_[r][f] < flow.count && result_.problem.empty() &&
               run_step(static_cast<Rank>(r), plans_[r].steps[flow.first + counters_[r][f]])) {
          ++counters_[r][f];
          moved = true;
        }
      }
    return moved;
  }

  bool run_step(Rank me, const Step& step) {
    const Plan& plan = plans_[me];
    std::span<const Rank> peers(plan.peers.data() + step.peer, step.peers);
    Range range = tables_[me][step.slice];
    // Both buffers are one here: what was overwritten before it was sent shows as a wrong set.
    Cells& mine = output_[me];
    auto begin = mine.begin() + static_cast<std::ptrdiff_t>(range.first);
    if (step.verb == Verb::send) {
      for (Rank peer : peers)
        send(me, peer, step, Cells(begin, begin + static_cast<std::ptrdiff_t>(range.count)));
      return true;
    }
    for (Rank peer : peers)
      if (!messages_.count({peer, me, step.tag})) return false;
    for (Rank peer : peers) receive({peer, me, step.tag}, step.verb, &*begin, range);
    return true;
  }

  void send(Rank me, Rank peer, const Step& step, Cells cells) {
    (step.fabric == Fabric::wire ? result_.wire_sent : result_.local_sent)[me] += cells.size();
    if (!messages_.try_emplace({me, peer, step.tag}, std::move(cells)).second)
      result_.problem = fmt::format("rank {} sends the same message to rank {} twice", me, peer);
  }

  void receive(const Key& key, Verb verb, Contributions* cells, Range range) {
    auto message = messages_.extract(key);
    if (message.mapped().size() != range.count) {
      result_.problem = fmt::format("rank {} and rank {} disagree about the size of a message",
                                    std::get<0>(key), std::get<1>(key));
      return;
    }
    for (Elements i = 0; i < range.count; ++i) {
      if (verb == Verb::copy) cells[i] = message.mapped()[i];
      if (verb == Verb::reduce)
        std::transform(cells[i].begin(), cells[i].end(), message.mapped()[i].begin(), cells[i].begin(),
                       std::plus<>{});
    }
  }

  void check_end() {
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      for (std::size_t f = 0; f < plans_[r].flows.size(); ++f)
        if (counters_[r][f] < plans_[r].flows[f].count)
          result_.problem =
              fmt::format("rank {} waits for ever in step {} of flow {}", r, counters_[r][f], f);
      for (Elements i = 0; i < count_ && result_.problem.empty(); ++i)
        for (std::size_t from = 0; from < plans_.size(); ++from)
          if (output_[r][i][from] != 1)
            result_.problem = fmt::format("rank {} holds the share of rank {} in element {} {} times", r,
                                          from, i, static_cast<int>(output_[r][i][from]));
    }
    if (result_.problem.empty() && !messages_.empty()) result_.problem = "a message is left over";
  }

  const std::vector<Plan>& plans_;
  Elements count_;
  std::vector<SliceTable> tables_;
  std::vector<Cells> output_;  // in place, the harder case: input and output are one
  std::vector<std::vector<std::uint32_t>> counters_;
  std::map<Key, Cells> messages_;
  CheckResult result_;
};

}  // namespace

CheckResult check_plans(const std::vector<Plan>& plans, Elements count, Bytes element_size) {
  return Simulation(plans, count, element_size).run();
}

}  // namespace ddl
