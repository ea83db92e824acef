#include "hwloc_topo/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace ddl {
namespace {

// The few pieces of NVML's stable C interface that are used here.
using NvmlDevice = void*;
struct NvmlPciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
constexpr unsigned kMaxLinks = 18;
constexpr int kSuccess = 0;

// GB/s per direction of one link, by the version NVML reports (an enumeration: 1 is Pascal, 7 is Blackwell).
double gbytes_of_link(unsigned version) {
  constexpr unsigned kPascal = 1, kBlackwell = 7;
  if (version <= kPascal) return 20;
  return version < kBlackwell ? 25 : 50;
}

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    if (!library_) return;
    load(init, "nvmlInit_v2");
    load(shutdown, "nvmlShutdown");
    load(count, "nvmlDeviceGetCount_v2");
    load(handle, "nvmlDeviceGetHandleByIndex_v2");
    load(name, "nvmlDeviceGetName");
    load(pci, "nvmlDeviceGetPciInfo_v3");
    load(link_state, "nvmlDeviceGetNvLinkState");
    load(link_version, "nvmlDeviceGetNvLinkVersion");
    load(link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    started_ = complete_ && init() == kSuccess;
  }
  ~Nvml() {
    if (started_) shutdown();
    if (library_) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  bool found() const { return library_; }
  bool started() const { return started_; }

 private:
  template <class Function>
  void load(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    complete_ = complete_ && function;
  }
  void* library_;
  bool complete_ = true;
  bool started_ = false;

 public:
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlDevice*) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*pci)(NvmlDevice, NvmlPciInfo*) = nullptr;
  int (*link_state)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*link_version)(NvmlDevice, unsigned, unsigned*) = nullptr;
  int (*link_remote)(NvmlDevice, unsigned, NvmlPciInfo*) = nullptr;
};

std::string bus_id(const NvmlPciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

int gpu_with(const NodeTopology& node, const std::string& pci) {
  for (const Gpu& gpu : node.gpus)
    if (gpu.pci == pci) return gpu.index;
  return -1;
}

// Rates of one GPU's links, summed by what is at the other end.
std::map<std::string, double> rates_by_end(const Nvml& nvml, NvmlDevice device, const NodeTopology& node) {
  std::map<std::string, double> rates;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    unsigned active = 0, version = 0;
    NvmlPciInfo remote{};
    if (nvml.link_state(device, link, &active) != kSuccess || !active) continue;
    if (nvml.link_version(device, link, &version) != kSuccess) continue;
    if (nvml.link_remote(device, link, &remote) != kSuccess) continue;
    int gpu = gpu_with(node, bus_id(remote));
    rates[gpu >= 0 ? fmt::format("gpu{}", gpu) : "nvswitch"] += gbytes_of_link(version);
  }
  return rates;
}

using Rates = std::map<int, std::map<std::string, double>>;  // by GPU

Rates ask_devices(const Nvml& nvml, NodeTopology& node) {
  Rates rates;
  unsigned count = 0;
  if (nvml.count(&count) != kSuccess) return rates;
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice device = nullptr;
    NvmlPciInfo pci{};
    if (nvml.handle(i, &device) != kSuccess || nvml.pci(device, &pci) != kSuccess) continue;
    int gpu = gpu_with(node, bus_id(pci));
    if (gpu < 0) {
      node.notes.push_back(fmt::format("NVML shows a GPU at {} that hwloc does not", bus_id(pci)));
      continue;
    }
    std::array<char, 96> name{};
    if (nvml.name(device, name.data(), name.size()) == kSuccess) {
      node.gpus[static_cast<std::size_t>(gpu)].name = name.data();
      node.gpus[static_cast<std::size_t>(gpu)].sources["name"] = "NVML";
    }
    rates[gpu] = rates_by_end(nvml, device, node);
  }
  return rates;
}

void take_links(const Rates& rates, NodeTopology& node) {
  for (const auto& [gpu, ends] : rates) {
    std::string name = fmt::format("gpu{}", gpu);
    for (const auto& [end, rate] : ends)
      if (end == "nvswitch" || name < end) node.links.push_back({name, end, rate, "NVLink", "NVML"});
    auto own = ends.find("nvswitch");
    for (const auto& [other, other_ends] : rates) {
      auto theirs = other_ends.find("nvswitch");
      if (other > gpu && own != ends.end() && theirs != other_ends.end())
        node.links.push_back({name, fmt::format("gpu{}", other), std::min(own->second, theirs->second),
                              "NVLink through switches", "NVML"});
    }
  }
}

}  // namespace

void ask_nvml(NodeTopology& node) {
  bool nvidia =
      std::any_of(node.gpus.begin(), node.gpus.end(), [](const Gpu& gpu) { return gpu.vendor == "NVIDIA"; });
  if (!nvidia) return;
  Nvml nvml;
  if (!nvml.found())
    node.notes.push_back("NVLinks unknown: hwloc has no NVLinkBandwidth and libnvidia-ml.so.1 is not here");
  else if (!nvml.started())
    node.notes.push_back("NVLinks unknown: libnvidia-ml.so.1 does not start (no driver in this container?)");
  else
    take_links(ask_devices(nvml, node), node);
}

}  // namespace ddl
