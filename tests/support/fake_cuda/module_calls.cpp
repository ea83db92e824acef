// The exported functions of the test double that concern kernels. A module must be a fatbin; its kernels are
// known by name and run on the host, see kernels.hpp. What a real kernel would do wrong with an
// address is refused at the launch.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "tests/support/fake_cuda/devices.hpp"
#include "tests/support/fake_cuda/kernels.hpp"
#include "tests/support/fake_cuda/memory.hpp"
#include "tests/support/fake_cuda/prototypes.hpp"
#include "tests/support/fake_cuda/streams.hpp"

namespace fake = fake_cuda;

namespace {

constexpr std::uint32_t kFatbinMagic = 0xba55ed50;
constexpr unsigned kMostThreads = 1024, kMostBlocksAcross = 65535, kMostBlocks = 0x7fffffff;

struct LoadedModule {
  Context context;
};

struct Modules {
  std::mutex mutex;
  std::set<LoadedModule*> loaded;
  std::set<const fake::Twin*> functions;
};

Modules& modules() {
  static Modules* all = new Modules;
  return *all;
}

Result begin(const char* function) {
  RETURN_IF_FAILED(fake::on_call(function));
  return fake::current() ? kSuccess : kInvalidContext;
}

// The buffers, kept alive until the kernel has run.
struct Launch {
  const fake::Twin* twin;
  ddl::kernels::ReduceArguments arguments;
  std::vector<fake::Range> ranges;
};

Result resolve(unsigned long long& pointer, std::size_t count, std::size_t element_bytes, Launch& launch) {
  if (pointer % element_bytes != 0) return kMisalignedAddress;
  const std::size_t bytes = count * element_bytes;
  std::optional<fake::Range> range = fake::resolve(pointer, bytes, fake::Kind::kDevice);
  if (!range) range = fake::resolve(pointer, bytes, fake::Kind::kPinned);
  if (!range) return kIllegalAddress;
  pointer = reinterpret_cast<unsigned long long>(range->at);
  launch.ranges.push_back(std::move(*range));
  return kSuccess;
}

bool is_launchable(unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z) {
  unsigned long long threads = 1ull * block_x * block_y * block_z;
  return x > 0 && y > 0 && z > 0 && x <= kMostBlocks && y <= kMostBlocksAcross && z <= kMostBlocksAcross &&
         threads > 0 && threads <= kMostThreads;
}

}  // namespace

Result cuModuleLoadData(Module* module, const void* image) {
  RETURN_IF_FAILED(begin("cuModuleLoadData"));
  std::uint32_t magic = 0;
  if (image) std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatbinMagic) return kInvalidImage;
  const char* kernels = std::getenv("FAKE_CUDA_KERNELS");
  if (kernels && std::string_view(kernels) == "no_binary") return kNoBinaryForGpu;
  if (kernels && std::string_view(kernels) == "new_ptx") return kUnsupportedPtxVersion;
  std::lock_guard lock(modules().mutex);
  auto* made = new LoadedModule{fake::current()};
  modules().loaded.insert(made);
  *module = reinterpret_cast<Module>(made);
  return kSuccess;
}

Result cuModuleUnload(Module module) {
  RETURN_IF_FAILED(begin("cuModuleUnload"));
  std::lock_guard lock(modules().mutex);
  auto* known = reinterpret_cast<LoadedModule*>(module);
  if (!modules().loaded.erase(known)) return kInvalidHandle;
  delete known;
  return kSuccess;
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  RETURN_IF_FAILED(begin("cuModuleGetFunction"));
  std::lock_guard lock(modules().mutex);
  if (!modules().loaded.count(reinterpret_cast<LoadedModule*>(module))) return kInvalidHandle;
  const fake::Twin* twin = fake::twin_of(name);
  if (!twin) return kNotFound;
  modules().functions.insert(twin);
  *function = reinterpret_cast<Function>(const_cast<fake::Twin*>(twin));
  return kSuccess;
}

Result cuLaunchKernel(Function function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned, Stream given, void** parameters,
                      void** extra) {
  RETURN_IF_FAILED(begin("cuLaunchKernel"));
  auto launch = std::make_shared<Launch>();
  launch->twin = reinterpret_cast<const fake::Twin*>(function);
  {
    std::lock_guard lock(modules().mutex);
    if (!modules().functions.count(launch->twin)) return kInvalidHandle;
  }
  if (!is_launchable(x, y, z, block_x, block_y, block_z) || block_x > ddl::kernels::kThreadsPerBlock)
    return kInvalidValue;
  if (!parameters || extra) return kInvalidValue;
  auto& arguments = launch->arguments;
  std::memcpy(&arguments, parameters[0], sizeof arguments);
  if (arguments.ins == 0 || arguments.ins > ddl::kernels::kMostBuffers || arguments.outs == 0 ||
      arguments.outs > ddl::kernels::kMostBuffers || arguments.flags > ddl::kernels::kMostBuffers)
    return kInvalidValue;
  const std::size_t bytes = launch->twin->element_bytes;
  for (unsigned i = 0; i < arguments.ins; ++i)
    RETURN_IF_FAILED(resolve(arguments.in[i], arguments.count, bytes, *launch));
  for (unsigned i = 0; i < arguments.outs; ++i)
    RETURN_IF_FAILED(resolve(arguments.out[i], arguments.count, bytes, *launch));
  for (unsigned i = 0; i < arguments.flags; ++i) RETURN_IF_FAILED(resolve(arguments.flag[i], 1, 4, *launch));
  if (arguments.raiser >= ddl::kernels::kMostRaisers) return kIllegalAddress;
  Stream stream = nullptr;
  RETURN_IF_FAILED(fake::stream_meant(given, stream));
  Result result =
      fake::submit(stream, [launch, x, block_x] { fake::run(*launch->twin, x, block_x, launch->arguments); });
  return result == kSuccess && getenv("CUDA_LAUNCH_BLOCKING") ? fake::synchronize(stream) : result;
}
