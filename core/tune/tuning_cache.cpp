#include "core/tune/tuning_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ddl {
namespace {

using nlohmann::json;
constexpr int kVersion = 1;

json to_json(const TuningEntry& lesson) {
  json entry = {{"grid", lesson.grid},
                {"bytes_up_to", lesson.size_class},
                {"us", lesson.microseconds},
                {"rails", lesson.rail_rates}};
  if (lesson.original) {
    entry["original"] = true;
    return entry;
  }
  entry["algorithm"] = json::array();
  for (Algorithm algorithm : lesson.choice.algorithm) entry["algorithm"].push_back(algorithm_name(algorithm));
  entry["share"] = lesson.choice.share;
  entry["rail"] = lesson.choice.rail;
  entry["order"] = lesson.choice.order;
  entry["segment"] = lesson.choice.segment;
  entry["window"] = lesson.choice.window;
  return entry;
}

Algorithm algorithm_of(const std::string& name) {
  for (int a = 0; a < kAlgorithms; ++a)
    if (name == algorithm_name(static_cast<Algorithm>(a))) return static_cast<Algorithm>(a);
  throw json::other_error::create(501, "no algorithm " + name, nullptr);
}

// Throws json::exception.
TuningEntry lesson_from(const json& entry) {
  TuningEntry lesson;
  entry.at("grid").get_to(lesson.grid);
  entry.at("bytes_up_to").get_to(lesson.size_class);
  entry.at("us").get_to(lesson.microseconds);
  entry.at("rails").get_to(lesson.rail_rates);
  lesson.original = entry.value("original", false);
  if (lesson.original) return lesson;
  for (const json& name : entry.at("algorithm"))
    lesson.choice.algorithm.push_back(algorithm_of(name.get<std::string>()));
  entry.at("share").get_to(lesson.choice.share);
  entry.at("rail").get_to(lesson.choice.rail);
  entry.at("order").get_to(lesson.choice.order);
  entry.at("segment").get_to(lesson.choice.segment);
  entry.at("window").get_to(lesson.choice.window);
  return lesson;
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
  std::vector<TuningEntry> lessons;
  try {
    for (const json& entry : file["machines"].value(machine_, json::array()))
      lessons.push_back(lesson_from(entry));
  } catch (const json::exception& error) {
    return error.what();
  }
  std::lock_guard lock(mutex_);
  read_ = std::move(lessons);
  return {};
}

std::optional<TuningEntry> TuningCache::find(const std::string& grid, Bytes size_class) const {
  std::lock_guard lock(mutex_);
  for (const TuningEntry& lesson : read_)
    if (lesson.grid == grid && lesson.size_class == size_class) return lesson;
  return std::nullopt;
}

std::vector<double> TuningCache::rail_rates(const std::string& grid) const {
  std::lock_guard lock(mutex_);
  for (const TuningEntry& lesson : read_)
    if (lesson.grid == grid && !lesson.rail_rates.empty()) return lesson.rail_rates;
  return {};
}

void TuningCache::learn(TuningEntry lesson) {
  std::lock_guard lock(mutex_);
  std::erase_if(learned_, [&](const TuningEntry& old) { return replaces(lesson, old); });
  learned_.push_back(std::move(lesson));
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
                     [&](const TuningEntry& lesson) { return replaces(lesson, old); }))
      entries.push_back(to_json(old));
  for (const TuningEntry& lesson : learned_) entries.push_back(to_json(lesson));
  return file.dump(1) + "\n";
}

}  // namespace ddl
