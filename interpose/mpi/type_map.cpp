#include "interpose/mpi/type_map.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "interpose/mpi/type_making.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

using Stretches = std::vector<TypeMap::Stretch>;

constexpr std::size_t kMostStretches = 4096;  // 64 KiB of a map
constexpr std::int64_t kMostSteps = 1 << 16;  // to find them, of all types that a type is made of together

// Whether that begins where the last stretch ends: then it is a part of it from now on.
bool is_joined(TypeMap::Stretch& last, std::ptrdiff_t offset, std::uint64_t bytes) {
  if (last.offset + static_cast<std::ptrdiff_t>(last.bytes) != offset) return false;
  last.bytes += bytes;
  return true;
}

// Grows by what comes next in a message; false where it is more than we want.
class Builder {
 public:
  explicit Builder(std::int64_t& steps_left) : steps_left_(steps_left) {}
  const Stretches& all() const { return all_; }

  bool add(std::ptrdiff_t offset, std::uint64_t bytes) {
    if (--steps_left_ < 0) return false;
    if (bytes == 0) return true;
    if (!all_.empty() && is_joined(all_.back(), offset, bytes)) return true;
    if (all_.size() == kMostStretches) return false;
    return all_.push_back({offset, bytes}), true;
  }
  // So many of a kind, one behind the other.
  bool add(const Stretches& each, MPI_Aint extent, std::ptrdiff_t offset, std::int64_t count) {
    const bool is_dense = each.size() == 1 && static_cast<MPI_Aint>(each[0].bytes) == extent;
    if (is_dense) return add(offset + each[0].offset, static_cast<std::uint64_t>(count) * each[0].bytes);
    bool well = true;
    for (std::int64_t i = 0; well && !each.empty() && i < count; ++i)
      for (const TypeMap::Stretch& one : each)
        well = well && add(offset + i * extent + one.offset, one.bytes);
    return well;
  }

 private:
  Stretches all_;
  std::int64_t& steps_left_;
};

// MPI's own lie in a row, but for the one pair with a gap between its two.
std::optional<Stretches> stretches_of_predefined(MPI_Datatype type) {
  const std::optional<std::uint64_t> size = size_of_type(type);
  if (!size || *size == 0) return std::nullopt;
  if (type == MPI_SHORT_INT) return Stretches{{0, sizeof(short)}, {alignof(int), sizeof(int)}};
  return Stretches{{0, *size}};
}

std::optional<Stretches> stretches_of(MPI_Datatype type, std::int64_t& steps_left) {
  constexpr int kOfAType = 16;  // steps that take as long as the questions about one
  const Contents made = contents_of(type);
  if (is_predefined(made.combiner)) return stretches_of_predefined(type);
  steps_left -= kOfAType;
  std::vector<Stretches> parts;
  std::vector<MPI_Aint> extents;
  for (const TypePart& part : made.types) {
    const bool is_last_one = !parts.empty() && part.get() == made.types[parts.size() - 1].get();
    std::optional<Stretches> found = is_last_one ? parts.back() : stretches_of(part.get(), steps_left);
    if (!found || found->empty()) return std::nullopt;  // of nothing: libraries differ in what that means
    parts.push_back(std::move(*found));
    extents.push_back(extent_of(part.get()));
  }
  if (parts.empty() || steps_left < 0) return std::nullopt;
  Builder builder(steps_left);
  auto add = [&](std::int64_t count, MPI_Aint at, std::size_t of) {
    return builder.add(parts[of], extents[of], at, count);
  };
  if (!for_blocks({made.combiner, made.integers, made.addresses}, extents[0], add)) return std::nullopt;
  return builder.all();
}

// Whether MPI sees the same bytes. Open MPI 4.1.4 takes a stride of -1 byte for none.
bool are_those_of(MPI_Datatype type, std::span<const TypeMap::Stretch> stretches, std::uint64_t size) {
  MPI_Aint lower = 0, extent = 0;
  std::ptrdiff_t begin = std::numeric_limits<std::ptrdiff_t>::max(),
                 end = std::numeric_limits<std::ptrdiff_t>::min();
  std::uint64_t bytes = 0;
  for (const TypeMap::Stretch& one : stretches) {
    begin = std::min(begin, one.offset);
    end = std::max(end, one.offset + static_cast<std::ptrdiff_t>(one.bytes));
    bytes += one.bytes;
  }
  return PMPI_Type_get_true_extent(type, &lower, &extent) == MPI_SUCCESS && begin == lower &&
         end == lower + extent && bytes == size;
}

// A type that was made of few blocks of types that are known, as one call wants it: on the stack.
class Few {
 public:
  // False where it is another.
  bool find(MPI_Datatype type) {
    int integers = 0, addresses = 0, types = 0, combiner = 0;
    std::array<int, 2 * kMost + 1> said;
    std::array<MPI_Aint, kMost> places;
    std::array<MPI_Datatype, kMost> of;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) != MPI_SUCCESS ||
        is_predefined(combiner) || integers > static_cast<int>(said.size()) ||
        addresses > static_cast<int>(kMost) || types > static_cast<int>(kMost) || types == 0 ||
        PMPI_Type_get_contents(type, integers, addresses, types, said.data(), places.data(), of.data()) !=
            MPI_SUCCESS)
      return false;
    std::array<std::uint64_t, kMost> sizes;
    bool are_known = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(types); ++i) {
      sizes[i] = i > 0 && of[i] == of[i - 1] ? sizes[i - 1] : size_of_known(of[i]);
      if (sizes[i] > 0) continue;
      const TypePart part(of[i]);
      are_known = false;
    }
    if (!are_known) return false;
    auto add = [&](std::int64_t count, MPI_Aint at, std::size_t which) {
      return this->add(at, static_cast<std::uint64_t>(count) * sizes[which]);
    };
    const Making made{combiner,
                      {said.data(), static_cast<std::size_t>(integers)},
                      {places.data(), static_cast<std::size_t>(addresses)}};
    return for_blocks(made, static_cast<MPI_Aint>(sizes[0]), add) && number_ > 0;
  }
  std::span<const TypeMap::Stretch> all() const { return {all_.data(), number_}; }

 private:
  static constexpr std::size_t kMost = 128;  // 6 KiB

  bool add(std::ptrdiff_t offset, std::uint64_t bytes) {
    if (bytes == 0 || (number_ > 0 && is_joined(all_[number_ - 1], offset, bytes))) return true;
    if (number_ == kMost) return false;
    all_[number_++] = {offset, bytes};
    return true;
  }

  std::array<TypeMap::Stretch, kMost> all_;
  std::size_t number_ = 0;
};

// ---- copying ----

// Between bytes in a row and others.
template <bool packs>
void copy_bytes(std::byte* row, std::byte* others, std::size_t bytes) {
  std::memcpy(packs ? row : others, packs ? others : row, bytes);
}

// Of a length that may be a usual one, which takes no call.
template <bool packs>
void copy_next(std::byte*& row, std::byte* others, std::uint64_t bytes) {
  if (bytes == 8)
    copy_bytes<packs>(row, others, 8);
  else if (bytes == 4)
    copy_bytes<packs>(row, others, 4);
  else
    copy_bytes<packs>(row, others, bytes);
  row += bytes;
}

template <bool packs, std::size_t bytes>
void copy_alike(std::byte*& row, std::byte* others, std::ptrdiff_t stride, std::uint64_t count) {
  for (; count > 0; --count, row += bytes, others += stride) copy_bytes<packs>(row, others, bytes);
}

template <bool packs>
void copy_strided(std::byte*& row, std::byte* others, std::uint64_t bytes, std::ptrdiff_t stride,
                  std::uint64_t count) {
  if (bytes == 4) return copy_alike<packs, 4>(row, others, stride, count);
  if (bytes == 8) return copy_alike<packs, 8>(row, others, stride, count);
  if (bytes == 16) return copy_alike<packs, 16>(row, others, stride, count);
  for (; count > 0; --count, others += stride) copy_next<packs>(row, others, bytes);
}

}  // namespace

TypeMap::TypeMap(std::span<const Stretch> stretches, MPI_Aint extent)
    : stretches_(stretches.size()), first_(stretches[0]), extent_(extent) {
  if (stretches_ < 2) return;
  stride_ = stretches[1].offset - stretches[0].offset;
  bool are_alike = true;
  for (std::size_t i = 1; are_alike && i < stretches_; ++i)
    are_alike =
        stretches[i].bytes == first_.bytes && stretches[i].offset - stretches[i - 1].offset == stride_;
  if (are_alike) return;
  auto all = std::make_shared_for_overwrite<Stretch[]>(stretches_);
  std::copy(stretches.begin(), stretches.end(), all.get());
  unlike_ = std::move(all);
}

TypeMap TypeMap::of(MPI_Datatype type) {
  std::int64_t steps_left = kMostSteps;
  std::optional<Stretches> stretches = stretches_of(type, steps_left);
  const std::optional<std::uint64_t> size = size_of_type(type);
  if (!stretches || stretches->empty() || !size || !are_those_of(type, *stretches, *size)) return {};
  return {*stretches, extent_of(type)};
}

TypeMap TypeMap::of_few(MPI_Datatype type, int combiner, std::uint64_t size, MPI_Aint extent) {
  const std::optional<VectorShape> made = vector_of(type, combiner);
  // However many, with gaps; and MPI must see the same bytes.
  if (made && made->blocks > 1 && made->block > 0 && made->stride > made->block &&
      extent == (made->blocks - 1) * made->stride + made->block &&
      size == static_cast<std::uint64_t>(made->blocks * made->block)) {
    TypeMap map;
    map.stretches_ = static_cast<std::uint64_t>(made->blocks);
    map.first_.bytes = static_cast<std::uint64_t>(made->block);
    map.stride_ = made->stride;
    map.extent_ = extent;
    return map;
  }
  if (const TypePart part = resized_by(type, combiner)) {
    TypeMap map = of_few(part.get(), combiner_of(part.get()), size, extent_of(part.get()));
    map.extent_ = extent;
    return map;
  }
  Few few;
  if (!few.find(type) || !are_those_of(type, few.all(), size)) return {};
  return {few.all(), extent};
}

template <bool packs>
void TypeMap::copy(std::byte* row, std::byte* others, std::uint64_t elements) const {
  const auto [offset, bytes] = first_;
  const auto span = stride_ * static_cast<std::ptrdiff_t>(stretches_);
  if (stretches_ == 1 || (!unlike_ && span == extent_))
    return copy_strided<packs>(row, others + offset, bytes, stretches_ == 1 ? extent_ : stride_,
                               stretches_ * elements);
  for (; elements > 0; --elements, others += extent_) {
    if (!unlike_) {
      copy_strided<packs>(row, others + offset, bytes, stride_, stretches_);
      continue;
    }
    for (std::size_t i = 0; i < stretches_; ++i)
      copy_next<packs>(row, others + unlike_[i].offset, unlike_[i].bytes);
  }
}

void TypeMap::pack(std::byte* to, const std::byte* from, std::uint64_t elements) const {
  copy<true>(to, const_cast<std::byte*>(from), elements);
}

void TypeMap::unpack(std::byte* to, const std::byte* from, std::uint64_t elements) const {
  copy<false>(const_cast<std::byte*>(from), to, elements);
}

}  // namespace ddl::mpi
