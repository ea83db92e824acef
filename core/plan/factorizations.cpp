#include "core/plan/factorizations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/base/error.hpp"

namespace ddl {
namespace {

void factorize(Rank left, std::size_t most, std::vector<Rank>& prefix, std::vector<std::vector<Rank>>& all) {
  if (left == 1) {
    all.push_back(prefix);
    return;
  }
  if (most == 0) return;
  for (Rank factor = 2; factor <= left; ++factor) {
    if (left % factor != 0) continue;
    prefix.push_back(factor);
    factorize(left / factor, most - 1, prefix, all);
    prefix.pop_back();
  }
}

// How well a first factor suits the hosts: it is the number of ranks of every host, it divides it, it does
// not.
int misfit(Rank factor, const std::map<HostIndex, Rank>& ranks_of_host) {
  auto all = [&](auto fits) {
    return std::all_of(ranks_of_host.begin(), ranks_of_host.end(),
                       [&](const auto& host) { return fits(host.second); });
  };
  if (all([&](Rank ranks) { return ranks == factor; })) return 0;
  return all([&](Rank ranks) { return ranks % factor == 0; }) ? 1 : 2;
}

std::string suggestions(std::span<const HostIndex> host_of_rank, std::size_t asked) {
  constexpr std::size_t kShown = 4;
  std::map<HostIndex, Rank> ranks_of_host;
  for (HostIndex host : host_of_rank) ++ranks_of_host[host];
  auto all = factorizations(static_cast<Rank>(host_of_rank.size()), std::max<std::size_t>(asked, 2));
  auto key = [&](const std::vector<Rank>& dims) {
    return std::pair(misfit(dims.empty() ? 1 : dims[0], ranks_of_host), dims.size() != asked);
  };
  std::stable_sort(all.begin(), all.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
  if (all.size() > kShown) all.resize(kShown);
  std::string text;
  for (const auto& dims : all)
    text += (text.empty() ? "" : ", ") + (dims.empty() ? "1" : fmt::format("{}", fmt::join(dims, "x")));
  return text;
}

}  // namespace

std::vector<std::vector<Rank>> factorizations(Rank ranks, std::size_t most) {
  std::vector<std::vector<Rank>> all;
  std::vector<Rank> prefix;
  factorize(ranks, most, prefix, all);
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.size() < b.size(); });
  return all;
}

void check_dims(std::span<const HostIndex> host_of_rank, std::span<const Rank> dims) {
  std::uint64_t product = 1;
  for (Rank extent : dims)
    if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(std::max<Rank>(0, extent)), &product))
      product = std::numeric_limits<std::uint64_t>::max();
  if (product == host_of_rank.size() && !dims.empty()) return;
  std::string named;
  for (std::size_t d = 0; d < dims.size(); ++d) named += fmt::format(" dim[{}]={}", d, dims[d]);
  throw UsageError(fmt::format("invalid dim size={} usr_size={}{}", product, host_of_rank.size(), named),
                   "the product of the dimensions must be the number of ranks",
                   fmt::format("write one that fits: {}", suggestions(host_of_rank, dims.size())));
}

}  // namespace ddl
