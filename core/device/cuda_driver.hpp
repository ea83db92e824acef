// The CUDA driver API as a table of functions found at run time: nothing here is linked, and where there is
// no driver, or one without a function, that is a value and not a failure. The declarations are our own
// (cuda_driver.def); a test compares them with an installed cuda.h.
// The rule: a member of an optional row may be null; look before you call. Ownership: the library stays
// loaded for good. Thread safety: all; a context is current to a thread, as CUDA has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ddl::cuda {

using Result = int;                        // CUresult
using Device = int;                        // CUdevice
using DevicePointer = unsigned long long;  // CUdeviceptr
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Graph = struct GraphHandle*;
using Module = struct ModuleHandle*;
using Function = struct FunctionHandle*;
struct Uuid {
  char bytes[16];
};
struct IpcHandle {
  char reserved[64];
};
struct MemoryOperation {  // CUstreamBatchMemOpParams, as far as they are alike for what we do
  unsigned operation;
  DevicePointer address;
  std::uint64_t value;
  unsigned flags;
  DevicePointer alias = 0;
  std::uint64_t unused = 0;
};
struct CopyOfRows {  // CUDA_MEMCPY2D
  struct Place {
    std::size_t x = 0, y = 0;
    unsigned type = 0;  // kMemoryTypeHost, kMemoryTypeDevice
    void* host = nullptr;
    DevicePointer device = 0;
    void* array = nullptr;
    std::size_t pitch = 0;
  } from, to;
  std::size_t width = 0, height = 0;
};
constexpr unsigned kOperationWait = 1, kOperationWrite = 2;  // of 32 bits
constexpr unsigned kMostOperations = 255;                    // of one batch

constexpr Result kSuccess = 0;
constexpr Result kInvalidValue = 1;
constexpr Result kOutOfMemory = 2;
constexpr Result kNotInitialized = 3;
constexpr Result kNoDevice = 100;
constexpr Result kInvalidDevice = 101;
constexpr Result kInvalidImage = 200;
constexpr Result kInvalidContext = 201;
constexpr Result kNoBinaryForGpu = 209;
constexpr Result kUnsupportedPtxVersion = 222;
constexpr Result kInvalidHandle = 400;
constexpr Result kNotFound = 500;
constexpr Result kNotReady = 600;
constexpr Result kIllegalAddress = 700;
constexpr Result kAlreadyRegistered = 712;
constexpr Result kMisalignedAddress = 716;
constexpr Result kNotSupported = 801;
constexpr Result kCaptureUnsupported = 900;
constexpr Result kCaptureImplicit = 906;  // asked of the legacy stream while another one is captured

inline const Stream kStreamLegacy = reinterpret_cast<Stream>(0x1);
inline const Stream kStreamPerThread = reinterpret_cast<Stream>(0x2);
constexpr unsigned kStreamNonBlocking = 1;  // not ordered with the legacy default stream
constexpr unsigned kEventNoTiming = 2;
constexpr unsigned kWaitValueGreaterOrEqual = 0;  // (int32_t)(*address - value) >= 0: it survives a wrap
constexpr unsigned kWriteValueDefault = 0;        // what came before on the stream is visible first
constexpr unsigned kHostPortable = 1;             // pinned for all contexts
constexpr unsigned kHostDeviceMap = 2;
constexpr unsigned kRegisterPortable = 1,
                   kRegisterDeviceMap = 2;  // the same for memory that was there before
constexpr unsigned kIpcLazyPeerAccess = 1;
constexpr int kCaptureNone = 0, kCaptureActive = 1, kCaptureInvalidated = 2;
constexpr int kCaptureThreadLocal = 1, kCaptureRelaxed = 2;  // capture modes

constexpr int kAttributeMultiprocessors = 16;
constexpr int kAttributeStreamMemoryOperations = 122;  // of 64 bits, which includes those of 32
constexpr int kAttributeMps = 133;                     // contexts of this device share it by way of MPS
constexpr int kPointerContext = 1, kPointerMemoryType = 2, kPointerBufferId = 7, kPointerIsManaged = 8,
              kPointerOrdinal = 9;
constexpr unsigned kMemoryTypeHost = 1, kMemoryTypeDevice = 2;

struct Driver {
#define DDL_CUDA(need, member, name, suffix, parameters) Result(*member) parameters = nullptr;
#include "core/device/cuda_driver.def"
#undef DDL_CUDA
};

/// What was found. Usable: no needed function is missing. An unusable one still has the functions it has.
struct Found {
  Driver driver;
  bool there = false;   // the library is
  std::string missing;  // the library or the first needed function that is not there, in words; else empty
  bool usable() const { return missing.empty(); }
};

enum class Load {
  kOnlyIfLoaded,  // look at what the program has loaded: costs nothing to a program without CUDA
  kOnDemand       // load it: for programs that have asked for NCCL
};

inline constexpr const char* kLibrary = "libcuda.so.1";

/// Looks the driver up. Never calls it: not even init.
Found find_driver(Load how, const char* library = kLibrary);

/// The driver of this process, looked up until it is there and then kept: the one place that all others have
/// it from. Null where there is none, or none yet.
const Found* process_driver(Load how);

/// "CUDA_ERROR_OUT_OF_MEMORY: out of memory", or the number where the driver has no name for it.
std::string describe(const Driver& driver, Result result);

/// cuStreamIsCapturing. kCaptureInvalidated also of the legacy default stream while another one that waits
/// for it is captured: in both cases nothing can be enqueued there.
Result capture_status(const Driver& driver, Stream stream, int& status);

/// Whether streams of this device can write and wait for values in memory.
bool has_stream_memory_operations(const Driver& driver, Device device);
/// Whether processes share this device by way of MPS, and need not take turns.
bool has_mps(const Driver& driver, Device device);

/// Makes a context current while it lives. A failure to do so is in `result`, and then nothing was pushed.
/// What we do meanwhile has nothing to do with what other threads capture into graphs, and does not spoil it.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, Context context)
      : driver_(driver), result_(driver.context_push(context)) {
    if (driver_.exchange_capture_mode) driver_.exchange_capture_mode(&capture_mode_);
  }
  ~CurrentContext() {
    Context popped;
    if (driver_.exchange_capture_mode) driver_.exchange_capture_mode(&capture_mode_);
    if (result_ == kSuccess) driver_.context_pop(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  Result result() const { return result_; }

 private:
  const Driver& driver_;
  int capture_mode_ = kCaptureRelaxed;  // then what it was before
  Result result_;
};

}  // namespace ddl::cuda
