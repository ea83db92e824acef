#include "launcher/gpu_sharing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

// Does CUDA see a device under this word? Numbers count from 0; names (GPU-..., MIG-...) are believed.
bool names_a_gpu(const std::string& word, std::size_t gpus) {
  if (word.empty()) return false;
  try {
    return parse_number(word) < gpus;
  } catch (const UsageError&) {
    return word[0] != '-';
  }
}

}  // namespace

std::size_t cuda_gpus(const NodeTopology& node, const std::optional<std::string>& visible) {
  auto gpus = static_cast<std::size_t>(std::count_if(node.gpus.begin(), node.gpus.end(),
                                                     [](const Gpu& gpu) { return gpu.vendor == "NVIDIA"; }));
  if (!visible || gpus == 0) return gpus;
  // CUDA takes the list up to the first word that names no device.
  std::size_t listed = 0;
  for (const std::string& word : split(*visible, ',')) {
    if (!names_a_gpu(word, gpus)) break;
    ++listed;
  }
  return listed;
}

std::string sharing_line(std::size_t ranks, const NodeTopology& node, const System& world) {
  std::size_t gpus = cuda_gpus(node, world.visible_gpus);
  if (gpus == 0 || ranks <= gpus) return {};
  std::string line =
      fmt::format("{} ranks share {} GPU{} on host {}", ranks, gpus, gpus > 1 ? "s" : "", world.host);
  if (world.variable("DDL_ENABLE") == "0")
    return line + " (NCCL refuses two ranks on one GPU, and DDL_ENABLE=0 leaves their calls to it)";
  return line + ": the engine serves their NCCL calls, since NCCL refuses two ranks on one GPU";
}

}  // namespace ddl
