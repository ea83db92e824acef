// Our declarations of the CUDA driver against an installed cuda.h: what fits there fits the driver.
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "core/device/cuda_driver.hpp"

#ifdef DDL_HAVE_CUDA_H
#include <cuda.h>

namespace ddl::cuda {
namespace {

// Whether two types are passed alike: enumerations as integers of their size, handles as pointers.
template <typename A, typename B>
constexpr bool kPassedAlike = sizeof(A) == sizeof(B) &&
                              ((std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                               ((std::is_integral_v<A> || std::is_enum_v<A>)&&(std::is_integral_v<B> ||
                                                                               std::is_enum_v<B>)) ||
                               (std::is_class_v<A> && std::is_class_v<B>));

template <typename Ours, typename Theirs>
constexpr bool kSameCall = false;
template <typename R, typename... A, typename S, typename... B>
requires(sizeof...(A) ==
         sizeof...(B)) constexpr bool kSameCall<R (*)(A...), S (*)(B...)> = kPassedAlike<R, S> &&
                                                                            (kPassedAlike<A, B> && ...);

// And whether pointers point to things of one size, so that nothing is written past what we have.
template <typename T>
constexpr std::size_t kPointee = 0;
template <typename T>
requires(std::is_object_v<T> && !std::is_function_v<T> &&
         requires { sizeof(T); }) constexpr std::size_t kPointee<T*> = sizeof(T);
template <typename Ours, typename Theirs>
constexpr bool kSameTargets = false;
template <typename R, typename... A, typename S, typename... B>
requires(sizeof...(A) == sizeof...(B)) constexpr bool kSameTargets<R (*)(A...), S (*)(B...)> =
    ((kPointee<A> == kPointee<B>)&&...);

#define DDL_CUDA(need, member, name, suffix, parameters)                                                \
  static_assert(kSameCall<decltype(Driver::member), decltype(&::name)>, #name " takes something else"); \
  static_assert(kSameTargets<decltype(Driver::member), decltype(&::name)>, #name " fills something else");
#include "core/device/cuda_driver.def"
#undef DDL_CUDA

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(kNoDevice == CUDA_ERROR_NO_DEVICE && kInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(kInvalidContext == CUDA_ERROR_INVALID_CONTEXT && kInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kInvalidImage == CUDA_ERROR_INVALID_IMAGE && kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(kUnsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kMisalignedAddress == CUDA_ERROR_MISALIGNED_ADDRESS);
static_assert(kAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(kRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kRegisterDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventNoTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kWaitValueGreaterOrEqual == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(kWriteValueDefault == CU_STREAM_WRITE_VALUE_DEFAULT);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE && kHostDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(kCaptureActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(kCaptureInvalidated == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
static_assert(kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kAttributeMps == CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
static_assert(kOperationWait == CU_STREAM_MEM_OP_WAIT_VALUE_32);
static_assert(kOperationWrite == CU_STREAM_MEM_OP_WRITE_VALUE_32);
static_assert(sizeof(CopyOfRows) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(CopyOfRows, from.host) == offsetof(CUDA_MEMCPY2D, srcHost));
static_assert(offsetof(CopyOfRows, from.pitch) == offsetof(CUDA_MEMCPY2D, srcPitch));
static_assert(offsetof(CopyOfRows, to.type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(CopyOfRows, to.device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(CopyOfRows, to.pitch) == offsetof(CUDA_MEMCPY2D, dstPitch));
static_assert(offsetof(CopyOfRows, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(sizeof(MemoryOperation) == sizeof(CUstreamBatchMemOpParams));
static_assert(offsetof(MemoryOperation, address) == offsetof(CUstreamBatchMemOpParams, waitValue.address));
static_assert(offsetof(MemoryOperation, value) == offsetof(CUstreamBatchMemOpParams, waitValue.value));
static_assert(offsetof(MemoryOperation, flags) == offsetof(CUstreamBatchMemOpParams, waitValue.flags));
static_assert(offsetof(MemoryOperation, value) == offsetof(CUstreamBatchMemOpParams, writeValue.value));
static_assert(offsetof(MemoryOperation, flags) == offsetof(CUstreamBatchMemOpParams, writeValue.flags));
static_assert(kAttributeStreamMemoryOperations == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
static_assert(kPointerContext == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kPointerOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kMemoryTypeHost == CU_MEMORYTYPE_HOST && kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(Uuid) == sizeof(CUuuid) && sizeof(IpcHandle) == sizeof(CUipcMemHandle));

#define DDL_EXPANDED(name) DDL_TEXT(name)
#define DDL_TEXT(name) #name

TEST(CudaHeader, OurSymbolsAreTheVersionsThatTheHeaderChooses) {
#define DDL_CUDA(need, member, name, suffix, parameters) \
  EXPECT_EQ(std::string(#name #suffix), DDL_EXPANDED(name)) << "a newer header? then look what has changed";
#include "core/device/cuda_driver.def"
#undef DDL_CUDA
  EXPECT_EQ(reinterpret_cast<void*>(kStreamLegacy), static_cast<void*>(CU_STREAM_LEGACY));
  EXPECT_EQ(reinterpret_cast<void*>(kStreamPerThread), static_cast<void*>(CU_STREAM_PER_THREAD));
}

}  // namespace
}  // namespace ddl::cuda

#else

TEST(CudaHeader, OurSymbolsAreTheVersionsThatTheHeaderChooses) {
  GTEST_SKIP() << "no cuda.h on this machine";
}

#endif
