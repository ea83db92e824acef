// A TEST DOUBLE of the CUDA driver (SONAME libcuda.so.1); see README.md. This file holds the exported
// functions: each checks what the real one would refuse, then hands over to devices, memory or streams.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_cuda/devices.hpp"
#include "tests/support/fake_cuda/memory.hpp"
#include "tests/support/fake_cuda/prototypes.hpp"
#include "tests/support/fake_cuda/streams.hpp"

namespace fake = fake_cuda;

// ---- the library itself ----

Result cuInit(unsigned flags) { return flags ? kInvalidValue : fake::initialise(); }

Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}

namespace {
struct ErrorText {
  Result result;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {kAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {fake::kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {fake::kCaptureInvalid, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {fake::kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {fake::kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
};
Result error_text(Result error, const char** to, const char* ErrorText::*which) {
  for (const ErrorText& known : kErrors)
    if (known.result == error) return *to = known.*which, kSuccess;
  return *to = nullptr, kInvalidValue;
}
}  // namespace

Result cuGetErrorName(Result error, const char** name) { return error_text(error, name, &ErrorText::name); }
Result cuGetErrorString(Result error, const char** text) { return error_text(error, text, &ErrorText::text); }

// ---- devices ----

namespace {
Result check_device(Device device) {
  RETURN_IF_FAILED(fake::initialised());
  return fake::device_exists(device) ? kSuccess : kInvalidDevice;
}
}  // namespace

Result cuDeviceGetCount(int* count) {
  RETURN_IF_FAILED(fake::initialised());
  *count = fake::device_count();
  return kSuccess;
}

Result cuDeviceGet(Device* device, int ordinal) {
  RETURN_IF_FAILED(check_device(ordinal));
  *device = ordinal;
  return kSuccess;
}

Result cuDeviceGetName(char* name, int length, Device device) {
  RETURN_IF_FAILED(check_device(device));
  std::snprintf(name, static_cast<std::size_t>(length), "test double of a GPU");
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int attribute, Device device) {
  RETURN_IF_FAILED(check_device(device));
  *value = 0;
  if (attribute == kAttributeMultiprocessors) *value = 2;
  if (attribute == kAttributeMps) *value = !std::getenv("FAKE_CUDA_TIME_SLICES");
  if (attribute == kAttributeStreamMemoryOperations)
    *value = !std::getenv("FAKE_CUDA_NO_STREAM_MEMORY_OPERATIONS");
  return kSuccess;
}

Result cuDeviceGetPCIBusId(char* text, int length, Device device) {
  RETURN_IF_FAILED(check_device(device));
  std::snprintf(text, static_cast<std::size_t>(length), "FFFF:%02X:00.0", fake::uuid_of(device).bytes[15]);
  return kSuccess;
}

Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  RETURN_IF_FAILED(check_device(device));
  *uuid = fake::uuid_of(device);
  return kSuccess;
}

// ---- contexts ----

Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  RETURN_IF_FAILED(check_device(device));
  *context = fake::primary_context(device);
  return kSuccess;
}

// Memory and modules; of streams and events nothing is done.
Result cuDevicePrimaryCtxReset_v2(Device device) {
  RETURN_IF_FAILED(check_device(device));
  fake::synchronize_all(fake::primary_context(device));
  fake::forget_all(device);
  fake::forget_modules(fake::primary_context(device));
  return kSuccess;
}

Result cuDevicePrimaryCtxRelease_v2(Device device) { return check_device(device); }

Result cuCtxGetCurrent(Context* context) {
  RETURN_IF_FAILED(fake::initialised());
  *context = fake::current();
  return kSuccess;
}

Result cuCtxSetCurrent(Context context) {
  RETURN_IF_FAILED(fake::initialised());
  if (context && !fake::is_context(context)) return kInvalidContext;
  fake::set_current(context);
  return kSuccess;
}

Result cuCtxPushCurrent_v2(Context context) {
  RETURN_IF_FAILED(fake::on_call("cuCtxPushCurrent"));
  if (!fake::is_context(context)) return kInvalidContext;
  fake::push(context);
  return kSuccess;
}

Result cuCtxPopCurrent_v2(Context* context) { return fake::pop(*context) ? kSuccess : kInvalidContext; }

Result cuCtxGetDevice(Device* device) {
  if (!fake::current()) return kInvalidContext;
  *device = fake::device_of(fake::current());
  return kSuccess;
}

Result cuCtxSynchronize() {
  if (!fake::current()) return kInvalidContext;
  RETURN_IF_FAILED(fake::refuse_during_capture());
  fake::synchronize_all(fake::current());
  return kSuccess;
}

// ---- streams ----

Result cuStreamCreate(Stream* stream, unsigned flags) {
  if (!fake::current()) return kInvalidContext;
  if (flags > kStreamNonBlocking) return kInvalidValue;
  *stream = fake::make_stream(fake::current(), flags);
  return kSuccess;
}

Result cuStreamDestroy_v2(Stream stream) { return fake::destroy_stream(stream); }

namespace {
template <typename Function>
Result with_stream(Stream given, Function function) {
  Stream stream = nullptr;
  RETURN_IF_FAILED(fake::stream_meant(given, stream));
  return function(stream);
}
Result enqueue(Stream given, std::function<void()> operation) {
  return with_stream(given, [&](Stream stream) { return fake::submit(stream, std::move(operation)); });
}
}  // namespace

Result cuStreamSynchronize(Stream given) {
  RETURN_IF_FAILED(fake::refuse_during_capture());
  return with_stream(given, [](Stream stream) { return fake::synchronize(stream); });
}

Result cuStreamQuery(Stream given) {
  RETURN_IF_FAILED(fake::refuse_during_capture());
  return with_stream(given, [](Stream stream) { return fake::query(stream); });
}

Result cuStreamIsCapturing(Stream given, int* status) {
  return with_stream(given, [&](Stream stream) { return fake::capture_status(stream, *status); });
}

Result cuStreamWaitEvent(Stream given, Event event, unsigned) {
  RETURN_IF_FAILED(fake::on_call("cuStreamWaitEvent"));
  return with_stream(given, [&](Stream stream) { return fake::wait_for(stream, event); });
}

Result cuStreamGetCtx(Stream given, Context* context) {
  return with_stream(given, [&](Stream stream) { return fake::context_of(stream, *context); });
}

Result cuStreamGetId(Stream given, unsigned long long* id) {
  return with_stream(given, [&](Stream stream) { return fake::id_of(stream, *id); });
}

Result cuLaunchHostFunc(Stream stream, void (*function)(void*), void* data) {
  RETURN_IF_FAILED(fake::on_call("cuLaunchHostFunc"));
  return enqueue(stream, [=] { fake::run_host_function(function, data); });
}

int fake_cuda_enqueue(Stream stream, void (*function)(void*), void* data) {
  return enqueue(stream, [=] { function(data); });
}

Result cuStreamBeginCapture_v2(Stream stream, int mode) { return fake::begin_capture(stream, mode); }
Result cuStreamEndCapture(Stream stream, Graph* graph) { return fake::end_capture(stream, *graph); }
Result cuStreamGetCaptureInfo_v3(Stream given, int* status, unsigned long long* id, Graph*, const void**,
                                 const void**, std::size_t*) {
  return with_stream(given, [&](Stream stream) { return fake::capture_status(stream, *status, id); });
}
Result cuThreadExchangeStreamCaptureMode(int* mode) { return fake::exchange_capture_mode(*mode); }
Result cuGraphDestroy(Graph graph) { return fake::destroy_graph(graph); }

// One type for both kinds of graphs: an executable one is a copy.
Result cuGraphInstantiateWithFlags(Graph* executable, Graph graph, unsigned long long) {
  RETURN_IF_FAILED(fake::on_call("cuGraphInstantiate"));
  return fake::copy_graph(graph, *executable);
}
Result cuGraphLaunch(Graph executable, Stream given) {
  RETURN_IF_FAILED(fake::on_call("cuGraphLaunch"));
  return with_stream(given, [&](Stream stream) { return fake::launch_graph(executable, stream); });
}
Result cuGraphExecDestroy(Graph executable) { return fake::destroy_graph(executable); }

// ---- events ----

Result cuEventCreate(Event* event, unsigned) {
  RETURN_IF_FAILED(fake::on_call("cuEventCreate"));
  if (!fake::current()) return kInvalidContext;
  *event = fake::make_event(fake::current());
  return kSuccess;
}

Result cuEventDestroy_v2(Event event) { return fake::destroy_event(event); }
Result cuEventQuery(Event event) {
  RETURN_IF_FAILED(fake::refuse_during_capture());
  return fake::query(event);
}
Result cuEventSynchronize(Event event) {
  RETURN_IF_FAILED(fake::refuse_during_capture());
  return fake::synchronize(event);
}

Result cuEventRecord(Event event, Stream given) {
  RETURN_IF_FAILED(fake::on_call("cuEventRecord"));
  return with_stream(given, [&](Stream stream) { return fake::record(event, stream); });
}
