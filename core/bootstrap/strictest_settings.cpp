#include "core/bootstrap/strictest_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace ddl {
namespace {

using Given = std::span<const GradientSettings>;

BytesByRanks largest(Given given) {
  std::set<Rank> named;
  BytesByRanks all;
  for (const GradientSettings& one : given) {
    all.others = std::max(all.others, one.wire_type_from.others);
    for (const BytesByRanks::Exception& exception : one.wire_type_from.exceptions)
      named.insert(exception.ranks);
  }
  for (Rank ranks : named) {
    Bytes most = 0;
    for (const GradientSettings& one : given) most = std::max(most, one.wire_type_from.of(ranks));
    all.exceptions.push_back({ranks, most});
  }
  return all;
}

bool is_everywhere(const GradientSettings& one) { return one.wire_where == WireWhere::everywhere; }

void find_wire_where(Given given, AgreedSettings& agreed) {
  const auto count = static_cast<std::size_t>(std::count_if(given.begin(), given.end(), is_everywhere));
  if (count == given.size()) agreed.gradients.wire_where = WireWhere::everywhere;
  if (count == 0 || count == given.size() || agreed.gradients.wire_type == WireType::exact) return;
  std::vector<Rank> others;
  for (std::size_t r = 0; r < given.size(); ++r)
    if (given[r].wire_where != given[0].wire_where) others.push_back(static_cast<Rank>(r));
  agreed.notes.push_back(
      fmt::format("DDL_WIRE_TYPE_WHERE is {} on rank 0 and not on {}: all-reduces stay exact within a host",
                  name_of(given[0].wire_where), ranks_text(others)));
}

void find_wire_type(Given given, AgreedSettings& agreed) {
  std::vector<Rank> others;
  for (std::size_t r = 0; r < given.size(); ++r)
    if (given[r].wire_type != given[0].wire_type) others.push_back(static_cast<Rank>(r));
  agreed.gradients.wire_type_from = largest(given);
  if (others.empty()) {
    agreed.gradients.wire_type = given[0].wire_type;
    return find_wire_where(given, agreed);
  }
  agreed.notes.push_back(
      fmt::format("DDL_WIRE_TYPE is {} on rank 0 and not on {} ({} on rank {}): all-reduces travel exact",
                  name_of(given[0].wire_type), ranks_text(others),
                  name_of(given[static_cast<std::size_t>(others[0])].wire_type), others[0]));
}

// What is fused depends on when calls come: it has no place where every run gives the same bits.
void find_lazy(Given given, bool deterministic, AgreedSettings& agreed) {
  auto less = [](const GradientSettings& one, const GradientSettings& other) {
    return one.lazy < other.lazy;
  };
  const auto least = std::min_element(given.begin(), given.end(), less);
  const auto most = std::max_element(given.begin(), given.end(), less);
  agreed.gradients.lazy = least->lazy;
  if (least->lazy != most->lazy)
    agreed.notes.push_back(fmt::format("DDL_LAZY_BYTES is {} on rank {} and {} on rank {}: {}", least->lazy,
                                       least - given.begin(), most->lazy, most - given.begin(),
                                       least->lazy ? "the least counts" : "no all-reduces are fused"));
  if (!deterministic || agreed.gradients.lazy == 0) return;
  agreed.gradients.lazy = 0;
  agreed.notes.emplace_back(
      "DDL_LAZY_BYTES has no effect with DDL_DETERMINISTIC=1: no all-reduces are fused");
}

void find_sparse(Given given, AgreedSettings& agreed) {
  SparseSettings& all = agreed.gradients.sparse;
  all = given[0].sparse;
  std::vector<Rank> others;
  for (std::size_t r = 1; r < given.size(); ++r) {
    const SparseSettings& one = given[r].sparse;
    if (one != given[0].sparse) others.push_back(static_cast<Rank>(r));
    all = {std::max(all.share, one.share), std::max(all.from, one.from), std::max(all.warm_up, one.warm_up),
           std::min(all.most_kept, one.most_kept)};
  }
  if (others.empty()) return;
  const std::string so =
      all.is_on() ? fmt::format("{:g} of all-reduces from {} bytes on is sent, after {} times whole",
                                all.share, all.from, all.warm_up)
                  : "all-reduces are whole";
  agreed.notes.push_back(fmt::format(
      "DDL_SPARSE or a variable beside it is not the same on rank 0 and on {}: {}", ranks_text(others), so));
}

}  // namespace

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > 8) text += fmt::format(" and {} more", ranks.size() - 8);
  return text;
}

AgreedSettings strictest(std::span<const GradientSettings> given, bool deterministic, int hosts) {
  AgreedSettings agreed;
  find_lazy(given, deterministic, agreed);
  if (hosts > 1 || std::any_of(given.begin(), given.end(), is_everywhere)) find_wire_type(given, agreed);
  if (hosts > 1) find_sparse(given, agreed);
  return agreed;
}

}  // namespace ddl
