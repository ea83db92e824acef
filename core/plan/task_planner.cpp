#include "core/plan/task_planner.hpp"

#include <algorithm>

#include "core/base/partition.hpp"
#include "core/plan/host_tree.hpp"
#include "core/plan/packed_planner.hpp"
#include "core/plan/task_pen.hpp"

namespace ddl {
namespace {

class TaskPlanner : TaskPen {
 public:
  TaskPlanner(const Grid& grid, const HostMap& map, Rank me, const TaskChoice& choice)
      : TaskPen(grid, map, me, choice),
        root_(choice.task.root),
        tree_(map.hosts(), map.host_of(choice.task.root), choice.radix) {}

  Plan plan() {
    std::vector<std::size_t> ends;
    for (const LaneCut& cut : cut_lanes(choice_.share, choice_.rail)) {
      lane_ = static_cast<Rank>(cut.lane);
      const Piece whole = build_.begin_lane(cut);
      other_way_ = takes_turns(choice_) ? build_.mirrored(cut) : whole;
      plan_lane(whole);
      ends.push_back(build_.plan().flows.size());
    }
    build_.take_turns(ends);
    if (has_root(choice_.task.kind) && !all_hear_from_all()) heard_.exchange_tokens(build_);
    build_.plan().scratch = scratch_;
    return build_.take();
  }

 private:
  void plan_lane(const Piece& whole) {
    switch (choice_.task.kind) {
      case Kind::broadcast:
        return broadcast(whole);
      case Kind::reduce:
        return reduce(whole);
      case Kind::all_gather:
        return all_gather(whole);
      case Kind::reduce_scatter:
        return reduce_scatter(whole);
      case Kind::gather:
        return gather(whole);
      case Kind::scatter:
        return scatter(whole);
      case Kind::all_to_all:
        return all_to_all(whole);
      case Kind::send:
        return send_to_one(whole);
      case Kind::receive:
        return receive_from_one(whole);
      case Kind::all_reduce:
        return;  // planned elsewhere
    }
  }

  // -- one to many, many to one

  void broadcast(const Piece& whole) {
    if (choice_.division == Division::whole) return broadcast_whole(whole);
    const bool chain = choice_.division == Division::chain;
    std::vector<Piece> pieces = pieces_of(whole, chain ? map_.largest() : passes_on() ? map_.hosts() - 1 : 1);
    int home = map_.host_of(root_);
    if (me_ == root_) {
      build_.begin_flow();
      for (std::size_t k = 0; k < pieces.size(); ++k)
        send(Source::input, pieces[k], kMove, chain ? next_in_chain(k) : first_agents(k));
      build_.begin_flow();
      send(Source::input, whole, kMove, map_.mates(me_));
      build_.keep(whole, Source::input);
    } else if (here() == home) {
      build_.begin_flow();
      copy(whole, kMove, root_, Source::output);
    } else {
      for (std::size_t k = 0; k < pieces.size(); ++k)
        chain ? pass_on_in_chain(pieces[k], k) : relay(pieces[k], k);
    }
  }

  // Piece k goes from host to host, around from the root's.
  void pass_on_in_chain(const Piece& piece, std::size_t k) {
    const Rank agent = agent_of(here(), k);
    build_.begin_flow();
    if (me_ != agent) return copy(piece, kMove, agent, Source::output);
    copy(piece, kMove, last_host() == map_.host_of(root_) ? root_ : agent_of(last_host(), k), Source::output);
    send(Source::output, piece, kMove, with_mates(next_in_chain(k)));
  }
  std::vector<Rank> next_in_chain(std::size_t k) const {
    if (next_host() == map_.host_of(root_)) return {};
    return {agent_of(next_host(), k)};
  }

  // Down the tree of hosts, whose agents pass it on to their children before their mates.
  void broadcast_whole(const Piece& whole) {
    build_.begin_flow();
    if (me_ != tree_agent(here())) return copy(whole, kMove, tree_agent(here()), Source::output);
    if (me_ != root_) copy(whole, kMove, tree_agent(tree_.parent(here())), Source::output);
    Place own = me_ == root_ ? Source::input : Source::output;
    send(own, whole, kMove, with_mates(agents_below()));
    if (me_ == root_) build_.keep(whole, own);
  }

  Rank tree_agent(int host) const { return host == map_.host_of(root_) ? root_ : agent_of(host, 0); }
  std::vector<Rank> agents_below() const {
    std::vector<Rank> agents;
    for (int host : tree_.children(here())) agents.push_back(tree_agent(host));
    return agents;
  }

  // One piece of a broadcast, on a host that the root is not on.
  void relay(const Piece& piece, std::size_t k) {
    build_.begin_flow();
    Rank agent = agent_of(here(), k);
    if (me_ != agent) return copy(piece, kMove, agent, Source::output);
    std::vector<Rank> first = first_agents(k);
    bool is_first = std::find(first.begin(), first.end(), me_) != first.end();
    copy(piece, kMove, is_first ? root_ : first[0], Source::output);
    std::vector<Rank> to = map_.mates(me_);
    for (int host = 0; is_first && passes_on() && host < map_.hosts(); ++host)
      if (host != here() && host != map_.host_of(root_)) to.push_back(agent_of(host, k));
    send(Source::output, piece, kMove, to);
  }

  // To whom the root sends piece k.
  std::vector<Rank> first_agents(std::size_t k) const {
    std::vector<Rank> agents;
    for (int host = 0; host < map_.hosts(); ++host)
      if (host != map_.host_of(root_)) agents.push_back(agent_of(host, k));
    if (passes_on()) agents = {agents[k]};
    return agents;
  }

  // Between two hosts there is nobody to share the work with.
  bool passes_on() const { return map_.hosts() > 2; }
  Rank agent_of(int host, std::size_t k) const { return map_.agent(host, static_cast<Rank>(k) + lane_); }

  // Folded within hosts by the owner of each piece there, then between hosts; then it goes to the root.
  void reduce(const Piece& whole) {
    if (choice_.division == Division::whole) return reduce_whole(whole);
    std::vector<Piece> pieces = pieces_of(whole, map_.largest());
    build_.begin_flow();
    for (std::size_t k = 0; k < pieces.size(); ++k)
      if (Rank owner = agent_of(here(), k); owner != me_)
        send(Source::input, pieces[k], {Phase::scatter, 0}, {owner});
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      if (agent_of(here(), k) == me_) pass_along(pieces[k], k);
      Rank last = agent_of(map_.host_of(root_), k);
      if (me_ != root_ || last == me_) continue;
      build_.begin_flow();
      copy(pieces[k], {Phase::gather, 0}, last, Source::output);
    }
  }

  // Along a chain of hosts that ends where the root is: every link carries everything once.
  void pass_along(const Piece& piece, std::size_t k) {
    const int home = map_.host_of(root_), hosts = map_.hosts();
    const int farther = (here() + 1) % hosts, nearer = (here() + hosts - 1) % hosts;
    build_.begin_flow();
    Place own = Source::input;
    if (std::vector<Rank> mates = map_.mates(me_); !mates.empty()) {
      fold(own, piece, {Phase::scatter, 0}, mates, result_place());
      own = result_place();
    }
    if (farther != home) {
      fold(own, piece, {Phase::exchange, 0}, {agent_of(farther, k)}, result_place());
      own = result_place();
    }
    if (here() != home)
      send(own, piece, {Phase::exchange, 0}, {agent_of(nearer, k)});
    else if (me_ != root_)
      send(own, piece, {Phase::gather, 0}, {root_});
    else if (own.source == Source::input)
      build_.keep(piece, own);
  }

  // Folded on each host by its agent, then up the tree of hosts.
  void reduce_whole(const Piece& whole) {
    build_.begin_flow();
    if (me_ != tree_agent(here()))
      return send(Source::input, whole, {Phase::scatter, 0}, {tree_agent(here())});
    Place own = Source::input;
    if (std::vector<Rank> mates = map_.mates(me_); !mates.empty()) {
      fold(own, whole, {Phase::scatter, 0}, mates, result_place());
      own = result_place();
    }
    if (std::vector<int> below = tree_.children(here()); !below.empty()) {
      std::sort(below.begin(), below.end());
      std::vector<Rank> agents;
      for (int host : below) agents.push_back(tree_agent(host));
      fold(own, whole, {Phase::exchange, 0}, agents, result_place());
      own = result_place();
    }
    if (me_ != root_)
      send(own, whole, {Phase::exchange, 0}, {tree_agent(tree_.parent(here()))});
    else if (own.source == Source::input)
      build_.keep(whole, own);
  }

  Place result_place() { return me_ == root_ ? Place(Source::output) : scratch(0); }

  void gather(const Piece& whole) {
    build_.begin_flow();
    if (me_ != root_) return send(Source::input, whole, block(me_), {root_});
    build_.keep(whole, Source::input, {Source::output, me_});
    in_flows(others_after(), [&](Rank j) { copy(whole, block(j), j, {Source::output, j}); });
  }

  void scatter(const Piece& whole) {
    if (me_ != root_) {
      build_.begin_flow();
      return copy(whole, block(me_), root_, Source::output);
    }
    in_flows(others_after(), [&](Rank j) { send({Source::input, j}, whole, block(j), {j}); });
    build_.begin_flow();
    build_.keep(whole, {Source::input, me_});
  }

  // -- many to many

  // In a chain each block goes around the hosts from that of its rank, in the other kinds of crossing from
  // there to all of them.
  void all_gather(const Piece& whole) {
    build_.begin_flow();
    send(Source::input, whole, block(me_), with_mates(first_away()));
    build_.keep(whole, Source::input, {Source::output, me_});
    in_flows(others_by_links([&](Rank j) { return links(map_.host_of(j), here()); }), [&](Rank j) {
      copy(whole, block(j), whence(j), {Source::output, j});
      if (map_.host_of(j) == here() || crosses_directly() || map_.agent(here(), j) != me_) return;
      std::vector<Rank> to;
      if (in_chain() && next_host() != map_.host_of(j)) to.push_back(map_.agent(next_host(), j));
      to = with_mates(std::move(to));
      if (!to.empty()) send({Source::output, j}, whole, block(j), to);
    });
  }

  // Whom this rank's own block goes to first on other hosts.
  std::vector<Rank> first_away() const {
    std::vector<Rank> to;
    for (int host = 0; host < map_.hosts(); ++host) {
      if (host == here() || (in_chain() && host != next_host())) continue;
      if (crosses_directly())
        to.insert(to.end(), map_.members(host).begin(), map_.members(host).end());
      else
        to.push_back(map_.agent(host, me_));
    }
    return to;
  }

  // From whom this rank has the block of an all-gather.
  Rank whence(Rank j) const {
    const int home = map_.host_of(j);
    const Rank agent = map_.agent(here(), j);
    if (home == here() || crosses_directly()) return j;
    if (agent != me_) return agent;
    return in_chain() && last_host() != home ? map_.agent(last_host(), j) : j;
  }

  // In a chain what a block's ranks have gathers from host to host, ever more of it, and ends at its rank's.
  void reduce_scatter(const Piece& whole) {
    std::vector<Rank> agented;
    build_.begin_flow();
    for (Rank j : others_by_links([&](Rank j) { return links(after(map_.host_of(j)), here()); })) {
      bool elsewhere = map_.host_of(j) != here() && !crosses_directly();
      Rank to = elsewhere ? map_.agent(here(), j) : j;
      build_.begin_block(j);
      if (to == me_)
        agented.push_back(j);
      else
        send({Source::input, j}, whole, block(j), {to});
    }
    Rank number = 0;
    in_flows(agented, [&](Rank j) {
      const int home = map_.host_of(j);
      std::vector<Rank> from = map_.mates(me_);
      if (in_chain() && last_host() != home) from.push_back(map_.agent(last_host(), j));
      const Rank to = in_chain() && next_host() != home ? map_.agent(next_host(), j) : j;
      if (from.empty()) return send({Source::input, j}, whole, block(j), {to});
      Place partial = scratch(number++);
      fold({Source::input, j}, whole, block(j), from, partial);
      send(partial, whole, block(j), {to});
    });
    build_.begin_flow();
    if (std::vector<Rank> from = contributors(); !from.empty())
      fold({Source::input, me_}, whole, block(me_), from, Source::output);
    else
      build_.keep(whole, {Source::input, me_});
  }

  // Who sends something about this rank's block of a reduce-scatter.
  std::vector<Rank> contributors() const {
    std::vector<Rank> from;
    for (int host = 0; host < map_.hosts(); ++host) {
      if (in_chain() && host != here() && host != last_host()) continue;
      if (host == here() || crosses_directly())
        from.insert(from.end(), map_.members(host).begin(), map_.members(host).end());
      else
        from.push_back(map_.agent(host, me_));
    }
    std::erase(from, me_);
    return from;
  }

  bool in_chain() const { return choice_.division == Division::chain && map_.hosts() > 1; }
  // In a chain those whose blocks have come over fewer links first. What a flow waits for has come over fewer
  // links where it comes from, so there is no circle of ranks that wait.
  template <class Links>
  std::vector<Rank> others_by_links(const Links& links_of) const {
    std::vector<Rank> others = others_after();
    if (in_chain())
      std::stable_sort(others.begin(), others.end(),
                       [&](Rank a, Rank b) { return links_of(a) < links_of(b); });
    return others;
  }
  void all_to_all(const Piece& whole) {
    auto piece_of = [&](Rank j) -> const Piece& {
      return (turn_of(me_) + turn_of(j) + choice_.shift) % 2 == 0 ? whole : other_way_;
    };
    in_flows(others_after(), [&](Rank j) { send({Source::input, j}, piece_of(j), kMove, {j}); });
    build_.begin_flow();
    build_.keep(whole, {Source::input, me_}, {Source::output, me_});
    std::vector<Rank> before = others_after();
    std::reverse(before.begin(), before.end());
    in_flows(before, [&](Rank j) { copy(piece_of(j), kMove, j, {Source::output, j}); });
  }

  std::ptrdiff_t turn_of(Rank rank) const {
    const std::vector<Rank>& all = map_.members(map_.host_of(rank));
    return map_.host_of(rank) + (std::find(all.begin(), all.end(), rank) - all.begin());
  }

  // -- between two

  // The receiver's token comes first: a block that is written has a reader who takes it at once, whatever
  // else both ends have under way.
  void send_to_one(const Piece& whole) {
    build_.begin_flow();
    build_.await_tokens({&root_, 1}, lane_);
    send(Source::input, whole, kMove, {root_});
  }

  void receive_from_one(const Piece& whole) {
    build_.begin_flow();
    build_.send_token({&root_, 1}, lane_);
    copy(whole, kMove, root_, Source::output);
  }

  // -- all kinds

  // In a reduce by pieces on one host everybody owns one, which all others send to, and the root has a result
  // of it from its owner. Unless there are none: a call has at least half a segment.
  bool all_hear_from_all() const {
    return choice_.task.kind == Kind::reduce && choice_.division != Division::whole && map_.hosts() == 1 &&
           choice_.share.size() == 1 &&
           choice_.segment >= std::max(kLeastCut, 2 * kCacheLine * static_cast<Bytes>(map_.ranks()));
  }

  bool crosses_directly() const { return choice_.crossing == Crossing::directly && !in_chain(); }

  Rank root_, lane_ = 0;
  Piece other_way_{};  // of the lane, where pairs of ranks differ in which lane comes first
  HostTree tree_;
};

}  // namespace

Plan make_plan(const Grid& grid, const HostMap& map, Rank rank, const TaskChoice& choice) {
  const bool is_packed = choice.division == Division::packed;
  Plan plan = is_packed ? packed_plan(grid, map, rank, choice) : TaskPlanner(grid, map, rank, choice).plan();
  plan.name = describe(map, choice);
  plan.segment = choice.segment;
  plan.window = choice.window;
  plan.most_staged = choice.handover == Handover::single_copy ? choice.most_staged : kAllStaged;
  plan.lanes = static_cast<LaneId>(choice.share.size());
  return plan;
}

}  // namespace ddl
