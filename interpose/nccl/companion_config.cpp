#include "interpose/nccl/companion_config.hpp"

#include <climits>
#include <cstring>
#include <string>

#include "core/base/env.hpp"

namespace ddl::nccl {
namespace {

// Two kernels of 16 and a large one of the program's whole communicator fit on the 80 multiprocessors of a
// V100 and on all that came after it; 16 CTAs are more than a network needs, and near what NVLink does.
constexpr int kMostCtas = 16;
constexpr int kUndefined = INT_MIN;

// The beginning of ncclConfig_t since NCCL 2.18; later ones have more behind it, earlier ones less.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 1;
  int cga_cluster_size = kUndefined, min_ctas = kUndefined, max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = 0;
  int traffic_class = kUndefined;  // of 2.25; there was nothing in its place before
};
static_assert(sizeof(Config) == 48);

}  // namespace

std::vector<std::byte> capped_config(std::span<const std::byte> program_config) {
  Config config;
  const bool is_known = program_config.size() >= sizeof(config);
  if (is_known) std::memcpy(&config, program_config.data(), sizeof(config));
  config.blocking = 1;
  config.split_share = 0;
  if (config.max_ctas < 1 || config.max_ctas > kMostCtas) config.max_ctas = kMostCtas;
  if (config.min_ctas > config.max_ctas) config.min_ctas = config.max_ctas;
  std::vector<std::byte> made(program_config.begin(), program_config.end());
  if (!is_known) made.resize(sizeof(config));
  std::memcpy(made.data(), &config, sizeof(config));
  return made;
}

bool is_blocking(std::span<const std::byte> program_config) {
  if (foreign_env("NCCL_COMM_BLOCKING") == "0") return false;
  int blocking = kUndefined;
  if (program_config.size() >= offsetof(Config, blocking) + sizeof(blocking))
    std::memcpy(&blocking, program_config.data() + offsetof(Config, blocking), sizeof(blocking));
  return blocking != 0;
}

}  // namespace ddl::nccl
