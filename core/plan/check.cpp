#include "core/plan/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <unordered_map>

namespace ddl {
namespace {

// The contributions in one element: the sum of a random number per rank, times a number that tells the
// element, once for each time its share is in it. A wrong multiset of shares has the right sum once in 2^64,
// and a cell costs the same for any number of ranks, so that hundreds of ranks are checked whole.
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

// The buffers of one rank. In place the smaller one lies in the larger one.
class Memory {
 public:
  Memory(Task task, Rank me, Rank ranks, Elements count, Buffers buffers)
      : in_blocks_(static_cast<Elements>(blocks_in(task, me, ranks))),
        out_blocks_(static_cast<Elements>(blocks_out(task, me, ranks))),
        count_(count) {
    bool can = task.kind != Kind::all_to_all && !is_between_two(task.kind);
    in_place_ = in_blocks_ > 0 && out_blocks_ > 0 && can && buffers == Buffers::one;
    if (in_place_ && in_blocks_ != out_blocks_)
      (in_blocks_ < out_blocks_ ? in_at_ : out_at_) = static_cast<Elements>(me) * count;
    cells_[1].resize(std::max(out_blocks_, in_place_ ? in_blocks_ : 0) * count);
    if (!in_place_) cells_[0].resize(in_blocks_ * count);
  }
  void make_scratch(Elements blocks) { cells_[2].resize(blocks * count_); }

  /// Null where the rank has no such block.
  Cell* at(Source source, Elements block) {
    Elements blocks = source == Source::input    ? in_blocks_
                      : source == Source::output ? out_blocks_
                      : count_                   ? cells_[2].size() / count_
                                                 : 1;
    if (block >= blocks) return nullptr;
    bool is_input = source == Source::input;
    Cells& cells = cells_[is_input && in_place_ ? 1 : static_cast<std::size_t>(source)];
    return cells.data() + (is_input ? in_at_ : source == Source::output ? out_at_ : 0) + block * count_;
  }
  Elements in_blocks() const { return in_blocks_; }
  Elements out_blocks() const { return out_blocks_; }
  template <class Random>
  void soil(Random& random) {
    for (Cells& cells : cells_)
      for (Cell& cell : cells) cell = random();
  }

 private:
  Elements in_blocks_, out_blocks_, count_, in_at_ = 0, out_at_ = 0;
  bool in_place_ = false;
  Cells cells_[3];  // by Source
};

class Simulation {
 public:
  Simulation(const std::vector<Plan>& plans, Elements count, Bytes element_size, Buffers buffers, Task task)
      : plans_(plans), count_(count), task_(task), unread_(plans.size()) {
    auto ranks = static_cast<Rank>(plans.size());
    result_.wire_sent.resize(plans.size());
    result_.local_sent.resize(plans.size());
    tables_.resize(plans.size());
    for (Rank me = 0; me < ranks; ++me) {
      auto r = static_cast<std::size_t>(me);
      tables_[r].compute(plans[r], count, element_size);
      weight_.push_back(random_());
      everybody_ += weight_.back();
      memory_.emplace_back(task_of(me), me, ranks, count, buffers);
      memory_[r].make_scratch(plans[r].scratch);
      memory_[r].soil(random_);
      for (Elements b = 0; b < memory_[r].in_blocks(); ++b)
        for (Elements i = 0; i < count; ++i) memory_[r].at(Source::input, b)[i] = share(me, b, i);
      counters_.emplace_back(plans[r].flows.size());
    }
  }

  CheckResult run() {
    sweep_all(kNobody);
    if (result_.problem.empty()) check_end();
    return std::move(result_);
  }

  std::string run_without(Rank absent) {
    sweep_all(absent);
    auto gone = static_cast<std::size_t>(absent);
    for (std::size_t r = 0; r < plans_.size() && result_.problem.empty(); ++r) {
      bool ended = r != gone;
      for (std::size_t f = 0; f < plans_[r].flows.size(); ++f)
        ended = ended && counters_[r][f] == plans_[r].flows[f].count;
      if (!ended) continue;
      for (const auto& [key, message] : messages_)
        if (key.to == absent && key.from == static_cast<Rank>(r))
          result_.problem =
              fmt::format("rank {} sends to rank {} and ends without having heard of it", r, absent);
    }
    return result_.problem;
  }

 private:
  static constexpr Rank kNobody = -1;

  Task task_of(Rank me) const {
    if (!is_between_two(task_.kind)) return task_;
    return {me == 0 ? Kind::send : Kind::receive, 1 - me};
  }

  // What rank `from` brings as element i of its block.
  Cell share(Rank from, Elements block, Elements i) const {
    return weight_[static_cast<std::size_t>(from)] * (2 * (block * count_ + i) + 1);
  }

  void sweep_all(Rank absent) {
    while (sweep(absent) && result_.problem.empty()) {
    }
  }

  // Every flow of every rank as far as it goes; false when nothing moved.
  bool sweep(Rank absent) {
    bool moved = false;
    for (std::size_t r = 0; r < plans_.size(); ++r)
      for (std::size_t f = 0; f < plans_[r].flows.size() && static_cast<Rank>(r) != absent; ++f) {
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
    Range range = tables_[me].of(step);
    if (step.verb == Verb::send) {
      const Cell* own = cells(me, step.own, step.own_block, step);
      for (Rank peer : peers) send({step.tag, static_cast<Rank>(me), peer}, step, own, range.count);
      return true;
    }
    auto key = [&](Rank peer) { return Key{step.tag, peer, static_cast<Rank>(me)}; };
    if (!std::all_of(peers.begin(), peers.end(), [&](Rank peer) { return messages_.count(key(peer)) > 0; }))
      return false;
    if (step.after_sends) finish_sends(me);
    Cell* into = cells(me, step.into, step.into_block, step);
    if ((step.verb == Verb::reduce || peers.empty()) && result_.problem.empty()) {
      const Cell* own = cells(me, step.own, step.own_block, step);
      if (own && own != into) std::copy_n(own, range.count, into);
    }
    for (Rank peer : peers) receive(key(peer), step.verb, into, range.count);
    return true;
  }

  // Where a step finds its slice; a token has none.
  Cell* cells(std::size_t me, Source source, Elements block, const Step& step) {
    if (step.is_token) return nullptr;
    Cell* begin = memory_[me].at(source, block);
    if (!begin && count_ > 0)
      result_.problem = fmt::format("rank {} uses a buffer that it does not have", me);
    return begin ? begin + tables_[me][step.slice].first : nullptr;
  }

  void send(const Key& key, const Step& step, const Cell* cells, Elements count) {
    auto from = static_cast<std::size_t>(key.from);
    bool wire = step.fabric == Fabric::wire;
    (wire ? result_.wire_sent : result_.local_sent)[from] += count;
    auto [at, fresh] = messages_.try_emplace(key);
    if (!fresh)
      result_.problem = fmt::format("rank {} sends the same message to rank {} twice", key.from, key.to);
    at->second = {cells, cells ? count : 0, {}};
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
    for (Elements i = 0; i < count && cells; ++i)
      cells[i] = theirs[i] + (verb == Verb::reduce ? cells[i] : 0);
  }

  void check_end() {
    for (std::size_t r = 0; r < plans_.size(); ++r) {
      for (std::size_t f = 0; f < plans_[r].flows.size(); ++f)
        if (counters_[r][f] < plans_[r].flows[f].count)
          result_.problem =
              fmt::format("rank {} waits for ever in step {} of flow {}", r, counters_[r][f], f);
      for (Elements b = 0; b < memory_[r].out_blocks(); ++b) check_block(static_cast<Rank>(r), b);
    }
    if (result_.problem.empty() && !messages_.empty()) result_.problem = "a message is left over";
  }

  void check_block(Rank me, Elements b) {
    const Cell* cells = memory_[static_cast<std::size_t>(me)].at(Source::output, b);
    for (Elements i = 0; i < count_ && result_.problem.empty(); ++i)
      if (cells[i] != promised(me, b, i))
        result_.problem =
            fmt::format("rank {} holds in element {} {}", me, b * count_ + i, wrong(cells[i], me, b, i));
  }

  // Which block of a rank's input goes to block b of the output of rank `me`.
  Elements source_block(Rank me) const {
    bool by_receiver =
        task_.kind == Kind::reduce_scatter || task_.kind == Kind::scatter || task_.kind == Kind::all_to_all;
    return by_receiver ? static_cast<Elements>(me) : 0;
  }

  Cell promised(Rank me, Elements b, Elements i) const {
    if (computes(task_.kind)) return everybody_ * (2 * (source_block(me) * count_ + i) + 1);
    bool from_root = task_.kind == Kind::broadcast || task_.kind == Kind::scatter;
    Rank from = is_between_two(task_.kind) ? 0 : from_root ? task_.root : static_cast<Rank>(b);
    return share(from, source_block(me), i);
  }

  // The likely kinds of damage by name: one share missing or there twice.
  std::string wrong(Cell cell, Rank me, Elements b, Elements i) const {
    if (!computes(task_.kind)) return "not what belongs there";
    for (std::size_t from = 0; from < weight_.size(); ++from) {
      Cell its = share(static_cast<Rank>(from), source_block(me), i), everybody = promised(me, b, i);
      if (cell + its == everybody) return fmt::format("nothing from rank {}", from);
      if (cell - its == everybody) return fmt::format("the share of rank {} twice", from);
    }
    return "not the share of every rank exactly once";
  }

  const std::vector<Plan>& plans_;
  Elements count_;
  Task task_;
  std::mt19937_64 random_;
  std::vector<Cell> weight_;  // of each rank's share
  Cell everybody_ = 0;
  std::vector<SliceTable> tables_;
  std::vector<Memory> memory_;
  std::vector<std::vector<std::uint32_t>> counters_;
  std::unordered_map<Key, Message, KeyHash> messages_;
  std::vector<std::vector<Key>> unread_;  // sent between hosts, per sender
  CheckResult result_;
};

}  // namespace

CheckResult check_plans(const std::vector<Plan>& plans, Elements count, Bytes element_size, Buffers buffers,
                        Task task) {
  return Simulation(plans, count, element_size, buffers, task).run();
}

std::string check_waits_for(const std::vector<Plan>& plans, Rank absent, Elements count, Task task) {
  return Simulation(plans, count, 4, Buffers::two, task).run_without(absent);
}

}  // namespace ddl
