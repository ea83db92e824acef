// Link load: how many bytes a set of plans sends over each directed link of a network. Rings laid over a tree
// of switches should use every link, and both directions alike: here is the order that does it, and the
// arithmetic that shows it.
//
// A network is a value: vertices (ranks' devices, NICs, CPUs, switches) and links, each with one bandwidth
// per direction. Messages take the route of fewest links, of the fastest among those, through vertices that
// pass traffic on. Pure; for tests and explanations, not for the path of a collective.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace ddl {

using VertexId = std::size_t;
using LinkId = std::size_t;  // of a directed link; the way back is link ^ 1

enum class Role {
  end,      // a GPU, a process: messages start and end there
  through,  // a switch, a CPU, a NIC: messages pass
};

class Network {
 public:
  VertexId add(std::string name, Role role);
  /// Two directed links with that many bytes per second each; returns the one from a to b.
  LinkId connect(VertexId a, VertexId b, double bandwidth);

  std::size_t vertices() const { return vertices_.size(); }
  std::size_t links() const { return links_.size(); }
  VertexId from(LinkId link) const { return links_[link].from; }
  double bandwidth(LinkId link) const { return links_[link].bandwidth; }
  /// "gpu0 -> cpu0"
  std::string name(LinkId link) const;
  /// The link between neighbours; Error when there is none.
  LinkId link(VertexId from, VertexId to) const;
  /// Links from `from` to `to`. Error when there is no way.
  std::vector<LinkId> route(VertexId from, VertexId to) const;
  /// The ends in the order in which a walk around the tree of links from `root` meets them: a ring in this
  /// order passes each link of a tree once in each direction. In a network with cycles the tree is that of
  /// the routes from the root.
  std::vector<VertexId> ring_order(VertexId root, std::span<const VertexId> ends) const;

 private:
  struct Vertex {
    std::string name;
    Role role;
    std::vector<LinkId> out;
  };
  struct Link {
    VertexId from, to;
    double bandwidth;
  };
  /// Per vertex the last link of the route from `from`; none: kNoLink.
  std::vector<LinkId> routes_from(VertexId from) const;

  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

/// Where ranks are, and through which vertex a rank enters the wire on a rail.
struct RankPlaces {
  std::vector<VertexId> vertex;                    // per rank
  std::function<VertexId(Rank, RailId rail)> nic;  // empty: from vertex to vertex
};

/// Bytes over each directed link when rank r carries out plans[r] for a segment of `count` elements. A slice
/// that is sent to several ranks is counted for each.
std::vector<Bytes> link_load(const Network& network, const RankPlaces& places, const std::vector<Plan>& plans,
                             Elements count, Bytes element_size);

/// How long the busiest link is busy with that.
double busiest(const Network& network, const std::vector<Bytes>& load);

}  // namespace ddl
