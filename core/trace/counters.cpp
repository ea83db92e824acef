#include "core/trace/counters.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ddl {
namespace {

using nlohmann::json;

// Adds every number of `from` to the entry of `into` that has the same value under `key`; unknown entries are
// taken over.
void merge_lists(json& into, const json& from, const char* key, const char* second_key) {
  for (const json& entry : from) {
    auto same = [&](const json& known) {
      return known.value(key, json()) == entry.value(key, json()) &&
             known.value(second_key, json()) == entry.value(second_key, json());
    };
    auto known = std::find_if(into.begin(), into.end(), same);
    if (known == into.end()) {
      into.push_back(entry);
      continue;
    }
    for (const auto& [name, number] : entry.items()) {
      if (number.is_number_integer()) (*known)[name] = (*known)[name].get<Bytes>() + number.get<Bytes>();
      if (number.is_number_float()) (*known)[name] = (*known)[name].get<double>() + number.get<double>();
    }
  }
}

// Which ranks have made such calls, where the parts say it.
void add_ranks(json& into, const json& from) {
  if (!from.contains("ranks") || !from["ranks"].is_array()) return;
  if (!into.contains("ranks")) into["ranks"] = json::array();
  if (!into["ranks"].is_array()) return;  // a report that is done: who it counts is settled
  for (const json& rank : from["ranks"])
    if (std::find(into["ranks"].begin(), into["ranks"].end(), rank) == into["ranks"].end())
      into["ranks"].push_back(rank);
}

// The entry of that name; allocates at its first use only.
template <class Map>
auto& at(Map& map, const char* name) {
  auto found = map.find(std::string_view(name));
  return found == map.end() ? map[name] : found->second;
}

}  // namespace

void Counters::collect(const char* collective, Bytes size_class, const std::string& plan,
                       const Tally& tally) {
  std::lock_guard lock(mutex_);
  Collective& counted = at(collectives_, collective);
  counted.engine.add(tally);
  counted.algorithm[{size_class, plan}] += tally.calls;
}

void Counters::collect_time(const char* collective, Nanoseconds time) {
  std::lock_guard lock(mutex_);
  at(collectives_, collective).engine.time += time;
}

void Counters::count_fused(const char* collective, const std::string& of, std::uint64_t calls, Bytes bytes) {
  std::lock_guard lock(mutex_);
  Fused& fused = at(collectives_, collective).fused[of];
  fused.calls += calls;
  ++fused.batches;
  fused.bytes += bytes;
}

void Counters::count_narrowed(const char* collective, const std::string& of, const Narrowed& more) {
  std::lock_guard lock(mutex_);
  at(collectives_, collective).narrowed[of].add(more);
}

void Counters::Sparse::add(const Sparse& other) {
  calls += other.calls, bytes += other.bytes, sent += other.sent;
  kept = std::max(kept, other.kept);
}

void Counters::count_sparse(const char* collective, Bytes bytes, Bytes sent, Bytes kept) {
  std::lock_guard lock(mutex_);
  at(collectives_, collective).sparse.add({1, bytes, sent, kept});
}

void Counters::take(Counters& other) {
  std::scoped_lock lock(mutex_, other.mutex_);
  for (auto& [name, theirs] : other.collectives_) {
    Collective& ours = collectives_[name];
    ours.engine.add(theirs.engine);
    for (auto& [reason, tally] : theirs.original) ours.original[reason].add(tally);
    for (auto& [plan, calls] : theirs.algorithm) ours.algorithm[plan] += calls;
    for (auto& [of, more] : theirs.fused) {
      Fused& fused = ours.fused[of];
      fused.calls += more.calls, fused.batches += more.batches, fused.bytes += more.bytes;
    }
    for (auto& [of, more] : theirs.narrowed) ours.narrowed[of].add(more);
    ours.sparse.add(theirs.sparse);
  }
  other.collectives_.clear();
}

void Counters::count_original(const char* collective, const char* reason, const Tally& tally) {
  std::lock_guard lock(mutex_);
  at(at(collectives_, collective).original, reason).add(tally);
}

json Counters::to_json() const {
  std::lock_guard lock(mutex_);
  auto seconds = [](const Tally& tally) { return static_cast<double>(tally.time) * 1e-9; };
  json collectives = json::array(), algorithms = json::array(), fused = json::array(), sparse = json::array();
  json narrowed = json::array();
  for (const auto& [name, collective] : collectives_) {
    const Tally& engine = collective.engine;
    json original = json::array();
    for (const auto& [reason, tally] : collective.original)
      original.push_back(
          {{"reason", reason}, {"calls", tally.calls}, {"bytes", tally.bytes}, {"seconds", seconds(tally)}});
    collectives.push_back(
        {{"name", name},
         {"engine", {{"calls", engine.calls}, {"bytes", engine.bytes}, {"seconds", seconds(engine)}}},
         {"original", original}});
    for (const auto& [plan, calls] : collective.algorithm)
      algorithms.push_back(
          {{"collective", name}, {"bytes_up_to", plan.first}, {"plan", plan.second}, {"calls", calls}});
    for (const auto& [of, one] : collective.fused)
      fused.push_back({{"collective", name},
                       {"class", of},
                       {"calls", one.calls},
                       {"batches", one.batches},
                       {"bytes", one.bytes}});
    for (const auto& [of, one] : collective.narrowed)
      narrowed.push_back({{"collective", name},
                          {"class", of},
                          {"calls", one.calls},
                          {"bytes", one.bytes},
                          {"bytes_sent", one.sent},
                          {"bytes_in_memory", one.in_memory}});
    if (const Sparse& one = collective.sparse; one.calls > 0)
      sparse.push_back({{"collective", name},
                        {"calls", one.calls},
                        {"bytes", one.bytes},
                        {"bytes_sent", one.sent},
                        {"bytes_kept", one.kept}});
  }
  return {{"collectives", collectives},
          {"algorithms", algorithms},
          {"fused", fused},
          {"narrowed", narrowed},
          {"sparse", sparse}};
}

void merge_counts(json& into, const json& from) {
  for (const json& collective : from.value("collectives", json::array())) {
    auto known = std::find_if(into["collectives"].begin(), into["collectives"].end(),
                              [&](const json& one) { return one["name"] == collective["name"]; });
    if (known == into["collectives"].end()) {
      into["collectives"].push_back(collective);
      continue;
    }
    json engines = json::array({(*known)["engine"]});
    merge_lists(engines, json::array({collective["engine"]}), "name", "reason");
    (*known)["engine"] = engines[0];
    merge_lists((*known)["original"], collective["original"], "reason", "reason");
    add_ranks(*known, collective);
  }
  if (from.contains("fused")) merge_lists(into["fused"], from["fused"], "collective", "class");
  if (from.contains("narrowed")) merge_lists(into["narrowed"], from["narrowed"], "collective", "class");
  if (from.contains("sparse")) merge_lists(into["sparse"], from["sparse"], "collective", "collective");
  merge_lists(into["rails"], from.value("rails", json::array()), "name", "name");
}

void count_ranks(json& report) {
  for (json& collective : report["collectives"])
    if (collective.contains("ranks") && collective["ranks"].is_array())
      collective["ranks"] = collective["ranks"].size();
}

void merge_plans(json& into, const json& from) {
  json& plans = into["algorithms"];
  for (const json& one : from.value("algorithms", json::array())) {
    auto known = std::find_if(plans.begin(), plans.end(), [&](const json& other) {
      return other["collective"] == one["collective"] && other["bytes_up_to"] == one["bytes_up_to"] &&
             other["plan"] == one["plan"];
    });
    if (known == plans.end())
      plans.push_back(one);
    else
      (*known)["calls"] = (*known)["calls"].get<std::uint64_t>() + one["calls"].get<std::uint64_t>();
  }
}

void merge_part(json& into, const json& part) {
  for (const char* most : {"staging_bytes", "fusion_bytes"})
    into[most] = std::max(into.value(most, Bytes{0}), part.value(most, Bytes{0}));
  merge_counts(into, part);
  merge_plans(into, part);
  if (!part.value("complete", true)) into["complete"] = false;
}

}  // namespace ddl
