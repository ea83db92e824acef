#include "tests/support/fake_cuda/captures.hpp"

#include <unistd.h>

#include <utility>

namespace fake_cuda {

using ddl::cuda::Stream;

std::vector<std::size_t> CapturedGraph::order() const {
  std::vector<std::size_t> missing, order;
  std::vector<std::vector<std::size_t>> before(nodes.size());
  std::set<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing.push_back(nodes[i].after.size());
    for (std::size_t one : nodes[i].after) before[one].push_back(i);
    if (missing[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    auto next = ::getpid() % 2 ? ready.begin() : std::prev(ready.end());
    const std::size_t node = *next;
    ready.erase(next);
    order.push_back(node);
    for (std::size_t one : before[node])
      if (--missing[one] == 0) ready.insert(one);
  }
  return order;
}

namespace {

unsigned long long next_number() {
  static unsigned long long captures = 0;
  return ++captures;
}

}  // namespace

Capture::Capture(Stream first_stream, int capture_mode)
    : first(first_stream), mode(capture_mode), thread(std::this_thread::get_id()), number(next_number()) {}

void Capture::add(Stream stream, std::function<void()> run) {
  graph.nodes.push_back({ends(stream), std::move(run)});
  ends_[stream] = {graph.nodes.size() - 1};
}

Capture::Ends Capture::ends(Stream stream) const {
  auto found = ends_.find(stream);
  return found == ends_.end() ? Ends() : found->second;
}

void Capture::join(Stream stream, const Ends& ends) { ends_[stream].insert(ends.begin(), ends.end()); }

bool Capture::has_waited_for_all() const {
  Ends reached = ends(first);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {  // nodes depend on earlier ones only
    if (!reached.count(i)) return false;
    reached.insert(graph.nodes[i].after.begin(), graph.nodes[i].after.end());
  }
  return true;
}

}  // namespace fake_cuda
