// The picture as SVG: a card per host (places with cores, GPUs and their links; NICs below), then a circle
// per ring.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/topology/draw_layout.hpp"
#include "core/topology/svg_canvas.hpp"

namespace ddl {
namespace {

constexpr double kMargin = 24, kGap = 20, kCard = 480, kInner = 12;
constexpr double kCore = 12, kCoreStep = 15;
constexpr double kGpuWidth = 84, kGpuHeight = 44, kGpuGap = 32;
constexpr double kLinkSpace = 34;  // between cores and GPUs, for the links that go up
constexpr double kNicWidth = 144, kNicHeight = 56, kNicGap = 12;
constexpr double kRingHeight = 260, kPillHeight = 26;
constexpr std::size_t kMaxDrawnLinks = 6;  // between GPUs; more become a sentence
constexpr std::size_t kMaxRingHosts = 12;  // more become a sentence

const char* const kInk = "#1f2933";
const char* const kFaint = "#6b7785";
const char* const kNvlink = "#4f8f2f";
const char* const kBlue = "#2f6fb3";

double rows(std::size_t things, std::size_t per_row) {
  return std::ceil(static_cast<double>(things) / static_cast<double>(per_row));
}

constexpr std::size_t kCoresPerRow = static_cast<std::size_t>((kCard - 4 * kInner) / kCoreStep);
constexpr std::size_t kGpusPerRow =
    static_cast<std::size_t>((kCard - 4 * kInner + kGpuGap) / (kGpuWidth + kGpuGap));
constexpr std::size_t kNicsPerRow = 3;

bool bound_here(const Core& core, const std::vector<RankPlace>& ranks, HostIndex host) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankPlace& rank) {
    return rank.host == host && std::any_of(core.pus.begin(), core.pus.end(), [&](int pu) {
             return std::find(rank.pus.begin(), rank.pus.end(), pu) != rank.pus.end();
           });
  });
}

std::string ranks_words(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return {};
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", range_words({ranks.begin(), ranks.end()}));
}

// One host; the card grows downwards while it is drawn, and its frame is drawn first, from a dry run.
class HostCard {
 public:
  HostCard(const Topology& topology, HostIndex host)
      : topology_(topology),
        host_(host),
        view_(view_host(topology, host)),
        groups_(group_links(*view_.node)) {}

  double height() const {
    double sum = 46;
    for (const PlaceView& place : view_.places) sum += place_height(place) + kInner;
    if (!view_.gpus_elsewhere.empty()) sum += gpu_rows_height(view_.gpus_elsewhere.size()) + 24;
    sum += 18 * static_cast<double>(sentences().size());
    if (!view_.nics.empty()) sum += 22 + rows(view_.nics.size(), kNicsPerRow) * (kNicHeight + kNicGap);
    return sum + kInner;
  }

  void draw(SvgCanvas& canvas, Point at) {
    canvas_ = &canvas;
    left_ = at.x;
    y_ = at.y;
    canvas.box({at.x, at.y, kCard, height()}, {"#f7f9fb", "#9aa5b1", 1.5, 10});
    canvas.text({at.x + kInner, at.y + 20}, view_.node->host,
                {15, kInk, Anchor::start, true, kCard - 2 * kInner});
    canvas.text({at.x + kInner, at.y + 37}, summary_words(*view_.node),
                {11, kFaint, Anchor::start, false, kCard - 2 * kInner});
    y_ += 46;
    for (const PlaceView& place : view_.places) draw_place(place);
    if (!view_.gpus_elsewhere.empty()) {
      canvas.text({at.x + kInner, y_ + 14}, "GPUs, place unknown", {11, kFaint});
      y_ += 24;
      draw_gpus(view_.gpus_elsewhere);
    }
    draw_links();
    for (const std::string& sentence : sentences()) {
      canvas.text({at.x + kInner, y_ + 12}, sentence, {11, kFaint, Anchor::start, false, kCard - 2 * kInner});
      y_ += 18;
    }
    draw_nics();
  }

 private:
  static double gpu_rows_height(std::size_t gpus) {
    return rows(gpus, kGpusPerRow) * (kGpuHeight + kGpuGap) - kGpuGap + 8;
  }
  static double cores_height(const PlaceView& place) {
    return rows(place.cores.size(), kCoresPerRow) * kCoreStep;
  }
  double place_height(const PlaceView& place) const {
    double gpus = place.gpus.empty() ? 0 : kLinkSpace + gpu_rows_height(place.gpus.size());
    return 40 + cores_height(place) + gpus + kInner / 2;
  }

  void draw_place(const PlaceView& place) {
    Box frame{left_ + kInner, y_, kCard - 2 * kInner, place_height(place)};
    canvas_->box(frame, {"#ffffff", "#c3ccd5", 1, 6});
    double text_x = frame.x + kInner, text_width = frame.width - 2 * kInner;
    canvas_->text({text_x, y_ + 15}, place.title, {12, kInk, Anchor::start, true, text_width});
    canvas_->text({frame.x + frame.width - kInner, y_ + 15}, ranks_words(place.ranks),
                  {12, "#b4471f", Anchor::end, true, 160});
    std::string words = fmt::format("{}{}", place.model, place.model.empty() ? "" : " · ") +
                        (place.memory ? size_words(place.memory) : count_words(place.cores.size(), "core"));
    canvas_->text({text_x, y_ + 30}, words, {10, kFaint, Anchor::start, false, text_width});
    draw_cores(place, {text_x, y_ + 36});
    double below_cores = y_ + 36 + cores_height(place);
    for (int package : place.packages) roofs_.push_back({package, below_cores});
    double next = y_ + frame.height + kInner;
    if (!place.gpus.empty()) {
      y_ = below_cores + kLinkSpace;
      draw_gpus(place.gpus);
    }
    y_ = next;
  }

  void draw_cores(const PlaceView& place, Point at) {
    for (std::size_t i = 0; i < place.cores.size(); ++i) {
      const Core& core = place.cores[i];
      Box box{at.x + static_cast<double>(i % kCoresPerRow) * kCoreStep,
              at.y + static_cast<double>(i / kCoresPerRow) * kCoreStep, kCore, kCore};
      bool bound = bound_here(core, topology_.ranks, host_);
      canvas_->box(box, {bound ? "#f2b391" : "#dfe7ee", bound ? "#b4471f" : "#8c9bab", 0.8, 2});
      canvas_->tooltip(box, fmt::format("core {}, PUs {}", core.index, range_words(core.pus)));
    }
  }

  void draw_gpus(const std::vector<Gpu>& gpus) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      Box box{left_ + 2 * kInner + static_cast<double>(i % kGpusPerRow) * (kGpuWidth + kGpuGap),
              y_ + static_cast<double>(i / kGpusPerRow) * (kGpuHeight + kGpuGap), kGpuWidth, kGpuHeight};
      draw_gpu(gpus[i], box);
    }
    y_ += gpu_rows_height(gpus.size());
  }

  void draw_gpu(const Gpu& gpu, const Box& box) {
    std::string name = fmt::format("gpu{}", gpu.index);
    double rate = pcie_of(*view_.node, name);
    gpu_boxes_[name] = box;
    canvas_->box(box, {"#e6f2dc", kNvlink, 1.2, 5});
    auto ranks = view_.ranks_of_gpu.find(gpu.index);
    std::string title =
        ranks == view_.ranks_of_gpu.end()
            ? name
            : fmt::format("{} · r{}", name, range_words({ranks->second.begin(), ranks->second.end()}));
    canvas_->text({box.center().x, box.y + 14}, title, {11, kInk, Anchor::middle, true, kGpuWidth - 4});
    canvas_->text({box.center().x, box.y + 26}, gpu.name.empty() ? gpu.vendor : gpu.name,
                  {8, kFaint, Anchor::middle, false, kGpuWidth - 4});
    canvas_->text({box.center().x, box.y + 38}, rate > 0 ? fmt::format("PCIe {}", rate_words(rate)) : gpu.pci,
                  {8, kFaint, Anchor::middle, false, kGpuWidth - 4});
    canvas_->tooltip(box, fmt::format("{} {} at {}", name, gpu.name, gpu.pci));
  }

  // A group is drawn when its links are few enough to follow with the eye.
  bool is_drawn(const LinkGroup& group) const {
    if (group.all_gpu_pairs || group.pairs.size() > kMaxDrawnLinks + 2 * view_.node->gpus.size())
      return false;
    std::size_t between_gpus = 0;
    for (const auto& [a, b] : group.pairs) {
      bool switched = a.rfind("gpu", 0) != 0 || (b.rfind("gpu", 0) != 0 && b.rfind("package", 0) != 0);
      if (switched) return false;
      between_gpus += b.rfind("gpu", 0) == 0;
    }
    return between_gpus <= kMaxDrawnLinks;
  }

  void draw_links() {
    for (const LinkGroup& group : groups_)
      if (is_drawn(group))
        for (const auto& [a, b] : group.pairs) draw_link(a, b, group);
  }

  void draw_link(const std::string& a, const std::string& b, const LinkGroup& group) {
    Paint paint{"none", kNvlink, 4, 0};
    auto from = gpu_boxes_.find(a), to = gpu_boxes_.find(b);
    std::string label = fmt::format("{:.3g}", group.gbytes);
    if (from == gpu_boxes_.end()) return;
    if (to == gpu_boxes_.end()) return draw_link_to_package(from->second, b, label, paint);
    Box left = from->second, right = to->second;
    if (right.x < left.x) std::swap(left, right);
    bool neighbours = left.y == right.y && right.x - left.x < kGpuWidth + kGpuGap + 1;
    if (neighbours) {
      canvas_->line({left.x + left.width, left.center().y}, {right.x, right.center().y}, paint);
      canvas_->text({(left.x + left.width + right.x) / 2, left.center().y - 5}, label,
                    {9, kNvlink, Anchor::middle, true});
      return;
    }
    Point start{left.center().x, left.y + left.height},
        end{right.center().x, left.y == right.y ? right.y + right.height : right.y};
    paint.stroke_width = 2.5;
    canvas_->curve(start,
                   {(start.x + end.x) / 2 + (left.y == right.y ? 0 : 40),
                    std::max(start.y, end.y) + (left.y == right.y ? 30 : 0)},
                   end, paint, SvgCanvas::Head::none);
  }

  void draw_link_to_package(const Box& gpu, const std::string& package, const std::string& label,
                            const Paint& paint) {
    for (const auto& [index, roof] : roofs_)
      if (package == fmt::format("package{}", index) && roof < gpu.y) {
        // Up to a bar below the package's cores, which stands for the package.
        canvas_->line({gpu.center().x, gpu.y}, {gpu.center().x, roof + 4}, paint);
        canvas_->line({left_ + 2 * kInner, roof + 4}, {gpu.center().x + paint.stroke_width / 2, roof + 4},
                      paint);
        canvas_->text({gpu.center().x + 6, gpu.y - 12}, label, {9, kNvlink, Anchor::start, true});
        return;
      }
  }

  // What is said in words: the meaning of the drawn lines, links that are not drawn, ranks and NICs without a
  // place.
  std::vector<std::string> sentences() const {
    std::vector<std::string> lines;
    for (const LinkGroup& group : groups_) {
      std::string rate = fmt::format("{} {}", group.kind, rate_words(group.gbytes));
      if (group.all_gpu_pairs)
        lines.push_back(fmt::format("{}: every pair of the {} GPUs", rate, view_.node->gpus.size()));
      else if (is_drawn(group))
        lines.push_back(fmt::format("green lines: {}", rate));
      else
        lines.push_back(fmt::format("{}: {} links, {}-{} and others", rate, group.pairs.size(),
                                    group.pairs.front().first, group.pairs.front().second));
    }
    if (!view_.unbound_ranks.empty())
      lines.push_back(ranks_words(view_.unbound_ranks) + " (not bound to one place)");
    std::vector<std::string> skipped;
    for (const SkippedNic& nic : view_.skipped_nics) skipped.push_back(nic.name);
    if (!skipped.empty())
      lines.push_back(fmt::format("interfaces that are no rails: {}", fmt::join(skipped, ", ")));
    return lines;
  }

  void draw_nics() {
    if (view_.nics.empty()) return;
    canvas_->text({left_ + kInner, y_ + 14}, "network", {12, kInk, Anchor::start, true});
    y_ += 22;
    for (std::size_t i = 0; i < view_.nics.size(); ++i) {
      const NodeNic& nic = view_.nics[i];
      Box box{left_ + kInner + static_cast<double>(i % kNicsPerRow) * (kNicWidth + kNicGap),
              y_ + static_cast<double>(i / kNicsPerRow) * (kNicHeight + kNicGap), kNicWidth, kNicHeight};
      canvas_->box(box, {"#e3eefa", kBlue, 1.2, 5});
      double middle = box.center().x, fit = kNicWidth - 8;
      canvas_->text({middle, box.y + 14}, nic.nic.name, {11, kInk, Anchor::middle, true, fit});
      canvas_->text({middle, box.y + 27}, address_words(nic.nic), {10, kInk, Anchor::middle, false, fit});
      canvas_->text({middle, box.y + 39}, speed_words(nic.nic), {9, kFaint, Anchor::middle, false, fit});
      canvas_->text({middle, box.y + 51}, place_words(nic), {9, kFaint, Anchor::middle, false, fit});
    }
  }

  const Topology& topology_;
  HostIndex host_;
  HostView view_;
  std::vector<LinkGroup> groups_;
  SvgCanvas* canvas_ = nullptr;
  double left_ = 0, y_ = 0;
  std::map<std::string, Box> gpu_boxes_;
  std::vector<std::pair<int, double>> roofs_;  // package, y below its cores
};

// A ring as an ellipse of host names, in the order of travel, clockwise from the top.
void draw_ring(SvgCanvas& canvas, const RingDrawing& ring, const Box& area) {
  canvas.box(area, {"#ffffff", "#c3ccd5", 1, 10});
  canvas.text({area.x + kInner, area.y + 20}, "ring over " + ring.rail,
              {13, kInk, Anchor::start, true, area.width - 2 * kInner});
  std::size_t count = ring.hosts.size();
  if (count > kMaxRingHosts) {
    canvas.text({area.x + kInner, area.y + 44},
                fmt::format("{} hosts: {} → {} → … → {} → {}", count, ring.hosts[0], ring.hosts[1],
                            ring.hosts.back(), ring.hosts[0]),
                {12, kInk, Anchor::start, false, area.width - 2 * kInner});
    return;
  }
  Point center{area.center().x, area.center().y + 12};
  double radius_x = area.width / 2 - 70, radius_y = area.height / 2 - 44;
  auto on_ellipse = [&](double turn) {
    double angle = (turn / static_cast<double>(count) - 0.25) * 2 * std::numbers::pi;
    return Point{center.x + radius_x * std::cos(angle), center.y + radius_y * std::sin(angle)};
  };
  for (std::size_t i = 0; i < count && count > 1; ++i) {
    double turn = static_cast<double>(i), trim = std::min(0.3, 0.055 * static_cast<double>(count));
    Point from = on_ellipse(turn + trim), to = on_ellipse(turn + 1 - trim), middle = on_ellipse(turn + 0.5);
    Point control{2 * middle.x - (from.x + to.x) / 2, 2 * middle.y - (from.y + to.y) / 2};
    canvas.curve(from, control, to, {"none", kBlue, 2, 0}, SvgCanvas::Head::arrow);
  }
  for (std::size_t i = 0; i < count; ++i) {
    Point at = on_ellipse(static_cast<double>(i));
    double width = std::clamp(10.0 + 7.0 * static_cast<double>(ring.hosts[i].size()), 34.0, 110.0);
    canvas.box({at.x - width / 2, at.y - kPillHeight / 2, width, kPillHeight},
               {"#e3eefa", kBlue, 1.2, kPillHeight / 2});
    canvas.text({at.x, at.y + 4}, ring.hosts[i], {11, kInk, Anchor::middle, true, width - 6});
  }
}

std::size_t columns_for(std::size_t cards) {
  return std::clamp<std::size_t>(cards, 1, cards > 12 ? 6 : cards == 4 ? 2 : 3);
}

// Cards in rows; returns the y below the last row.
double draw_hosts(SvgCanvas& canvas, const Topology& topology, std::size_t columns, double y) {
  double tallest = 0;
  for (std::size_t i = 0; i < topology.hosts.size(); ++i) {
    HostCard card(topology, static_cast<HostIndex>(i));
    std::size_t column = i % columns;
    if (column == 0 && i > 0) {
      y += tallest + kGap;
      tallest = 0;
    }
    card.draw(canvas, {kMargin + static_cast<double>(column) * (kCard + kGap), y});
    tallest = std::max(tallest, card.height());
  }
  return y + tallest + kGap;
}

}  // namespace

std::string draw_svg(const Topology& topology, const std::vector<RingDrawing>& rings) {
  SvgCanvas canvas;
  std::size_t columns = columns_for(topology.hosts.size());
  double y = 30 + kMargin;
  std::string title = count_words(topology.hosts.size(), "host");
  if (!topology.ranks.empty()) title += ", " + count_words(topology.ranks.size(), "rank");
  canvas.text({kMargin, 34}, title, {18, kInk, Anchor::start, true});
  y = draw_hosts(canvas, topology, columns, y);
  for (std::size_t i = 0; i < rings.size(); ++i) {
    std::size_t column = i % columns;
    if (column == 0 && i > 0) y += kRingHeight + kGap;
    draw_ring(canvas, rings[i],
              {kMargin + static_cast<double>(column) * (kCard + kGap), y, kCard, kRingHeight});
  }
  if (!rings.empty()) y += kRingHeight + kGap;
  double width = 2 * kMargin + static_cast<double>(columns) * (kCard + kGap) - kGap;
  return canvas.finish(width, y - kGap + kMargin, "ddlrun topology: " + title);
}

}  // namespace ddl
