#include "pattern.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace bench {
namespace {

constexpr std::size_t kPeriod = 251;
constexpr std::size_t kCallStep = 97;
constexpr std::size_t kRankStep = 31;

enum class Reduction { kSum, kProd, kMin, kMax, kBand, kBor, kBxor };

struct NamedReduction {
  const char* name;
  Reduction reduction;
  MPI_Op op;
};

// A function, because Open MPI's handles are addresses that are known only at run time.
const std::vector<NamedReduction>& reductions() {
  static const std::vector<NamedReduction> all{
      {"sum", Reduction::kSum, MPI_SUM},    {"prod", Reduction::kProd, MPI_PROD},
      {"min", Reduction::kMin, MPI_MIN},    {"max", Reduction::kMax, MPI_MAX},
      {"band", Reduction::kBand, MPI_BAND}, {"bor", Reduction::kBor, MPI_BOR},
      {"bxor", Reduction::kBxor, MPI_BXOR}};
  return all;
}

const NamedReduction& find_reduction(const std::string& name) {
  return *std::find_if(reductions().begin(), reductions().end(), [&](auto& row) { return name == row.name; });
}

// Whole numbers wrap like the hardware's; in 64 bits unsigned, so that nothing here is undefined.
template <typename T>
T combine(Reduction reduction, T a, T b) {
  if (reduction == Reduction::kMin) return std::min(a, b);
  if (reduction == Reduction::kMax) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (reduction) {
      case Reduction::kSum:
        return static_cast<T>(x + y);
      case Reduction::kProd:
        return static_cast<T>(x * y);
      case Reduction::kBand:
        return static_cast<T>(x & y);
      case Reduction::kBor:
        return static_cast<T>(x | y);
      default:
        return static_cast<T>(x ^ y);
    }
  } else {
    return reduction == Reduction::kProd ? a * b : a + b;
  }
}

// Products stay powers of two, which floats hold exactly. Sums stay in range: MPI leaves overflow open, and
// Open MPI's vector code saturates 8- and 16-bit sums where its scalar code wraps.
template <typename T>
T contribution(Reduction reduction, std::size_t phase, int ranks) {
  if (reduction == Reduction::kProd) return static_cast<T>(phase % 4 == 0 ? 2 : 1);
  if (reduction == Reduction::kBand) return static_cast<T>(~(1ULL << (phase % 7)));
  if (reduction == Reduction::kSum && sizeof(T) <= 2) {
    const auto largest =
        static_cast<std::size_t>(std::numeric_limits<T>::max()) / static_cast<std::size_t>(ranks);
    return static_cast<T>(phase % (largest + 1));
  }
  return static_cast<T>(phase);
}

template <typename T>
class TypedPattern final : public Pattern {
 public:
  TypedPattern(MPI_Datatype type, Reduction reduction, int ranks, double tolerance) : type_(type) {
    for (std::size_t i = 0; i < given_.size(); ++i)
      given_[i] = contribution<T>(reduction, i % kPeriod, ranks);
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      T value = given_[i % kPeriod];
      for (int rank = 1; rank < ranks; ++rank)
        value = combine(reduction, value, given_[(i + kRankStep * static_cast<std::size_t>(rank)) % kPeriod]);
      expected_[i] = value;
    }
    allowed_ = tolerance * static_cast<double>(*std::max_element(expected_.begin(), expected_.end()));
  }

  MPI_Datatype type() const override { return type_; }

  void fill(void* to, std::size_t count, int call, int rank) const override {
    const T* block = given_.data() + phase(call, rank);
    for (std::size_t i = 0; i < count; i += kPeriod)
      std::memcpy(static_cast<T*>(to) + i, block, std::min(kPeriod, count - i) * sizeof(T));
  }

  std::size_t changed(const void* data, std::size_t count, int call, int rank) const override {
    return different(static_cast<const T*>(data), count, given_.data() + phase(call, rank), 0);
  }

  std::size_t wrong(const void* result, std::size_t count, int call) const override {
    return different(static_cast<const T*>(result), count, expected_.data() + phase(call, 0), allowed_);
  }

 private:
  using Table = std::array<T, 2 * kPeriod>;  // twice, so that a block can start at any phase

  static std::size_t phase(int call, int rank) {
    return (kCallStep * static_cast<std::size_t>(call) + kRankStep * static_cast<std::size_t>(rank)) %
           kPeriod;
  }

  // A NaN is none of those that are near enough.
  static std::size_t different(const T* data, std::size_t count, const T* block, double allowed) {
    auto is_right = [allowed](T value, T expected) {
      if (allowed == 0) return value == expected;
      return std::abs(static_cast<double>(value) - static_cast<double>(expected)) <= allowed;
    };
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; i += kPeriod) {
      const std::size_t length = std::min(kPeriod, count - i);
      if (std::memcmp(data + i, block, length * sizeof(T)) == 0) continue;
      for (std::size_t j = 0; j < length; ++j) found += is_right(data[i + j], block[j]) ? 0 : 1;
    }
    return found;
  }

  MPI_Datatype type_;
  Table given_;
  Table expected_;
  double allowed_ = 0;
};

template <typename T>
std::unique_ptr<Pattern> make(MPI_Datatype type, Reduction reduction, int ranks, double tolerance) {
  return std::make_unique<TypedPattern<T>>(type, reduction, ranks, tolerance);
}

struct NamedType {
  const char* name;
  std::size_t bytes;
  bool is_float;
  MPI_Datatype type;
  std::unique_ptr<Pattern> (*make)(MPI_Datatype, Reduction, int, double);
};

const std::vector<NamedType>& types() {
  static const std::vector<NamedType> all{{"int8", 1, false, MPI_INT8_T, make<std::int8_t>},
                                          {"uint8", 1, false, MPI_UINT8_T, make<std::uint8_t>},
                                          {"int16", 2, false, MPI_INT16_T, make<std::int16_t>},
                                          {"uint16", 2, false, MPI_UINT16_T, make<std::uint16_t>},
                                          {"int32", 4, false, MPI_INT32_T, make<std::int32_t>},
                                          {"uint32", 4, false, MPI_UINT32_T, make<std::uint32_t>},
                                          {"int64", 8, false, MPI_INT64_T, make<std::int64_t>},
                                          {"uint64", 8, false, MPI_UINT64_T, make<std::uint64_t>},
                                          {"float32", 4, true, MPI_FLOAT, make<float>},
                                          {"float64", 8, true, MPI_DOUBLE, make<double>}};
  return all;
}

const NamedType& find_type(const std::string& name) {
  return *std::find_if(types().begin(), types().end(), [&](auto& row) { return name == row.name; });
}

template <typename Rows>
std::vector<std::string> names(const Rows& rows) {
  std::vector<std::string> found;
  for (const auto& row : rows) found.emplace_back(row.name);
  return found;
}

}  // namespace

const std::vector<std::string>& type_names() {
  static const auto all = names(types());
  return all;
}

const std::vector<std::string>& reduction_names() {
  static const auto all = names(reductions());
  return all;
}

std::size_t element_bytes(const std::string& dtype) { return find_type(dtype).bytes; }
bool is_float(const std::string& dtype) { return find_type(dtype).is_float; }
bool is_bitwise(const std::string& reduce) { return find_reduction(reduce).reduction >= Reduction::kBand; }
MPI_Op mpi_op(const std::string& reduce) { return find_reduction(reduce).op; }

std::unique_ptr<Pattern> make_pattern(const std::string& dtype, const std::string& reduce, int ranks,
                                      double tolerance) {
  const NamedType& row = find_type(dtype);
  return row.make(row.type, find_reduction(reduce).reduction, ranks, tolerance);
}

}  // namespace bench
