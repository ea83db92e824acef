#include "core/device/cuda_driver.hpp"

#include <dlfcn.h>

#include <atomic>
#include <memory>

namespace ddl::cuda {
namespace {

enum class Need { kNeeded, kOptional };

template <typename Function>
void look_up(void* library, Need need, const char* symbol, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  if (!function && need == Need::kNeeded && missing.empty())
    missing = std::string("the CUDA driver has no ") + symbol;
}

bool has(const Driver& driver, Device device, int attribute) {
  int value = 0;
  return driver.device_attribute(&value, attribute, device) == kSuccess && value != 0;
}

}  // namespace

Found find_driver(Load how, const char* library_name) {
  Found found;
  void* library = ::dlopen(library_name, RTLD_LAZY | RTLD_NOLOAD);
  if (!library && how == Load::kOnDemand) library = ::dlopen(library_name, RTLD_LAZY);
  if (!library) {
    found.missing = std::string(library_name) + " is not " +
                    (how == Load::kOnDemand ? "there, or cannot be loaded" : "loaded");
    return found;
  }
  found.there = true;
#define DDL_CUDA(need, member, name, suffix, parameters) \
  look_up(library, Need::need, #name #suffix, found.driver.member, found.missing);
#include "core/device/cuda_driver.def"
#undef DDL_CUDA
  return found;
}

const Found* process_driver(Load how) {
  static std::atomic<const Found*> the_driver{nullptr};  // outlives exit handlers of the program
  if (const Found* known = the_driver.load(std::memory_order_acquire)) return known;
  auto found = std::make_unique<const Found>(find_driver(how));
  if (!found->there) return nullptr;
  const Found* first = nullptr;
  return the_driver.compare_exchange_strong(first, found.get()) ? found.release() : first;
}

std::string describe(const Driver& driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (!driver.error_name || driver.error_name(result, &name) != kSuccess || !name)
    return "CUDA error " + std::to_string(result);
  if (!driver.error_string || driver.error_string(result, &text) != kSuccess || !text) return name;
  return std::string(name) + ": " + text;
}

Result capture_status(const Driver& driver, Stream stream, int& status) {
  const Result result = driver.stream_is_capturing(stream, &status);
  if (result != kCaptureImplicit) return result;
  status = kCaptureInvalidated;
  return kSuccess;
}

bool has_stream_memory_operations(const Driver& driver, Device device) {
  return driver.stream_write_value && driver.stream_wait_value &&
         has(driver, device, kAttributeStreamMemoryOperations);
}

bool has_mps(const Driver& driver, Device device) { return has(driver, device, kAttributeMps); }

}  // namespace ddl::cuda
