// The exported functions of the test double that concern kernels. A module must be a fatbin; its kernels are
// known by name and run on the host, see kernels.hpp. What a real kernel would do wrong with an
// address is refused at the launch.
#include <cstdlib>
#include <cstring>
#include <deque>
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

struct LoadedFunction {
  LoadedModule* module;
  const fake::Twin* twin;
};

struct Modules {
  std::mutex mutex;
  std::set<LoadedModule*> loaded;
  std::set<LoadedFunction*> functions;
  std::deque<LoadedFunction> all_functions;  // so that no other one gets the address of one that is gone
};

Modules& modules() {
  static Modules* all = new Modules;
  return *all;
}

Result begin(const char* function) {
  RETURN_IF_FAILED(fake::on_call(function));
  return fake::current() ? kSuccess : kInvalidContext;
}

// With its functions; who calls holds the lock.
void unload(LoadedModule* module) {
  std::erase_if(modules().functions, [module](const LoadedFunction* one) { return one->module == module; });
  modules().loaded.erase(module);
  delete module;
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

void fake::forget_modules(Context context) {
  std::lock_guard lock(modules().mutex);
  for (LoadedModule* module : std::set(modules().loaded))
    if (module->context == context) unload(module);
}

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
  if (!modules().loaded.count(known)) return kInvalidHandle;
  unload(known);
  return kSuccess;
}

Result cuModuleGetFunction(Function* function, Module module, const char* name) {
  RETURN_IF_FAILED(begin("cuModuleGetFunction"));
  std::lock_guard lock(modules().mutex);
  auto* known = reinterpret_cast<LoadedModule*>(module);
  if (!modules().loaded.count(known)) return kInvalidHandle;
  const fake::Twin* twin = fake::twin_of(name);
  if (!twin) return kNotFound;
  auto* made = &modules().all_functions.emplace_back(LoadedFunction{known, twin});
  modules().functions.insert(made);
  *function = reinterpret_cast<Function>(made);
  return kSuccess;
}

Result cuLaunchKernel(Function function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned, Stream given, void** parameters,
                      void** extra) {
  RETURN_IF_FAILED(begin("cuLaunchKernel"));
  auto launch = std::make_shared<Launch>();
  {
    auto* known = reinterpret_cast<LoadedFunction*>(function);
    std::lock_guard lock(modules().mutex);
    if (!modules().functions.count(known) || known->module->context != fake::current()) return kInvalidHandle;
    launch->twin = known->twin;
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
