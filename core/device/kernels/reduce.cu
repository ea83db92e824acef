// The reduction kernels for ranks that share a GPU: ddl_reduce_<operation>_<type>, one for each pair, k buffers into m.
//
// Elements are taken in the order of the buffers, which is that of the ranks, by one thread each: the same
// bits wherever it runs. float16 and bfloat16 are accumulated in float32 and rounded once. Of a NaN and a
// number, and of two zeros, minimum and maximum take the second, as the kernels of core/reduce do.
//
// Sixteen bytes per load where all inputs lie alike to that, and per store where all outputs do too; what is before and
// behind, or all, element by element. No block waits for another, so ranks may share a GPU however it divides its time.
#include <cuda_fp16.h>

#include "core/device/kernels/arguments.hpp"

namespace {

using ddl::kernels::ReduceArguments;
using Index = unsigned long long;

// ---- types: as stored, as computed with ----

template <class T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static __device__ T widen(T value) { return value; }
  static __device__ T narrow(T value) { return value; }
};

struct Half {
  using Stored = unsigned short;
  using Wide = float;
  static __device__ float widen(unsigned short bits) { return __half2float(__ushort_as_half(bits)); }
  static __device__ unsigned short narrow(float value) { return __half_as_ushort(__float2half_rn(value)); }
};

struct Brain {
  using Stored = unsigned short;
  using Wide = float;
  static __device__ float widen(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  }
  static __device__ unsigned short narrow(float value) {
    unsigned bits = __float_as_uint(value);
    bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return static_cast<unsigned short>((is_nan ? bits | 0x00400000u : bits + 0x7fffu + ((bits >> 16) & 1)) >>
                                       16);
  }
};

// ---- operations; integers wrap ----

template <class T>
struct Wrapping {
  using Type = unsigned;
};
template <>
struct Wrapping<long long> {
  using Type = unsigned long long;
};
template <>
struct Wrapping<unsigned long long> {
  using Type = unsigned long long;
};
template <>
struct Wrapping<float> {
  using Type = float;
};
template <>
struct Wrapping<double> {
  using Type = double;
};

// What becomes of the reduction of so many buffers. `is_easy` says of one value whether easy() gives what the operator gives, in
// fewer instructions and without a branch.
template <class T>
struct Keep {
  explicit __device__ Keep(unsigned) {}
  __device__ T operator()(T value) const { return value; }
  __device__ T easy(T value) const { return value; }
  __device__ bool is_easy(T) const { return true; }
};

__device__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// The division of the host, bit for bit; integers are cut toward zero. A division takes dozens of instructions, and so as long
// as the memory: where a product gives the same, it is one. By a power of two it does; and of n small enough the integer
// part of n times the next number above 2^k / by, shifted by k (H. Warren, Hacker's Delight, chapter 10).
template <class T>
class Divide {
  static constexpr bool kIsFloating = static_cast<T>(0.5f) != 0, kIsSingle = kIsFloating && sizeof(T) == 4;

 public:
  explicit __device__ Divide(unsigned by)
      : by_(static_cast<T>(by)), is_power_of_two_((by & (by - 1)) == 0), multiplier_(by == 1 ? 0 : ~Index{0} / by + 1) {
    if constexpr (kIsFloating) reciprocal_ = T{1} / by_;
    if constexpr (sizeof(T) == 1) short_multiplier_ = static_cast<int>(65536u / by + 1);
  }
  __device__ T operator()(T value) const {
    if constexpr (kIsSingle) return is_easy(value) ? easy(value) : value / by_;
    if constexpr (kIsFloating) return is_power_of_two_ ? value * reciprocal_ : value / by_;
    if constexpr (sizeof(T) == 1) {
      const int product = static_cast<int>(value) * short_multiplier_;
      return static_cast<T>((product >> 16) + (product < 0));
    }
    if (sizeof(T) == 8 || multiplier_ == 0) return value / by_;
    bool is_negative = false;
    if constexpr (static_cast<T>(-1) < static_cast<T>(1)) is_negative = value < T{0};
    const auto size = static_cast<unsigned>(is_negative ? 0u - static_cast<unsigned>(value) : static_cast<unsigned>(value));
    const auto quotient = static_cast<unsigned>((static_cast<unsigned __int128>(size) * multiplier_) >> 64);
    return static_cast<T>(is_negative ? 0u - quotient : quotient);
  }
  // The quotient from the rounded one, rounded once more with what it leaves (P. Markstein, IA-64 and Elementary
  // Functions, chapter 8): where nothing becomes subnormal. A zero keeps its sign, and what is no number stays it.
  __device__ T easy(T value) const {
    if constexpr (kIsSingle) {
      const T rough = value * reciprocal_, quotient = fused(fused(-rough, by_, value), reciprocal_, rough);
      return is_power_of_two_ || value == 0 || value - value != 0 ? rough : quotient;
    } else {
      return (*this)(value);
    }
  }
  __device__ bool is_easy(T value) const {
    if constexpr (kIsSingle) {
      const T size = value < 0 ? -value : value;
      return is_power_of_two_ || value == 0 || !(size < 1e-28f);
    } else {
      return true;
    }
  }

 private:
  const T by_;
  const bool is_power_of_two_;
  const Index multiplier_;
  T reciprocal_{};
  int short_multiplier_ = 0;
};

struct Sum {
  template <class T>
  using Finish = Keep<T>;
  template <class T>
  static __device__ T of(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct Prod : Sum {
  template <class T>
  static __device__ T of(T a, T b) {
    using W = typename Wrapping<T>::Type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
struct Min : Sum {
  template <class T>
  static __device__ T of(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max : Sum {
  template <class T>
  static __device__ T of(T a, T b) {
    return a > b ? a : b;
  }
};
struct Average : Sum {
  template <class T>
  using Finish = Divide<T>;
};

// ---- one element, sixteen bytes, all ----

template <class Stored>
struct alignas(16) Pack {
  Stored value[16 / sizeof(Stored)];
};

template <class T>
__device__ T load(Index buffer, Index i) {
  return reinterpret_cast<const T*>(buffer)[i];
}

template <class Format, class Operation, class Finish>
__device__ void one(const ReduceArguments& a, const Finish& finish, Index i) {
  using Stored = typename Format::Stored;
  typename Format::Wide result = Format::widen(load<Stored>(a.in[0], i));
  for (unsigned s = 1; s < a.ins; ++s)
    result = Operation::of(result, Format::widen(load<Stored>(a.in[s], i)));
  Stored stored = Format::narrow(finish(result));
  for (unsigned j = 0; j < a.outs; ++j) reinterpret_cast<Stored*>(a.out[j])[i] = stored;
}

// `skipped` elements lie before the first pack.
template <class Format, class Operation, bool kOutsInPacks, class Finish>
__device__ void pack(const ReduceArguments& a, const Finish& finish, Index skipped, Index i) {
  using Stored = typename Format::Stored;
  using Wide = typename Format::Wide;
  constexpr unsigned kWidth = 16 / sizeof(Stored);
  const Index before = skipped * sizeof(Stored);
  Pack<Stored> loaded = load<Pack<Stored>>(a.in[0] + before, i);
  Wide result[kWidth];
#pragma unroll
  for (unsigned e = 0; e < kWidth; ++e) result[e] = Format::widen(loaded.value[e]);
#pragma unroll 2
  for (unsigned s = 1; s < a.ins; ++s) {
    loaded = load<Pack<Stored>>(a.in[s] + before, i);
#pragma unroll
    for (unsigned e = 0; e < kWidth; ++e)
      result[e] = Operation::of(result[e], Format::widen(loaded.value[e]));
  }
  // One branch for all: of one for each element each would wait for the one before.
  bool is_easy = true;
#pragma unroll
  for (unsigned e = 0; e < kWidth; ++e) is_easy &= finish.is_easy(result[e]);
  if (!is_easy) {  // from memory once more, which takes no registers
#pragma unroll 1
    for (unsigned e = 0; e < kWidth; ++e) one<Format, Operation>(a, finish, skipped + i * kWidth + e);
    return;
  }
#pragma unroll
  for (unsigned e = 0; e < kWidth; ++e) loaded.value[e] = Format::narrow(finish.easy(result[e]));
  for (unsigned j = 0; j < a.outs; ++j) {
    const Index out = a.out[j] + before;
    if constexpr (kOutsInPacks) {
      reinterpret_cast<Pack<Stored>*>(out)[i] = loaded;
    } else {
#pragma unroll
      for (unsigned e = 0; e < kWidth; ++e) reinterpret_cast<Stored*>(out)[i * kWidth + e] = loaded.value[e];
    }
  }
}

// How many elements come before the first that all inputs have at a multiple of sixteen bytes; all when
// there is none.
template <class Stored>
__device__ Index before_packs(const ReduceArguments& a) {
  const Index off = a.in[0] % 16;
  bool alike = true;
  for (unsigned s = 1; s < a.ins; ++s) alike &= a.in[s] % 16 == off;
  const Index head = (16 - off) % 16 / sizeof(Stored);
  return alike && head < a.count ? head : a.count;
}

#ifdef __CUDACC__  // else the test double's
// For whoever looks, on the host too. In no order with others.
__device__ void raise_flag(unsigned* at, unsigned value) { *static_cast<volatile unsigned*>(at) = value; }
#endif

__device__ unsigned finished_blocks[ddl::kernels::kMostRaisers];

// By the block that is the last to finish: what all have read and written comes before (the fences, see "Memory Fence
// Functions" in the CUDA C++ Programming Guide). By its last thread, behind which a host that runs threads in turn has none.
__device__ void raise_flags(const ReduceArguments& a) {
  __syncthreads();
  if (threadIdx.x + 1 != blockDim.x) return;
  __threadfence();
  if (atomicAdd(&finished_blocks[a.raiser], 1u) + 1 != gridDim.x) return;
  finished_blocks[a.raiser] = 0;
  __threadfence_system();
  for (unsigned f = 0; f < a.flags; ++f) raise_flag(reinterpret_cast<unsigned*>(a.flag[f]), a.value);
}

template <class Format, class Operation>
__device__ void reduce(const ReduceArguments& a) {
  using Stored = typename Format::Stored;
  const Index me = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  const Index all = static_cast<Index>(gridDim.x) * blockDim.x;
  const typename Operation::template Finish<typename Format::Wide> finish(a.ins);
  const Index head = before_packs<Stored>(a), width = 16 / sizeof(Stored), packs = (a.count - head) / width;
  bool outs_in_packs = true;
  for (unsigned j = 0; j < a.outs; ++j) outs_in_packs &= (a.out[j] + head * sizeof(Stored)) % 16 == 0;
  if (outs_in_packs)
    for (Index i = me; i < packs; i += all) pack<Format, Operation, true>(a, finish, head, i);
  else
    for (Index i = me; i < packs; i += all) pack<Format, Operation, false>(a, finish, head, i);
  for (Index i = me; i < head; i += all) one<Format, Operation>(a, finish, i);
  for (Index i = head + packs * width + me; i < a.count; i += all) one<Format, Operation>(a, finish, i);
  if (a.flags > 0) raise_flags(a);
}

}  // namespace

#define DDL_KERNEL(operation, Operation, type, Format)                                     \
  extern "C" __global__ void __launch_bounds__(ddl::kernels::kThreadsPerBlock)             \
      ddl_reduce_##operation##_##type(const __grid_constant__ ReduceArguments arguments) { \
    reduce<Format, Operation>(arguments);                                                  \
  }
#define DDL_OPERATIONS(type, Format)   \
  DDL_KERNEL(sum, Sum, type, Format)   \
  DDL_KERNEL(prod, Prod, type, Format) \
  DDL_KERNEL(min, Min, type, Format)   \
  DDL_KERNEL(max, Max, type, Format)   \
  DDL_KERNEL(average, Average, type, Format)

DDL_OPERATIONS(int8, Plain<signed char>)
DDL_OPERATIONS(uint8, Plain<unsigned char>)
DDL_OPERATIONS(int32, Plain<int>)
DDL_OPERATIONS(uint32, Plain<unsigned>)
DDL_OPERATIONS(int64, Plain<long long>)
DDL_OPERATIONS(uint64, Plain<unsigned long long>)
DDL_OPERATIONS(float16, Half)
DDL_OPERATIONS(bfloat16, Brain)
DDL_OPERATIONS(float32, Plain<float>)
DDL_OPERATIONS(float64, Plain<double>)
