#include "core/reduce/recognise.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/reduce/reduce.hpp"

namespace ddl {
namespace {

constexpr std::size_t kElements = 8;                     // some functions have a faster way for so many
using Elements8 = std::array<std::uint64_t, kElements>;  // room for the largest

// Bits that are numbers in every type of that size, whose results differ from one operation and type to
// another: as floats 1.5, 2.25 and their like with either sign, 1 and a little, and 0. As integers they have
// other orders where they are negative.
struct Chosen {
  Elements8 a{}, b{};
};

template <class Bits>
Chosen chosen(const std::array<Bits, kElements>& a, const std::array<Bits, kElements>& b) {
  Chosen made;
  std::memcpy(made.a.data(), a.data(), sizeof a);
  std::memcpy(made.b.data(), b.data(), sizeof b);
  return made;
}

Chosen chosen_of(Bytes size) {
  switch (size) {
    case 1:
      return chosen<std::uint8_t>({3, 5, 0x81, 0x7f, 12, 0xfe, 7, 0}, {6, 0x90, 7, 2, 10, 0xf0, 7, 5});
    case 2:  // as float16 and as bfloat16
      return chosen<std::uint16_t>({0x3e00, 0xbe00, 0x4080, 0xc080, 0x3e00, 0x4000, 0x3c01, 0},
                                   {0x4080, 0xc080, 0xbe00, 0x3e00, 0xc080, 0x4200, 0x3c01, 0x3c00});
    case 4:
      return chosen<std::uint32_t>(
          {0x3fc00000, 0xbfc00000, 0x40100000, 0xc0100000, 0x3fc00000, 0x40000000, 0x3f800001, 0},
          {0x40100000, 0xc0100000, 0xbfc00000, 0x3fc00000, 0xc0100000, 0x40400000, 0x3f800001, 0x3f800000});
    case 8:
      return chosen<std::uint64_t>(
          {0x3ff8ull << 48, 0xbff8ull << 48, 0x4002ull << 48, 0xc002ull << 48, 0x3ff8ull << 48,
           0x4000ull << 48, (0x3ff0ull << 48) + 1, 0},
          {0x4002ull << 48, 0xc002ull << 48, 0xbff8ull << 48, 0x3ff8ull << 48, 0xc002ull << 48,
           0x4008ull << 48, (0x3ff0ull << 48) + 1, 0x3ff0ull << 48});
    default:
      return {};
  }
}

// In float16 infinite or no numbers, in bfloat16 large ones: minima and maxima of all others are the same.
Chosen chosen_for_bfloat16() {
  return chosen<std::uint16_t>({0x7e00, 0x3c00, 0xfe00, 0x3c00, 0x7c01, 0x3c00, 0xfc01, 0x3c00},
                               {0x3c00, 0x7e00, 0x3c00, 0xfe00, 0x3c00, 0x7c01, 0x3c00, 0xfc01});
}

// Numbers as programs have them: sums that carry from byte to byte and that have to be rounded, which tell a
// function apart that only happens to give the same for the chosen ones. Between 1/8 and 16 as float16 and
// between 1/128 and 256 as larger types, so that nothing overflows.
Chosen drawn(Bytes size, std::uint64_t& seed) {
  const auto next = [&seed] {  // Knuth's MMIX
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed >> 16;
  };
  const auto number = [&]() -> std::uint64_t {
    const std::uint64_t sign = next() & 1, mantissa = next() << 16 ^ next();
    switch (size) {
      case 1:
        return mantissa & 0xff;
      case 2:
        return sign << 15 | (12 + next() % 7) << 10 | (mantissa & 0x3ff);
      case 4:
        return sign << 31 | (120 + next() % 15) << 23 | (mantissa & 0x7fffff);
      default:
        return sign << 63 | (1016 + next() % 15) << 52 | (mantissa & 0xfffffffffffff);
    }
  };
  Chosen made;
  for (Elements8* of : {&made.a, &made.b})
    for (std::size_t i = 0; i < kElements; ++i) {
      const std::uint64_t bits = number();
      std::memcpy(reinterpret_cast<std::byte*>(of->data()) + i * size, &bits, size);  // little-endian
    }
  return made;
}

struct Trial {
  Chosen given;
  Elements8 result{};
};

Trial trial_of(const ReduceFunction& function, const Chosen& given) {
  Trial trial{given};
  function(trial.result.data(), given.a.data(), given.b.data(), kElements);
  return trial;
}

bool makes(const Reduction& reduction, const Trial& trial) {
  Elements8 ours{};
  const std::array<const void*, 2> sources = {trial.given.a.data(), trial.given.b.data()};
  reduce(reduction.type, reduction.op, ours.data(), sources, kElements);
  return ours == trial.result;
}

Reduction sure_of(const Reduction& found, const ReduceFunction& function) {
  const Reduction other{DType::bfloat16, found.op};
  const Chosen given = chosen_for_bfloat16();
  const bool may_be_other = found.type == DType::float16 && (found.op == Op::min || found.op == Op::max);
  return may_be_other && makes(other, trial_of(function, given)) ? other : found;
}

}  // namespace

// Several may fit where they are the same in all bits: sums of signed and of unsigned integers.
std::optional<Reduction> recognise(const ReduceFunction& function, Bytes element_size) {
  if (element_size != 1 && element_size != 2 && element_size != 4 && element_size != 8) return std::nullopt;
  constexpr std::size_t kTrials = 17;
  std::uint64_t seed = 1;
  std::vector<Trial> trials = {trial_of(function, chosen_of(element_size))};
  for (int t = 0; t < kDTypes; ++t)
    for (int o = 0; o < kOps; ++o) {
      const Reduction reduction{static_cast<DType>(t), static_cast<Op>(o)};
      if (size_of(reduction.type) != element_size || !is_reducible(reduction.type, reduction.op) ||
          !makes(reduction, trials[0]))
        continue;
      while (trials.size() < kTrials) trials.push_back(trial_of(function, drawn(element_size, seed)));
      if (std::ranges::all_of(trials, [&](const Trial& trial) { return makes(reduction, trial); }))
        return sure_of(reduction, function);
    }
  return std::nullopt;
}

}  // namespace ddl
