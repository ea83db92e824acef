#include "core/tune/tuning_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ddl {
namespace {

using nlohmann::json;
constexpr int kVersion = 1;
constexpr int kDeepest = 8;

// What versions that know all-reduces alone demand of an entry is there as well.
void put(json& out, const TaskChoice& choice) {
  out["kind"] = name_of(choice.task.kind);
  out["division"] = division_name(choice.division);
  out["directly"] = choice.crossing == Crossing::directly;
  out["radix"] = choice.radix;
  out["share"] = choice.share;
  out["rail"] = choice.rail;
  out["order"] = json::array();
  out["segment"] = choice.segment;
  out["window"] = choice.window;
  if (choice.handover == Handover::single_copy) out["single_copy"] = true;
  if (choice.most_staged != kMostStaged) out["most_staged"] = choice.most_staged;
  if (choice.task.unequal) out["unequal"] = true;
  if (choice.task.rooted != Rooted::no) out["rooted"] = true;
  if (choice.task.rooted == Rooted::scatter) out["scatters"] = true;
  if (choice.padded > 0) out["padded"] = choice.padded;
  if (choice.reduces_all) out["reduces_all"] = true;
}

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
  if (entry.task) {
    put(out, *entry.task);
    return out;
  }
  for (Algorithm algorithm : entry.choice.algorithm) out["algorithm"].push_back(algorithm_name(algorithm));
  out["share"] = entry.choice.share;
  out["rail"] = entry.choice.rail;
  out["order"] = entry.choice.order;
  out["segment"] = entry.choice.segment;
  out["window"] = entry.choice.window;
  return out;
}

template <class Value, class NameOf>
Value value_named(const std::string& name, int values, NameOf name_of_value) {
  for (int v = 0; v < values; ++v)
    if (name == name_of_value(static_cast<Value>(v))) return static_cast<Value>(v);
  throw json::other_error::create(501, "nothing is called " + name, nullptr);
}

// Throws json::exception.
TaskChoice task_from(const json& in) {
  TaskChoice choice;
  choice.task.kind =
      value_named<Kind>(in.at("kind").get<std::string>(), kKinds, [](Kind kind) { return name_of(kind); });
  choice.division = value_named<Division>(in.at("division").get<std::string>(), kDivisions, division_name);
  choice.crossing = in.at("directly").get<bool>() ? Crossing::directly : Crossing::by_agents;
  in.at("radix").get_to(choice.radix);
  in.at("share").get_to(choice.share);
  in.at("rail").get_to(choice.rail);
  in.at("segment").get_to(choice.segment);
  in.at("window").get_to(choice.window);
  if (in.value("single_copy", false)) choice.handover = Handover::single_copy;
  choice.most_staged = in.value("most_staged", kMostStaged);
  choice.task.unequal = in.value("unequal", false);
  if (in.value("rooted", false))
    choice.task.rooted = in.value("scatters", false) ? Rooted::scatter : Rooted::gather;
  choice.padded = in.value("padded", Bytes{0});
  choice.reduces_all = in.value("reduces_all", false);
  return choice;
}

// A file may hold anything: rates that no network has would make plans of nonsense.
bool is_rate(double rate) { return rate >= 1e3 && rate <= 1e13; }

// Throws json::exception.
TuningEntry entry_from(const json& in) {
  TuningEntry entry;
  in.at("grid").get_to(entry.grid);
  in.at("bytes_up_to").get_to(entry.size_class);
  in.at("us").get_to(entry.microseconds);
  in.at("rails").get_to(entry.rail_rates);
  if (!std::all_of(entry.rail_rates.begin(), entry.rail_rates.end(), is_rate))
    throw json::other_error::create(501, "a rail's rate is out of range", nullptr);
  entry.original = in.value("original", false);
  if (entry.original) return entry;
  if (in.contains("kind")) {
    entry.task = task_from(in);
    return entry;
  }
  for (const json& name : in.at("algorithm"))
    entry.choice.algorithm.push_back(
        value_named<Algorithm>(name.get<std::string>(), kAlgorithms, algorithm_name));
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

// Deeper values than a cache has are dropped on the way: nlohmann's copies and dumps recurse.
json parse(const std::string& text) {
  auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth <= kDeepest; };
  json file = json::parse(text, is_shallow, false);
  bool right = file.is_object() && file.value("ddl_tuning", json()) == kVersion &&
               file.contains("machines") && file["machines"].is_object();
  return right ? file : json();
}

std::string processors_in_words(const Cpus& cpus) {
  return fmt::format("{} cores{}{};", cpus.cores, cpus.model.empty() ? "" : " of ", cpus.model);
}

// Of one machine. Throws json::exception.
std::vector<TuningEntry> entries_from(const json& list) {
  std::vector<TuningEntry> entries;
  for (const json& entry : list) entries.push_back(entry_from(entry));
  return entries;
}

json list_of(const std::vector<TuningEntry>& entries) {
  json list = json::array();
  for (const TuningEntry& entry : entries) list.push_back(to_json(entry));
  return list;
}

// Those machines of a file that `wanted` selects by name and whose entries can be read; what is wrong with
// the last that cannot goes to `trouble`.
template <class Wanted>
json readable_machines(const json& file, Wanted wanted, std::string& trouble) {
  json machines = json::object();
  for (const auto& [name, list] : file["machines"].items()) {
    if (!wanted(name)) continue;
    try {
      machines[name] = list_of(entries_from(list));
    } catch (const json::exception& error) {
      trouble = error.what();
    }
  }
  return machines;
}

}  // namespace

std::string machine_name(const Cpus& cpus, std::span<const HostIndex> host_of_rank, const std::string& wire,
                         std::span<const std::string> rails) {
  std::map<HostIndex, int> ranks_of;
  for (HostIndex host : host_of_rank) ++ranks_of[host];
  std::string name = processors_in_words(cpus);
  for (const auto& [host, ranks] : ranks_of) name += fmt::format(" {}", ranks);
  if (ranks_of.size() > 1) name += fmt::format("; {}", wire);
  for (const std::string& rail : rails) name += fmt::format("; {}", rail);
  return name;
}

bool is_tuning(const std::string& text) { return !parse(text).is_null(); }

TuningToTell tuning_to_tell(const std::string& text, const Cpus& cpus) {
  TuningToTell tell;
  if (text.empty()) return tell;
  json file = parse(text);
  if (file.is_null()) return {{}, "it is no tuning cache of this version"};
  const std::string like_this = processors_in_words(cpus);
  json machines = readable_machines(
      file, [&](const std::string& name) { return name.starts_with(like_this); }, tell.trouble);
  if (tell.trouble.empty() && !machines.empty())
    tell.text = json{{"ddl_tuning", kVersion}, {"machines", machines}}.dump();
  return tell;
}

std::string TuningCache::read(const std::string& text) {
  json file = parse(text);
  if (file.is_null()) return "it is no tuning cache of this version";
  std::vector<TuningEntry> entries;
  try {
    entries = entries_from(file["machines"].value(machine_, json::array()));
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

bool TuningCache::has_read_none() const {
  std::lock_guard lock(mutex_);
  return read_.empty();
}

std::vector<double> TuningCache::rail_rates(const std::string& grid) const {
  std::lock_guard lock(mutex_);
  auto is_of = [&](const TuningEntry& entry) {  // other kinds have more behind it
    return entry.grid == grid || entry.grid.starts_with(grid + ", ");
  };
  const auto last = std::find_if(read_.rbegin(), read_.rend(), [&](const TuningEntry& entry) {
    return is_of(entry) && !entry.rail_rates.empty();
  });
  return last == read_.rend() ? std::vector<double>{} : last->rail_rates;
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

std::string TuningCache::write(const std::string& text, std::size_t most) const {
  json file = parse(text), machines = json::object();
  std::string ignored;
  auto is_other = [&](const std::string& name) { return name != machine_; };
  if (!file.is_null()) machines = readable_machines(file, is_other, ignored);
  std::lock_guard lock(mutex_);
  // Other jobs may have added to it since this one has read it.
  std::vector<TuningEntry> known = read_, ours;
  try {
    if (!file.is_null()) known = entries_from(file["machines"].value(machine_, json::array()));
  } catch (const json::exception&) {
  }
  for (const TuningEntry& old : known)
    if (std::none_of(learned_.begin(), learned_.end(),
                     [&](const TuningEntry& entry) { return replaces(entry, old); }))
      ours.push_back(old);
  ours.insert(ours.end(), learned_.begin(), learned_.end());
  machines[machine_] = list_of(ours);
  while (true) {
    std::string written = json{{"ddl_tuning", kVersion}, {"machines", machines}}.dump(1) + "\n";
    auto other = machines.begin();
    while (other != machines.end() && other.key() == machine_) ++other;
    if (written.size() <= most || other == machines.end()) return written;
    machines.erase(other);
  }
}

}  // namespace ddl
