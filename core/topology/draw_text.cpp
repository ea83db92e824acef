#include <fmt/format.h>

#include <algorithm>

#include "core/topology/draw_layout.hpp"

namespace ddl {
namespace {

constexpr std::size_t kColumns = 100;

// Columns that UTF-8 text takes: its code points (none of ours is wide).
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string shortened(const std::string& text, std::size_t columns) {
  if (width(text) <= columns) return text;
  std::string kept;
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool starts = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts && ++used >= columns) break;
    kept += text[i];
  }
  return kept + "…";
}

std::string padded(const std::string& text, std::size_t columns) {
  std::size_t used = width(text);
  return used < columns ? text + std::string(columns - used, ' ') : text;
}

std::string words_of(const std::vector<Rank>& ranks) {
  return range_words(std::vector<int>(ranks.begin(), ranks.end()));
}

// One host as a tree: lines with a level, the branches are drawn when all are known.
class Tree {
 public:
  void branch(const std::string& text) { lines_.push_back({text, Level::branch}); }
  void leaf(const std::string& text) { lines_.push_back({text, Level::leaf}); }
  // Strings after a label, broken to further lines below the first word.
  void leaves(const std::string& label, const std::vector<std::string>& words) {
    std::string line = label;
    for (const std::string& word : words) {
      if (width(line) + 2 + width(word) > kColumns - kIndent && line != label) {
        leaf(line);
        line = std::string(width(label), ' ');
      }
      line += (line.size() ? "  " : "") + word;
    }
    leaf(line);
  }

  std::string draw() const {
    std::string text;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      bool more = std::any_of(lines_.begin() + static_cast<std::ptrdiff_t>(i) + 1, lines_.end(),
                              [](const Line& line) { return line.level == Level::branch; });
      const char* front =
          lines_[i].level == Level::branch ? (more ? "├─ " : "└─ ") : (more ? "│    " : "     ");
      text += front + shortened(lines_[i].text, kColumns - width(front)) + "\n";
    }
    return text;
  }

 private:
  static constexpr std::size_t kIndent = 5;
  enum class Level { branch, leaf };
  struct Line {
    std::string text;
    Level level;
  };
  std::vector<Line> lines_;
};

void draw_gpu(const HostView& view, const Gpu& gpu, Tree& tree) {
  std::string name = fmt::format("gpu{}", gpu.index);
  double rate = pcie_of(*view.node, name);
  std::string line = fmt::format("{} {} {}  {}", padded(name, 6),
                                 padded(shortened(gpu.name.empty() ? gpu.vendor : gpu.name, 34), 26), gpu.pci,
                                 padded(rate > 0 ? "PCIe " + rate_words(rate) : "", 16));
  auto ranks = view.ranks_of_gpu.find(gpu.index);
  if (ranks != view.ranks_of_gpu.end())
    line += fmt::format("rank{} {}", ranks->second.size() > 1 ? "s" : "", words_of(ranks->second));
  while (!line.empty() && line.back() == ' ') line.pop_back();
  tree.leaf(line);
}

void draw_place(const HostView& view, const PlaceView& place, Tree& tree) {
  std::string head = place.title;
  if (!place.model.empty()) head += " · " + shortened(place.model, 44);
  tree.branch(head);
  if (place.cores.empty() && place.pus.empty()) {
    tree.leaf(padded("memory", 7) + size_words(place.memory) +
              ", no cores (of a device, or slower than the others')");
  } else {
    std::string cpus =
        fmt::format("{}, PUs {}", count_words(place.cores.size(), "core"), range_words(place.pus));
    if (place.memory) cpus += ", " + size_words(place.memory);
    tree.leaf(padded("cpus", 7) + cpus);
  }
  for (const Gpu& gpu : place.gpus) draw_gpu(view, gpu, tree);
  if (!place.ranks.empty()) tree.leaf(padded("ranks", 7) + words_of(place.ranks));
}

constexpr std::size_t kMostPairs = 8;

// gpu0═gpu1, gpu0═gpu2, gpu0═package0 -> "gpu0═gpu1,2 package0": a word for each left end. Links that are
// there several times are counted: "gpu0═nvswitch0 x6".
std::vector<std::string> folded(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, int>>>> ends;
  for (const auto& [a, b] : pairs) {
    auto end =
        std::find_if(ends.begin(), ends.end(), [&, name = a](const auto& one) { return one.first == name; });
    if (end == ends.end()) end = ends.insert(ends.end(), {a, {}});
    auto other = std::find_if(end->second.begin(), end->second.end(),
                              [&, name = b](const auto& one) { return one.first == name; });
    if (other == end->second.end())
      end->second.emplace_back(b, 1);
    else
      ++other->second;
  }
  auto stem = [](const std::string& name) { return name.substr(0, name.find_last_not_of("0123456789") + 1); };
  std::vector<std::string> words;
  for (const auto& [a, others] : ends) {
    std::string word = a + "═", last_stem;
    int last_times = 0;
    for (const auto& [b, times] : others) {
      const bool goes_on = stem(b) == last_stem && times == 1 && last_times == 1;
      word += goes_on ? fmt::format(",{}", b.substr(last_stem.size()))
                      : fmt::format("{}{}", last_stem.empty() ? "" : " ", b);
      if (times > 1) word += fmt::format(" x{}", times);
      last_stem = stem(b);
      last_times = times;
    }
    words.push_back(word);
  }
  return words;
}

void draw_links(const NodeTopology& node, Tree& tree) {
  std::vector<LinkGroup> groups = group_links(node);
  if (groups.empty()) return;
  tree.branch("links");
  for (const LinkGroup& group : groups) {
    std::string label = fmt::format("{} {}", group.kind, rate_words(group.gbytes));
    std::vector<std::string> pairs;
    for (const auto& [a, b] : group.pairs) pairs.push_back(a + "═" + b);
    if (pairs.size() > kMostPairs) pairs = folded(group.pairs);
    if (group.all_gpu_pairs) pairs = {fmt::format("every pair of the {} GPUs", node.gpus.size())};
    tree.leaves(padded(label, 18), pairs);
  }
}

void draw_nics(const HostView& view, Tree& tree) {
  if (view.nics.empty() && view.skipped_nics.empty()) return;
  tree.branch("network");
  for (const NodeNic& nic : view.nics) {
    std::string line =
        fmt::format("{} {} {} {} {}", padded(nic.nic.name, 12), padded(address_words(nic.nic), 18),
                    padded(speed_words(nic.nic), 13), padded(nic.nic.kind, 11), place_words(nic));
    while (line.back() == ' ') line.pop_back();
    tree.leaf(line);
  }
  std::vector<std::string> skipped;
  for (const SkippedNic& nic : view.skipped_nics)
    skipped.push_back(fmt::format("{} ({})", nic.name, nic.reason));
  if (!skipped.empty()) tree.leaves("no rails:", skipped);
}

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words(1);
  for (char c : text)
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

void draw_notes(const NodeTopology& node, Tree& tree) {
  std::vector<std::string> notes = node.notes;
  for (const NodeNic& nic : node.nics)
    if (nic.nic.up)
      for (const std::string& note : nic.nic.notes)
        notes.push_back(fmt::format("{}: {}", nic.nic.name, note));
  if (notes.empty()) return;
  tree.branch("notes");
  for (const std::string& note : notes) {
    std::string line;
    for (const std::string& word : split_words(note)) {
      if (width(line) + 1 + width(word) > kColumns - 7) {
        tree.leaf(line);
        line.assign(1, ' ');
      }
      line += (line.empty() || line == " " ? "" : " ") + word;
    }
    tree.leaf(line);
  }
}

void draw_unbound(const HostView& view, Tree& tree) {
  if (view.unbound_ranks.empty()) return;
  tree.branch(fmt::format("rank{} {} (not bound to one place)", view.unbound_ranks.size() > 1 ? "s" : "",
                          words_of(view.unbound_ranks)));
}

std::string draw_host(const HostView& view) {
  Tree tree;
  for (const PlaceView& place : view.places) draw_place(view, place, tree);
  if (!view.gpus_elsewhere.empty()) tree.branch("GPUs, place unknown");
  for (const Gpu& gpu : view.gpus_elsewhere) draw_gpu(view, gpu, tree);
  draw_unbound(view, tree);
  draw_links(*view.node, tree);
  draw_nics(view, tree);
  draw_notes(*view.node, tree);
  return shortened(fmt::format("host {} · {}", view.node->host, summary_words(*view.node)), kColumns) + "\n" +
         tree.draw();
}

// A host like an earlier one: what differs only.
std::string draw_alike(const HostView& view, const std::string& model) {
  Tree tree;
  for (const PlaceView& place : view.places)
    if (!place.ranks.empty()) tree.branch(fmt::format("{}: ranks {}", place.title, words_of(place.ranks)));
  for (const auto& [gpu, ranks] : view.ranks_of_gpu)
    tree.branch(fmt::format("gpu{}: ranks {}", gpu, words_of(ranks)));
  draw_unbound(view, tree);
  std::vector<std::string> nics;
  for (const NodeNic& nic : view.nics)
    nics.push_back(fmt::format("{} {}", nic.nic.name, address_words(nic.nic)));
  if (!nics.empty()) tree.branch(fmt::format("network  {}", fmt::join(nics, "  ")));
  std::string memory = view.node->memory ? " · " + size_words(view.node->memory) : "";
  return shortened(fmt::format("host {} · like {}{}", view.node->host, model, memory), kColumns) + "\n" +
         tree.draw();
}

std::string draw_ring(const RingDrawing& ring) {
  std::vector<std::string> words;
  for (const std::string& host : ring.hosts) words.push_back(host + " →");
  words.push_back("back to " + (ring.hosts.empty() ? std::string("itself") : ring.hosts.front()));
  std::string text, line = "  " + padded(ring.rail, 22);
  const std::size_t indent = width(line);
  for (const std::string& word : words) {
    if (width(line) + 1 + width(word) > kColumns && width(line) > indent) {
      text += line + "\n";
      line = std::string(indent, ' ');
    }
    line += " " + word;
  }
  return text + line + "\n";
}

}  // namespace

std::string draw_text(const Topology& topology, const std::vector<RingDrawing>& rings) {
  std::string text;
  for (std::size_t i = 0; i < topology.hosts.size(); ++i) {
    HostView view = view_host(topology, static_cast<HostIndex>(i));
    auto model = std::find_if(topology.hosts.begin(), topology.hosts.begin() + static_cast<std::ptrdiff_t>(i),
                              [&](const NodeTopology& other) { return are_alike(other, *view.node); });
    bool is_first = model == topology.hosts.begin() + static_cast<std::ptrdiff_t>(i);
    text += is_first ? draw_host(view) : draw_alike(view, model->host);
  }
  if (!rings.empty()) text += "rings between hosts\n";
  for (const RingDrawing& ring : rings) text += draw_ring(ring);
  return text;
}

}  // namespace ddl
