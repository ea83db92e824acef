#include "interpose/mpi/type_map.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "interpose/mpi/made_types.hpp"

namespace ddl::mpi {
namespace {

using Stretches = std::vector<TypeMap::Stretch>;

constexpr std::size_t kMostStretches = 4096;  // 64 KiB of a map
constexpr std::int64_t kMostSteps = 1 << 16;  // to find them, of all types that a type is made of together

// What a type was made of, in MPI's order.
struct Contents {
  int combiner = MPI_UNDEFINED;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<TypePart> types;
};

Contents contents_of(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0;
  Contents found;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &found.combiner) != MPI_SUCCESS ||
      is_predefined(found.combiner))
    return found;
  std::vector<MPI_Datatype> handles(static_cast<std::size_t>(types));
  found.integers.resize(static_cast<std::size_t>(integers));
  found.addresses.resize(static_cast<std::size_t>(addresses));
  if (PMPI_Type_get_contents(type, integers, addresses, types, found.integers.data(), found.addresses.data(),
                             handles.data()) != MPI_SUCCESS)
    return {};
  for (MPI_Datatype handle : handles) found.types.emplace_back(handle);
  return found;
}

// Grows by what comes next in a message; false where it is more than we want.
class Builder {
 public:
  explicit Builder(std::int64_t& steps_left) : steps_left_(steps_left) {}
  const Stretches& all() const { return all_; }

  bool add(std::ptrdiff_t offset, std::uint64_t bytes) {
    if (--steps_left_ < 0) return false;
    if (bytes == 0) return true;
    if (!all_.empty() && all_.back().offset + static_cast<std::ptrdiff_t>(all_.back().bytes) == offset)
      return all_.back().bytes += bytes, true;
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

// A block of a type that is made: so many elements of `of`, so many bytes behind its beginning.
struct Block {
  std::int64_t count;
  MPI_Aint at;
  std::size_t of = 0;
};

// The blocks of a subarray, row by row; false where it is another.
bool rows_of(const Contents& made, MPI_Aint extent, std::vector<Block>& blocks) {
  const int dimensions = made.integers[0];
  const bool is_c = made.integers.back() == MPI_ORDER_C;
  std::int64_t rows = 1;
  auto said = [&](int what, int dimension) {  // from the fastest dimension on
    const int place = is_c ? dimensions - 1 - dimension : dimension;
    return std::int64_t{made.integers[static_cast<std::size_t>(1 + what * dimensions + place)]};
  };
  for (int d = 1; d < dimensions; ++d) rows *= said(1, d);
  if (rows > kMostSteps) return false;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t at = said(2, 0), each = 1, left = row;
    for (int d = 1; d < dimensions; ++d) {
      each *= said(0, d - 1);
      at += (said(2, d) + left % said(1, d)) * each;
      left /= said(1, d);
    }
    blocks.push_back({said(1, 0), at * extent});
  }
  return true;
}

// As the standard lists what was said (MPI 3.1, 4.1.13); nothing where we do not follow.
std::optional<std::vector<Block>> blocks_of(const Contents& made, MPI_Aint extent) {
  const std::vector<int>& said = made.integers;
  const auto count = static_cast<std::size_t>(said.empty() ? 0 : said[0]);
  std::vector<Block> blocks;
  if (made.combiner != MPI_COMBINER_CONTIGUOUS && count > kMostSteps) return std::nullopt;
  switch (made.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return std::vector<Block>{{1, 0}};
    case MPI_COMBINER_CONTIGUOUS:
      return std::vector<Block>{{said[0], 0}};
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
      for (std::size_t i = 0; i < count; ++i) {
        const MPI_Aint stride = made.combiner == MPI_COMBINER_VECTOR ? said[2] * extent : made.addresses[0];
        blocks.push_back({said[1], static_cast<MPI_Aint>(i) * stride});
      }
      return blocks;
    case MPI_COMBINER_INDEXED:
      for (std::size_t i = 0; i < count; ++i) blocks.push_back({said[1 + i], said[1 + count + i] * extent});
      return blocks;
    case MPI_COMBINER_HINDEXED:
      for (std::size_t i = 0; i < count; ++i) blocks.push_back({said[1 + i], made.addresses[i]});
      return blocks;
    case MPI_COMBINER_INDEXED_BLOCK:
      for (std::size_t i = 0; i < count; ++i) blocks.push_back({said[1], said[2 + i] * extent});
      return blocks;
    case MPI_COMBINER_HINDEXED_BLOCK:
      for (std::size_t i = 0; i < count; ++i) blocks.push_back({said[1], made.addresses[i]});
      return blocks;
    case MPI_COMBINER_STRUCT:
      for (std::size_t i = 0; i < count; ++i) blocks.push_back({said[1 + i], made.addresses[i], i});
      return blocks;
    case MPI_COMBINER_SUBARRAY:
      return rows_of(made, extent, blocks) ? std::optional(blocks) : std::nullopt;
    default:
      return std::nullopt;
  }
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
  const std::optional<std::vector<Block>> blocks = blocks_of(made, extents[0]);
  Builder builder(steps_left);
  for (std::size_t i = 0; blocks && i < blocks->size(); ++i) {
    const auto& [count, at, of] = (*blocks)[i];
    if (!builder.add(parts[of], extents[of], at, count)) return std::nullopt;
  }
  return blocks ? std::optional(builder.all()) : std::nullopt;
}

// Whether MPI sees the same bytes. Open MPI 4.1.4 takes a stride of -1 byte for none.
bool are_those_of(MPI_Datatype type, const Stretches& stretches) {
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
         end == lower + extent && bytes == size_of_type(type);
}

// ---- copying ----

enum class Way { pack, unpack };

// Between bytes in a row and others.
template <Way way>
void copy(std::byte* row, std::byte* others, std::size_t bytes) {
  std::memcpy(way == Way::pack ? row : others, way == Way::pack ? others : row, bytes);
}

// Of a length that may be a usual one, which takes no call.
template <Way way>
void copy_next(std::byte*& row, std::byte* others, std::uint64_t bytes) {
  if (bytes == 8)
    copy<way>(row, others, 8);
  else if (bytes == 4)
    copy<way>(row, others, 4);
  else
    copy<way>(row, others, bytes);
  row += bytes;
}

template <Way way, std::size_t bytes>
void copy_alike(std::byte*& row, std::byte* others, std::ptrdiff_t stride, std::uint64_t count) {
  for (; count > 0; --count, row += bytes, others += stride) copy<way>(row, others, bytes);
}

template <Way way>
void copy_strided(std::byte*& row, std::byte* others, std::uint64_t bytes, std::ptrdiff_t stride,
                  std::uint64_t count) {
  if (bytes == 4) return copy_alike<way, 4>(row, others, stride, count);
  if (bytes == 8) return copy_alike<way, 8>(row, others, stride, count);
  if (bytes == 16) return copy_alike<way, 16>(row, others, stride, count);
  for (; count > 0; --count, others += stride) copy_next<way>(row, others, bytes);
}

template <Way way>
void copy_all(const Stretches& stretches, std::ptrdiff_t stride, std::ptrdiff_t extent, std::byte* row,
              std::byte* others, std::uint64_t elements) {
  const std::uint64_t each = stretches.size();
  if (each == 0) return;
  const auto [offset, bytes] = stretches[0];
  if (each == 1 || (stride != 0 && stride * static_cast<std::ptrdiff_t>(each) == extent))
    return copy_strided<way>(row, others + offset, bytes, each == 1 ? extent : stride, each * elements);
  for (; elements > 0; --elements, others += extent) {
    if (stride != 0) {
      copy_strided<way>(row, others + offset, bytes, stride, each);
      continue;
    }
    for (const TypeMap::Stretch& one : stretches) copy_next<way>(row, others + one.offset, one.bytes);
  }
}

}  // namespace

TypeMap::TypeMap(std::vector<Stretch> stretches, MPI_Aint extent)
    : stretches_(std::move(stretches)), extent_(extent) {
  if (stretches_.size() < 2) return;
  stride_ = stretches_[1].offset - stretches_[0].offset;
  for (std::size_t i = 1; i < stretches_.size(); ++i)
    if (stretches_[i].bytes != stretches_[0].bytes ||
        stretches_[i].offset - stretches_[i - 1].offset != stride_)
      stride_ = 0;
}

std::shared_ptr<const TypeMap> TypeMap::of(MPI_Datatype type) {
  std::int64_t steps_left = kMostSteps;
  std::optional<Stretches> stretches = stretches_of(type, steps_left);
  if (!stretches || !are_those_of(type, *stretches)) return nullptr;
  return std::shared_ptr<const TypeMap>(new TypeMap(std::move(*stretches), extent_of(type)));
}

void TypeMap::pack(std::byte* to, const std::byte* from, std::uint64_t elements) const {
  copy_all<Way::pack>(stretches_, stride_, extent_, to, const_cast<std::byte*>(from), elements);
}

void TypeMap::unpack(std::byte* to, const std::byte* from, std::uint64_t elements) const {
  copy_all<Way::unpack>(stretches_, stride_, extent_, const_cast<std::byte*>(from), to, elements);
}

}  // namespace ddl::mpi
