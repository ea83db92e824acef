// What NCCL does, written as plans, so that the same checker and the same replay run them: a flat ring
// through all GPUs and a double binary tree over the hosts. Each is a model of the pattern, not of NCCL's
// code.
#pragma once

#include <vector>

#include "cluster.hpp"
#include "core/plan/plan.hpp"

namespace ddl::simulation {

/// Rings through all ranks in host order, one per rail, every other one in the opposite direction.
std::vector<Plan> flat_ring_plans(const Cluster& cluster, Bytes bytes);

/// Two binary trees over the hosts, half of the data each, so that (nearly) every host is inner in one and a
/// leaf in the other; inside a host a chain. Cut into segments that follow each other up and down (Sanders,
/// Speck and Träff 2009).
std::vector<Plan> double_tree_plans(const Cluster& cluster, Bytes bytes);

/// Node of a balanced binary tree over 0 ... nodes - 1 in which a node lies between its subtrees.
struct TreeNode {
  int parent = -1;  // -1: the root
  std::vector<int> children;
};
std::vector<TreeNode> balanced_tree(int nodes);

}  // namespace ddl::simulation
