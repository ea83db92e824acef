#include "core/tune/tuning_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ddl {
namespace {

using nlohmann::json;
constexpr int kVersion = 1;

json to_json(const TuningEntry& entry) {
  json out = {{"grid", entry.grid},
              {"bytes_up_to", entry.size_class},
              {"us", entry.microseconds},
              {"rails", entry.rail_rates}};
  if (entry.original) {
    out["original"] = true;
    return out;
  }
  out["algorithm"] = json::array();
  for (Algorithm algorithm : entry.choice.algorithm) out["algorithm"].push_back(algorithm_name(algorithm));
  out["share"] = entry.choice.share;
  out["rail"] = entry.choice.rail;
  out["order"] = entry.choice.order;
  out["segment"] = entry.choice.segment;
  out["window"] = entry.choice.window;
  return out;
}

Algorithm algorithm_of(const std::string& name) {
  for (int a = 0; a < kAlgorithms; ++a)
    if (name == algorithm_name(static_cast<Algorithm>(a))) return static_cast<Algorithm>(a);
  throw json::other_error::create(501, "no algorithm " + name, nullptr);
}

// Throws json::exception.
TuningEntry entry_from(const json& in) {
  TuningEntry entry;
  in.at("grid").get_to(entry.grid);
  in.at("bytes_up_to").get_to(entry.size_class);
  in.at("us").get_to(entry.microseconds);
  in.at("rails").get_to(entry.rail_rates);
  entry.original = in.value("original", false);
  if (entry.original) return entry;
  for (const json& name : in.at("algorithm"))
    entry.choice.algorithm.push_back(algorithm_of(name.get<std::string>()));
  in.at("share").get_to(entry.choice.share);
  in.at("rail").get_to(entry.choice.rail);
  in.at("order").get_to(entry.choice.order);
  in.at("segment").get_to(entry.choice.segment);
  in.at("window").get_to(entry.choice.window);
  return entry;
}

// What was learned replaces what an earlier job learned about the same, or about rails that have changed.
bool replaces(const TuningEntry& learned, const TuningEntry& old) {
  return learned.grid == old.grid &&
         (learned.size_class == old.size_class || learned.rail_rates != old.rail_rates);
}

json parse(const std::string& text) {
  json file = json::parse(text, nullptr, false);
  bool right = file.is_object() && file.value("ddl_tuning", json()) == kVersion &&
               file.contains("machines") && file["machines"].is_object();
  return right ? file : json();
}

}  // namespace

std::string machine_name(const Cpus& cpus, std::span<const HostIndex> host_of_rank, const std::string& wire,
                         std::span<const std::string> rails) {
  std::map<HostIndex, int> ranks_of;
  for (HostIndex host : host_of_rank) ++ranks_of[host];
  std::string name = fmt::format("{} cores{}{};", cpus.cores, cpus.model.empty() ? "" : " of ", cpus.model);
  for (const auto& [host, ranks] : ranks_of) name += fmt::format(" {}", ranks);
  if (ranks_of.size() > 1) name += fmt::format("; {}", wire);
  for (const std::string& rail : rails) name += fmt::format("; {}", rail);
  return name;
}

bool is_tuning(const std::string& text) { return !parse(text).is_null(); }

std::string TuningCache::read(const std::string& text) {
  json file = parse(text);
  if (file.is_null()) return "it is no tuning cache of this version";
  std::vector<TuningEntry> entries;
  try {
    for (const json& entry : file["machines"].value(machine_, json::array()))
      entries.push_back(entry_from(entry));
  } catch (const json::exception& error) {
    return error.what();
  }
  std::lock_guard lock(mutex_);
  read_ = std::move(entries);
  return {};
}

std::optional<TuningEntry> TuningCache::find(const std::string& grid, Bytes size_class) const {
  std::lock_guard lock(mutex_);
  for (const TuningEntry& entry : read_)
    if (entry.grid == grid && entry.size_class == size_class) return entry;
  return std::nullopt;
}

std::vector<double> TuningCache::rail_rates(const std::string& grid) const {
  std::lock_guard lock(mutex_);
  for (const TuningEntry& entry : read_)
    if (entry.grid == grid && !entry.rail_rates.empty()) return entry.rail_rates;
  return {};
}

void TuningCache::learn(TuningEntry entry) {
  std::lock_guard lock(mutex_);
  std::erase_if(learned_, [&](const TuningEntry& old) { return replaces(entry, old); });
  learned_.push_back(std::move(entry));
}

bool TuningCache::has_news() const {
  std::lock_guard lock(mutex_);
  return !learned_.empty();
}

std::string TuningCache::write(const std::string& text) const {
  json file = parse(text);
  if (file.is_null()) file = {{"ddl_tuning", kVersion}, {"machines", json::object()}};
  std::lock_guard lock(mutex_);
  json& entries = file["machines"][machine_] = json::array();
  for (const TuningEntry& old : read_)
    if (std::none_of(learned_.begin(), learned_.end(),
                     [&](const TuningEntry& entry) { return replaces(entry, old); }))
      entries.push_back(to_json(old));
  for (const TuningEntry& entry : learned_) entries.push_back(to_json(entry));
  return file.dump(1) + "\n";
}

}  // namespace ddl
