#include "core/device/reduce_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/partition.hpp"
#include "core/device/kernels_image.hpp"

namespace ddl {
namespace {

constexpr unsigned kBlocksPerMultiprocessor = 8;  // of 256 threads: all that a multiprocessor can hold

bool has_kernels(DType type) { return type != DType::int16 && type != DType::uint16; }

std::string no_kernels(const std::string& problem, const std::string& cure) {
  return Error::sentence(problem, "collectives on one GPU are reduced on the host", cure);
}

std::string refused(const cuda::Driver& driver, cuda::Result result) {
  std::string problem = "the CUDA driver does not load our kernels: " + cuda::describe(driver, result);
  if (result == cuda::kNoBinaryForGpu || result == cuda::kUnsupportedPtxVersion)
    return no_kernels(problem,
                      "install a newer driver, or build with an nvcc that knows both this GPU and driver");
  return no_kernels(problem, "");
}

// Memory of a context, which is gone with all else of it once the program has reset its device, though the
// context's name stays. Another allocation may lie there then, but has another number.
class Witness {
 public:
  Witness() = default;
  Witness(const cuda::Driver& driver, cuda::Context context) {
    cuda::CurrentContext current(driver, context);
    if (current.result() == cuda::kSuccess && driver.allocate(&at_, 4) == cuda::kSuccess)
      is_numbered_ = driver.pointer_attribute(&number_, cuda::kPointerBufferId, at_) == cuda::kSuccess;
  }
  bool is_gone(const cuda::Driver& driver) const {
    std::uint64_t number = 0;
    return is_numbered_ &&
           (driver.pointer_attribute(&number, cuda::kPointerBufferId, at_) != cuda::kSuccess ||
            number != number_);
  }

 private:
  cuda::DevicePointer at_ = 0;
  std::uint64_t number_ = 0;
  bool is_numbered_ = false;
};

}  // namespace

const ReduceKernels::Loaded& ReduceKernels::of(const cuda::Driver& driver, cuda::Context context) {
  struct InContext {
    std::vector<std::unique_ptr<const Loaded>> loaded;  // the last; who has had others may still look
    Witness witness;
  };
  static std::mutex* mutex = new std::mutex;  // both outlive exit handlers of the program
  static auto* of_context = new std::map<cuda::Context, InContext>;
  std::lock_guard lock(*mutex);
  InContext& found = (*of_context)[context];
  if (found.loaded.empty() || found.witness.is_gone(driver)) {
    found.loaded.push_back(std::make_unique<Loaded>(load(driver, context)));
    found.witness = found.loaded.back()->kernels ? Witness(driver, context) : Witness();
  }
  return *found.loaded.back();
}

ReduceKernels::Loaded ReduceKernels::load(const cuda::Driver& driver, cuda::Context context) {
  if (kernels_image().empty())
    return {nullptr, no_kernels("this build has no device kernels", "build where nvcc is found")};
  if (!driver.module_load || !driver.module_function || !driver.launch)
    return {nullptr, no_kernels("the CUDA driver cannot load kernels", "install a newer driver")};
  cuda::CurrentContext current(driver, context);
  cuda::Module module = nullptr;
  cuda::Result result = current.result();
  if (result == cuda::kSuccess) result = driver.module_load(&module, kernels_image().data());
  if (result != cuda::kSuccess) return {nullptr, refused(driver, result)};
  std::unique_ptr<ReduceKernels> kernels(new ReduceKernels(driver));
  for (int type = 0; type < kDTypes; ++type)
    for (int op = 0; op < kDeviceOps && has_kernels(static_cast<DType>(type)); ++op) {
      std::string name = fmt::format("ddl_reduce_{}_{}", name_of(static_cast<DeviceOp>(op)),
                                     name_of(static_cast<DType>(type)));
      cuda::Function& function =
          kernels->functions_[static_cast<std::size_t>(type)][static_cast<std::size_t>(op)];
      result = driver.module_function(&function, module, name.c_str());
      if (result != cuda::kSuccess) return {nullptr, refused(driver, result)};
    }
  cuda::Device device = 0;
  int multiprocessors = 0;
  if (driver.context_device(&device) == cuda::kSuccess &&
      driver.device_attribute(&multiprocessors, cuda::kAttributeMultiprocessors, device) == cuda::kSuccess)
    kernels->most_blocks_ = std::max(1u, kBlocksPerMultiprocessor * static_cast<unsigned>(multiprocessors));
  return {kernels.release(), ""};
}

cuda::Result ReduceKernels::launch(DType type, DeviceOp op, std::span<const cuda::DevicePointer> ins,
                                   std::span<const cuda::DevicePointer> outs, Elements count,
                                   cuda::Stream stream, const RaisedAfterwards& raised) const {
  if (ins.empty() || ins.size() > kernels::kMostBuffers || outs.empty() ||
      outs.size() > kernels::kMostBuffers || raised.flags.size() > kernels::kMostBuffers ||
      raised.raiser >= kernels::kMostRaisers)
    return cuda::kInvalidValue;
  if (count == 0) return raised.flags.empty() ? cuda::kSuccess : cuda::kInvalidValue;
  kernels::ReduceArguments arguments{};
  std::copy(ins.begin(), ins.end(), arguments.in);
  std::copy(outs.begin(), outs.end(), arguments.out);
  std::copy(raised.flags.begin(), raised.flags.end(), arguments.flag);
  arguments.raiser = raised.raiser;
  arguments.count = count;
  arguments.ins = static_cast<unsigned>(ins.size());
  arguments.outs = static_cast<unsigned>(outs.size());
  arguments.flags = static_cast<unsigned>(raised.flags.size());
  arguments.value = raised.value;
  constexpr Elements kBlockBytes = 16 * kernels::kThreadsPerBlock;  // one load of each thread
  auto blocks =
      static_cast<unsigned>(std::min<Elements>(most_blocks_, divide_up(count * size_of(type), kBlockBytes)));
  void* parameters[] = {&arguments};
  return driver_.launch(function(type, op), blocks, 1, 1, kernels::kThreadsPerBlock, 1, 1, 0, stream,
                        parameters, nullptr);
}

unsigned ReduceKernels::new_raiser() {
  static std::atomic<unsigned> given{0};
  const unsigned number = given++;
  if (number < kernels::kMostRaisers) return number;
  --given;
  throw Error(fmt::format("all {} places for staging on the GPU are taken", kernels::kMostRaisers));
}

}  // namespace ddl
