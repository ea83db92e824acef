#include "core/plan/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <unordered_map>

namespace ddl {
namespace {

// The contributions in one element: the sum of a random number per rank, once for each time its share is in
// it. A wrong multiset of shares has the right sum once in 2^64, and a cell costs the same for any number of
// ranks, so that hundreds of ranks are checked whole.
using Cell = std::uint64_t;
using Cells = std::vector<Cell>;

struct Key {
  Tag tag;
  Rank from, to;
  friend bool operator==(const Key&, const Key&) = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t ends = static_cast<std::uint64_t>(key.from) << 32 | static_cast<std::uint64_t>(key.to);
    return key.tag ^ (ends * 0x9e3779b97f4a7c15ull);
  }
};

// A message under way. Within a host the payload was copied when it was sent; between hosts it is read from
// the sender's buffer as late as can be: when the receiver takes it, or when the sender waits for that.
struct Message {
  const Cell* unread = nullptr;
  Elements count = 0;
  Cells cells;
  void read() {
    if (unread) cells.assign(unread, unread + count);
    unread = nullptr;
  }
};

class Simulation {
 public:
  Simulation(const std::vector<Plan>& plans, Elements count, Bytes element_size, Buffers buffers)
      : plans_(plans), count_(count), input_(plans.size()), unread_(plans.size()) {
    std::size_t ranks = plans.size();
    result_.wire_sent.resize(ranks);
    result_.local_sent.resize(ranks);
    tables_.resize(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      tables_[r].compute(plans[r], count, element_size);
      weight_.push_back(random_());
      everybody_ += weight_.back();
      bool one = buffers == Buffers::one || plans.size() == 1;
      output_.emplace_back(count, one ? weight_.back() : random_());
      if (!one) input_[r].assign(count, weight_.back());
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
               run_step(r, plans_[r].steps[flow.first + counters_[r][f]])) {
          ++counters_[r][f];
          moved = true;
        }
      }
    return moved;
  }

  bool run_step(std::size_t me, const Step& step) {
    std::span<const Rank> peers(plans_[me].peers.data() + step.peer, step.peers);
    Range range = tables_[me][step.slice];
    bool from_input = step.own == Source::input && !input_[me].empty();
    const Cell* own = (from_input ? input_[me] : output_[me]).data() + range.first;
    if (step.verb == Verb::send) {
      for (Rank peer : peers) send({step.tag, static_cast<Rank>(me), peer}, step, own, range.count);
      return true;
    }
    auto key = [&](Rank peer) { return Key{step.tag, peer, static_cast<Rank>(me)}; };
    if (!std::all_of(peers.begin(), peers.end(), [&](Rank peer) { return messages_.count(key(peer)) > 0; }))
      return false;
    if (step.after_sends) finish_sends(me);
    Cell* cells = output_[me].data() + range.first;
    if (step.verb == Verb::reduce) std::copy_n(own, range.count, cells);
    for (Rank peer : peers) receive(key(peer), step.verb, cells, range.count);
    return true;
  }

  void send(const Key& key, const Step& step, const Cell* cells, Elements count) {
    auto from = static_cast<std::size_t>(key.from);
    bool wire = step.fabric == Fabric::wire;
    (wire ? result_.wire_sent : result_.local_sent)[from] += count;
    auto [at, fresh] = messages_.try_emplace(key);
    if (!fresh)
      result_.problem = fmt::format("rank {} sends the same message to rank {} twice", key.from, key.to);
    at->second = {cells, count, {}};
    if (wire)
      unread_[from].push_back(key);
    else
      at->second.read();
  }

  void finish_sends(std::size_t rank) {
    for (const Key& key : unread_[rank])
      if (auto at = messages_.find(key); at != messages_.end()) at->second.read();
    unread_[rank].clear();
  }

  void receive(const Key& key, Verb verb, Cell* cells, Elements count) {
    auto message = messages_.extract(key);
    message.mapped().read();
    const Cells& theirs = message.mapped().cells;
    if (theirs.size() != count) {
      result_.problem =
          fmt::format("rank {} and rank {} disagree about the size of a message", key.from, key.to);
      return;
    }
    for (Elements i = 0; i < count; ++i) cells[i] = theirs[i] + (verb == Verb::reduce ? cells[i] : 0);
  }

  void check_end() {
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      for (std::size_t f = 0; f < plans_[r].flows.size(); ++f)
        if (counters_[r][f] < plans_[r].flows[f].count)
          result_.problem =
              fmt::format("rank {} waits for ever in step {} of flow {}", r, counters_[r][f], f);
      for (Elements i = 0; i < count_ && result_.problem.empty(); ++i)
        if (output_[r][i] != everybody_)
          result_.problem = fmt::format("rank {} holds in element {} {}", r, i, wrong(output_[r][i]));
    }
    if (result_.problem.empty() && !messages_.empty()) result_.problem = "a message is left over";
  }

  // The likely kinds of damage by name: one share missing or there twice.
  std::string wrong(Cell cell) const {
    for (std::size_t from = 0; from < weight_.size(); ++from) {
      if (cell + weight_[from] == everybody_) return fmt::format("nothing from rank {}", from);
      if (cell - weight_[from] == everybody_) return fmt::format("the share of rank {} twice", from);
    }
    return "not the share of every rank exactly once";
  }

  const std::vector<Plan>& plans_;
  Elements count_;
  std::mt19937_64 random_;
  std::vector<Cell> weight_;  // of each rank's share
  Cell everybody_ = 0;
  std::vector<SliceTable> tables_;
  std::vector<Cells> input_, output_;  // no input where it is the output
  std::vector<std::vector<std::uint32_t>> counters_;
  std::unordered_map<Key, Message, KeyHash> messages_;
  std::vector<std::vector<Key>> unread_;  // sent between hosts, per sender
  CheckResult result_;
};

}  // namespace

CheckResult check_plans(const std::vector<Plan>& plans, Elements count, Bytes element_size, Buffers buffers) {
  return Simulation(plans, count, element_size, buffers).run();
}

}  // namespace ddl
