#include "core/plan/packed_planner.hpp"

#include <algorithm>
#include <utility>

#include "core/plan/host_tree.hpp"
#include "core/plan/plan_builder.hpp"
#include "core/plan/token_partners.hpp"

namespace ddl {
namespace {

constexpr Phase kUp = Phase::scatter, kBetween = Phase::exchange, kDown = Phase::gather;

// The ranks in the order in which packed blocks lie: host after host from one on, around.
class HostOrder {
 public:
  HostOrder(const HostMap& map, int first_host) {
    for (int n = 0; n < map.hosts(); ++n) {
      start_.push_back(static_cast<Rank>(ranks_.size()));
      const std::vector<Rank>& members = map.members((first_host + n) % map.hosts());
      ranks_.insert(ranks_.end(), members.begin(), members.end());
    }
    start_.push_back(static_cast<Rank>(ranks_.size()));
  }
  /// Of the n-th host.
  Rank start(int n) const { return start_[static_cast<std::size_t>(n)]; }
  Rank operator[](Rank position) const { return ranks_[static_cast<std::size_t>(position)]; }
  Rank size() const { return static_cast<Rank>(ranks_.size()); }

 private:
  std::vector<Rank> ranks_, start_;
};

class PackedPlanner {
 public:
  PackedPlanner(const Grid& grid, const HostMap& map, Rank me, const TaskChoice& choice)
      : map_(map),
        me_(me),
        here_(map.host_of(me)),
        root_(choice.task.root),
        kind_(choice.task.kind),
        tree_(map.hosts(), has_root(kind_) ? map.host_of(root_) : here_, choice.radix),
        order_(map, has_root(kind_) ? map.host_of(root_) : here_),
        build_(grid, me),
        whole_(build_.begin_lane({0, choice.rail.empty() ? RailId{0} : choice.rail[0], 0, 1, 1})) {}

  Plan plan() {
    build_.begin_flow();
    switch (kind_) {
      case Kind::gather:
        gather();
        break;
      case Kind::scatter:
        scatter();
        break;
      case Kind::all_gather:
        all_gather();
        break;
      default:
        all_to_all();
    }
    if (has_root(kind_)) heard_.exchange_tokens(build_);
    build_.plan().scratch = static_cast<std::uint32_t>(scratch_);
    return build_.take();
  }

 private:
  // ---- gather and scatter ----

  void gather() {
    if (me_ != agent(here_)) return send(Source::input, {kUp, 0, me_}, {agent(here_)});
    const Rank first = order_.start(tree_.number_of(here_)), blocks = subtree_blocks(here_);
    if (me_ == root_) {
      keep(Source::input, {Source::output, me_});
      for (Rank mate : map_.mates(me_)) copy({kUp, 0, mate}, mate, {Source::output, mate});
    } else {
      if (blocks == 1) return send(Source::input, {kBetween, 0, me_}, {agent(parent())});
      reserve(blocks);
      take_in_members(first);
    }
    for (int child : tree_.children(here_)) {
      if (me_ == root_) build_.begin_flow();
      const Rank at = order_.start(tree_.number_of(child)), n = subtree_blocks(child);
      const Purpose purpose{kBetween, 0, agent(child)};
      if (me_ != root_) {
        copy(purpose, agent(child), {Source::scratch, at - first, n});
      } else if (follow_each_other(at, n)) {
        copy(purpose, agent(child), {Source::output, order_[at], n});
      } else {
        const Rank place = reserve(n);
        copy(purpose, agent(child), {Source::scratch, place, n});
        unpack(place, at, n);
      }
    }
    if (me_ != root_) send({Source::scratch, 0, blocks}, {kBetween, 0, me_}, {agent(parent())});
  }

  void scatter() {
    if (me_ != agent(here_)) return copy({kDown, 0, me_}, agent(here_), Source::output);
    const Rank first = order_.start(tree_.number_of(here_)), blocks = subtree_blocks(here_);
    if (me_ != root_ && blocks == 1) return copy({kBetween, 0, me_}, agent(parent()), Source::output);
    if (me_ != root_) {
      reserve(blocks);
      copy({kBetween, 0, me_}, agent(parent()), {Source::scratch, 0, blocks});
    }
    for (int child : tree_.children(here_)) {
      const Rank at = order_.start(tree_.number_of(child)), n = subtree_blocks(child);
      const Place from = me_ == root_ ? packed(inputs(at, n)) : Place{Source::scratch, at - first, n};
      send(from, {kBetween, 0, agent(child)}, {agent(child)});
    }
    for (Rank i = 0; i < members(here_); ++i) {
      const Rank member = order_[first + i];
      const Place own = me_ == root_ ? Place{Source::input, member} : Place{Source::scratch, i};
      member == me_ ? keep(own, Source::output) : send(own, {kDown, 0, member}, {member});
    }
  }

  Rank subtree_blocks(int host) const {
    const int number = tree_.number_of(host);
    return order_.start(number + tree_.subtree(host)) - order_.start(number);
  }
  int parent() const { return tree_.parent(here_); }

  // ---- all-gather and all-to-all ----

  void all_gather() {
    const Rank all = order_.size();
    reserve(all);
    if (me_ != agent(here_)) {
      send(Source::input, {kUp, 0, me_}, {agent(here_)});
      copy({kDown, 0}, agent(here_), {Source::scratch, 0, all});
      return unpack(0, 0, all);
    }
    take_in_members(0);
    for (int far = 1; far < map_.hosts(); far *= 2) {
      const int hosts = std::min(far, map_.hosts() - far);
      const Rank at = order_.start(far);
      send({Source::scratch, 0, order_.start(hosts)}, {kBetween, 0, far}, {agent(farther(-far))});
      copy({kBetween, 0, far}, agent(farther(far)), {Source::scratch, at, order_.start(far + hosts) - at});
    }
    if (std::vector<Rank> mates = map_.mates(me_); !mates.empty())
      send({Source::scratch, 0, all}, {kDown, 0}, mates);
    unpack(0, 0, all);
  }

  // What is on its way is known by how many hosts it goes in all.
  void all_to_all() {
    const Rank all = order_.size();
    if (me_ != agent(here_)) {
      send({Source::input, 0, all}, {kUp, 0, me_}, {agent(here_)});
      return copy({kDown, 0, me_}, agent(here_), {Source::output, 0, all});
    }
    on_its_way_ = collect();
    for (int far = 1; far < map_.hosts(); far *= 2) pass_on(far);
    for (Rank mate : map_.mates(me_)) send(packed(brought_to(mate)), {kDown, 0, mate}, {mate});
    const std::vector<Place> own = brought_to(me_);
    keep_all(own, {Source::output, 0});
  }

  // For each host from this one on: what its ranks get from the ranks of this one, by these.
  std::vector<std::vector<Place>> collect() {
    std::vector<std::vector<Place>> going(static_cast<std::size_t>(map_.hosts()));
    for (Rank from : map_.members(here_)) {
      Place first = Source::input;
      if (from != me_) {
        first = {Source::scratch, reserve(order_.size())};
        copy({kUp, 0, from}, from, {Source::scratch, static_cast<Rank>(first.block), order_.size()});
      }
      for (int far = 0; far < map_.hosts(); ++far)
        for (Rank to : map_.members(farther(far)))
          going[static_cast<std::size_t>(far)].push_back({first.source, static_cast<Rank>(first.block) + to});
    }
    return going;
  }

  // What has that bit in its distance goes so far. It comes from hosts that all lower bits tell.
  void pass_on(int far) {
    std::vector<Place> leaving;
    Rank coming = 0;
    for (int distance = 0; distance < map_.hosts(); ++distance) {
      if (!(distance & far)) continue;
      const std::vector<Place>& blocks = on_its_way_[static_cast<std::size_t>(distance)];
      leaving.insert(leaving.end(), blocks.begin(), blocks.end());
      coming += blocks_between(distance, distance % (2 * far));
    }
    send(packed(leaving), {kBetween, 0, far}, {agent(farther(far))});
    Rank place = reserve(coming);
    copy({kBetween, 0, far}, agent(farther(-far)), {Source::scratch, place, coming});
    for (int distance = 0; distance < map_.hosts(); ++distance) {
      if (!(distance & far)) continue;
      std::vector<Place>& blocks = on_its_way_[static_cast<std::size_t>(distance)];
      blocks.clear();
      for (Rank n = blocks_between(distance, distance % (2 * far)); n > 0; --n)
        blocks.push_back({Source::scratch, place++});
    }
  }
  // What goes so far in all and has come that far when it is here.
  Rank blocks_between(int distance, int done) const {
    return members(farther(-done)) * members(farther(distance - done));
  }

  // What a rank of this host gets, in the order of those it comes from.
  std::vector<Place> brought_to(Rank to) const {
    std::vector<Place> blocks;
    for (Rank from = 0; from < order_.size(); ++from) {
      const int distance = (here_ - map_.host_of(from) + map_.hosts()) % map_.hosts();
      const Rank row = index_of(from), column = index_of(to);
      blocks.push_back(on_its_way_[static_cast<std::size_t>(distance)]
                                  [static_cast<std::size_t>(row * members(here_) + column)]);
    }
    return blocks;
  }
  Rank index_of(Rank rank) const {
    const std::vector<Rank>& members = map_.members(map_.host_of(rank));
    return static_cast<Rank>(std::lower_bound(members.begin(), members.end(), rank) - members.begin());
  }
  int farther(int hosts) const { return ((here_ + hosts) % map_.hosts() + map_.hosts()) % map_.hosts(); }

  // The blocks of this host's ranks, the first of which has that position, to the beginning of scratch.
  void take_in_members(Rank first) {
    for (Rank i = 0; i < members(here_); ++i) {
      const Rank member = order_[first + i];
      member == me_ ? keep(Source::input, {Source::scratch, i})
                    : copy({kUp, 0, member}, member, {Source::scratch, i});
    }
  }

  // ---- packing ----

  Rank reserve(Rank blocks) { return std::exchange(scratch_, scratch_ + blocks); }

  // Blocks of the input, by position.
  std::vector<Place> inputs(Rank first, Rank n) const {
    std::vector<Place> blocks;
    for (Rank i = 0; i < n; ++i) blocks.push_back({Source::input, order_[first + i]});
    return blocks;
  }
  bool follow_each_other(Rank first, Rank n) const {
    for (Rank i = 1; i < n; ++i)
      if (order_[first + i] != order_[first] + i) return false;
    return true;
  }

  // Those that lie one after the other, from one on.
  static Rank run_from(const std::vector<Place>& blocks, std::size_t first) {
    std::size_t i = first + 1;
    while (i < blocks.size() && blocks[i].source == blocks[first].source &&
           blocks[i].block == blocks[first].block + (i - first))
      ++i;
    return static_cast<Rank>(i - first);
  }
  // These blocks one after the other, where they are or in scratch.
  Place packed(const std::vector<Place>& blocks) {
    const Rank n = static_cast<Rank>(blocks.size());
    if (run_from(blocks, 0) == n) return {blocks[0].source, static_cast<Rank>(blocks[0].block), n};
    const Place place{Source::scratch, reserve(n), n};
    keep_all(blocks, place);
    return place;
  }
  void keep_all(const std::vector<Place>& blocks, Place into) {
    for (std::size_t i = 0; i < blocks.size();) {
      const Rank n = run_from(blocks, i);
      keep({blocks[i].source, static_cast<Rank>(blocks[i].block), n},
           {into.source, static_cast<Rank>(into.block + i), n});
      i += static_cast<std::size_t>(n);
    }
  }
  // From scratch to the output, by position.
  void unpack(Rank place, Rank first, Rank n) {
    for (Rank i = 0; i < n;) {
      Rank run = 1;
      while (i + run < n && order_[first + i + run] == order_[first + i] + run) ++run;
      keep({Source::scratch, place + i, run}, {Source::output, order_[first + i], run});
      i += run;
    }
  }

  // ---- the pen ----

  void send(Place own, Purpose purpose, const std::vector<Rank>& to) {
    build_.send(own, whole_, purpose, to);
    heard_.sends_to(to);
  }
  void copy(Purpose purpose, Rank from, Place into) {
    build_.copy(whole_, purpose, from, into);
    heard_.hears_from({&from, 1});
  }
  void keep(Place own, Place into) { build_.keep(whole_, own, into); }

  Rank agent(int host) const {
    return has_root(kind_) && host == map_.host_of(root_) ? root_ : map_.members(host)[0];
  }
  Rank members(int host) const { return static_cast<Rank>(map_.members(host).size()); }

  const HostMap& map_;
  Rank me_;
  int here_;
  Rank root_;
  Kind kind_;
  HostTree tree_;
  HostOrder order_;
  PlanBuilder build_;
  Piece whole_;
  TokenPartners heard_;
  Rank scratch_ = 0;
  std::vector<std::vector<Place>> on_its_way_;
};

}  // namespace

Plan packed_plan(const Grid& grid, const HostMap& map, Rank rank, const TaskChoice& choice) {
  return PackedPlanner(grid, map, rank, choice).plan();
}

PackedStaging packed_staging(const HostMap& map, Kind kind) {
  const Rank mates = map.largest() - 1;
  if (mates == 0) return {};
  switch (kind) {
    case Kind::gather:
      return {1, 1};
    case Kind::scatter:
      return {1, mates};
    case Kind::all_gather:
      return {map.ranks(), 1};
    default:
      return {map.ranks(), mates};
  }
}

bool can_be_packed(const HostMap& map, Task task) {
  return map.hosts() > 1 && (task.kind == Kind::gather || task.kind == Kind::scatter ||
                             task.kind == Kind::all_gather || task.kind == Kind::all_to_all);
}

}  // namespace ddl
