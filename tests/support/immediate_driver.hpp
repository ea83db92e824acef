// A CUDA driver as a table of functions whose streams do everything at once, in the caller's thread, and wait
// for nothing but flags. It allocates nothing on the way of a call.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/device/cuda_driver.hpp"

namespace ddl::test {

/// What the next cuEventRecord answers.
inline std::atomic<cuda::Result> next_record_result{cuda::kSuccess};

inline const cuda::Driver& immediate_driver() {
  using namespace cuda;
  static const Driver driver = [] {
    static std::atomic<std::uintptr_t> handles{1};
    Driver d;
    d.context_push = [](Context) { return kSuccess; };
    d.context_pop = [](Context*) { return kSuccess; };
    d.stream_create = [](Stream* stream, unsigned) {
      return *stream = reinterpret_cast<Stream>(++handles), kSuccess;
    };
    d.stream_destroy = [](Stream) { return kSuccess; };
    d.stream_is_capturing = [](Stream, int* status) { return *status = kCaptureNone, kSuccess; };
    d.stream_wait_event = [](Stream, Event, unsigned) { return kSuccess; };
    d.event_create = [](Event* event, unsigned) {
      return *event = reinterpret_cast<Event>(++handles), kSuccess;
    };
    d.event_destroy = [](Event) { return kSuccess; };
    d.event_record = [](Event, Stream) { return next_record_result.exchange(kSuccess); };
    d.event_query = [](Event) { return kSuccess; };
    d.launch_host_function = [](Stream, void (*function)(void*), void* data) {
      return function(data), kSuccess;
    };
    d.allocate = [](DevicePointer* pointer, std::size_t bytes) {
      return *pointer = reinterpret_cast<DevicePointer>(std::malloc(bytes)), kSuccess;
    };
    d.host_allocate = [](void** pointer, std::size_t bytes, unsigned) {
      return *pointer = std::malloc(bytes), kSuccess;
    };
    d.host_device_pointer = [](DevicePointer* pointer, void* host, unsigned) {
      return *pointer = reinterpret_cast<DevicePointer>(host), kSuccess;
    };
    d.copy_to_host_async = [](void* to, DevicePointer from, std::size_t bytes, Stream) {
      return std::memcpy(to, reinterpret_cast<void*>(from), bytes), kSuccess;
    };
    d.copy_to_device_async = [](DevicePointer to, const void* from, std::size_t bytes, Stream) {
      return std::memcpy(reinterpret_cast<void*>(to), from, bytes), kSuccess;
    };
    d.stream_write_value = [](Stream, DevicePointer at, std::uint32_t value, unsigned) {
      std::atomic_ref(*reinterpret_cast<std::uint32_t*>(at)).store(value);
      return kSuccess;
    };
    d.stream_wait_value = [](Stream, DevicePointer at, std::uint32_t value, unsigned) {
      std::atomic_ref flag(*reinterpret_cast<std::uint32_t*>(at));
      while (static_cast<std::int32_t>(flag.load() - value) < 0) std::this_thread::yield();
      return kSuccess;
    };
    return d;
  }();
  return driver;
}

}  // namespace ddl::test
