#include "launcher/exec_env.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "core/base/env.hpp"
#include "core/base/error.hpp"
#include "launcher/hostlist.hpp"

namespace ddl {
namespace {

std::optional<int> number(const std::string& text) {
  constexpr std::uint64_t kMost = 100'000'000;
  try {
    std::uint64_t value = parse_number(text);
    if (value < kMost) return static_cast<int>(value);
  } catch (const UsageError&) {
  }
  return std::nullopt;
}

std::optional<int> first_number(const System& world, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (auto value = number(world.variable(name))) return value;
  return std::nullopt;
}

// Slurm gives all nodes' counts and our place among them.
std::optional<int> slurm_local_size(const System& world) {
  auto node = number(world.variable("SLURM_NODEID"));
  std::string tasks = world.variable("SLURM_STEP_TASKS_PER_NODE");
  if (!node || tasks.empty()) return std::nullopt;
  try {
    std::vector<std::uint64_t> counts = expand_slurm_tasks(tasks);
    auto index = static_cast<std::size_t>(*node);
    if (index < counts.size()) return static_cast<int>(counts[index]);
  } catch (const UsageError&) {
  }
  return std::nullopt;
}

// 127.0.0.1 where the whole job is on this host: a machine's own name need not resolve.
std::string master_address(const RankFacts& facts, const std::string& master, const System& world) {
  if (facts.size && facts.size == facts.local_size) return "127.0.0.1";
  if (!master.empty()) return master;
  std::string nodes = world.variable("SLURM_STEP_NODELIST");
  if (nodes.empty()) nodes = world.variable("SLURM_JOB_NODELIST");
  try {
    if (!nodes.empty()) return expand_slurm_nodes(nodes).front();
  } catch (const UsageError&) {
  }
  return {};
}

}  // namespace

RankFacts read_rank_facts(const System& world) {
  RankFacts facts;
  facts.rank = first_number(world, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"});
  facts.size = first_number(world, {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  facts.local_rank = first_number(world, {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"});
  facts.local_size = first_number(world, {"OMPI_COMM_WORLD_LOCAL_SIZE"});
  if (!facts.local_size) facts.local_size = slurm_local_size(world);
  return facts;
}

Assignments rank_variables(const RankFacts& facts, const std::string& master, const System& world) {
  Assignments set;
  auto put = [&](const char* name, const std::string& value) {
    if (!value.empty()) set.emplace_back(name, value);
  };
  auto offer = [&](const char* name, const std::string& value) {
    if (world.variable(name).empty()) put(name, value);
  };
  auto text = [](const std::optional<int>& value) { return value ? std::to_string(*value) : std::string(); };
  if (!facts.rank) return set;
  put("RANK", text(facts.rank));
  put("LOCAL_RANK", text(facts.local_rank));
  put("WORLD_SIZE", text(facts.size));
  put("LOCAL_WORLD_SIZE", text(facts.local_size));
  offer("MASTER_ADDR", master_address(facts, master, world));
  std::string job = world.variable("PMIX_NAMESPACE");
  if (job.empty()) job = world.variable("SLURM_JOB_ID") + "." + world.variable("SLURM_STEP_ID");
  offer("MASTER_PORT", std::to_string(master_port(job)));
  return set;
}

std::string stale_variables_text(const Assignments& set, const System& world) {
  Strings words;
  for (const auto& [name, value] : set)
    if (std::string old = world.variable(name); !old.empty() && old != value)
      words.push_back(fmt::format("{}={} becomes {}", name, old, value));
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (std::string given = world.variable(name); !given.empty())
      words.push_back(fmt::format("{}={} stays", name, given));
  return words.empty() ? std::string() : "found in the environment: " + join(words, ", ");
}

std::string preload_list(const std::string& shim, const std::string& existing) {
  return existing.empty() ? shim : shim + ":" + existing;
}

std::string asan_options(const std::string& existing) {
  if (existing.find("verify_asan_link_order") != std::string::npos) return existing;
  return "verify_asan_link_order=0" + (existing.empty() ? "" : ":" + existing);
}

bool can_be_preloaded(const std::string& file) { return file.find_first_of(" \t\n:") == std::string::npos; }

int master_port(const std::string& job_id) {
  std::uint32_t hash = 2166136261u;  // FNV-1a: equal on all hosts, unlike std::hash
  for (unsigned char c : job_id) hash = (hash ^ c) * 16777619u;
  return 10000 + static_cast<int>(hash % 22000u);
}

}  // namespace ddl
