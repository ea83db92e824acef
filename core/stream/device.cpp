#include "core/stream/device.hpp"

#include "core/bootstrap/host_identity.hpp"

namespace ddl::gpu {
namespace {

const cuda::Driver* start_driver() {
  const cuda::Found* found = cuda::process_driver(cuda::Load::kOnDemand);
  int devices = 0;
  if (!found || !found->usable() || found->driver.init(0) != cuda::kSuccess ||
      found->driver.device_count(&devices) != cuda::kSuccess || devices == 0)
    return nullptr;
  return &found->driver;
}

}  // namespace

const cuda::Driver* driver() {
  static const cuda::Driver* found = start_driver();
  return found;
}

cuda::Context current_context() {
  cuda::Context context = nullptr;
  if (driver()->context_current(&context) == cuda::kSuccess && context) return context;
  return context_of_device(0);
}

cuda::Context context_of_device(int ordinal) {
  cuda::Device device = 0;
  cuda::Context context = nullptr;
  if (driver()->device_get(&device, ordinal) != cuda::kSuccess) return nullptr;
  return driver()->primary_retain(&context, device) == cuda::kSuccess ? context : nullptr;
}

int device_of(cuda::Context context) {
  cuda::CurrentContext current(*driver(), context);
  cuda::Device device = -1;
  if (current.result() != cuda::kSuccess || driver()->context_device(&device) != cuda::kSuccess) return -1;
  return device;
}

std::string identity_of(cuda::Context context) {
  int device = device_of(context);
  if (cuda::Uuid uuid; driver()->device_uuid && driver()->device_uuid(&uuid, device) == cuda::kSuccess)
    return {uuid.bytes, sizeof(uuid.bytes)};
  char place[32] = {};
  driver()->device_pci_id(place, sizeof(place) - 1, device);
  return text_of(host_identity()) + " " + place;
}

}  // namespace ddl::gpu
