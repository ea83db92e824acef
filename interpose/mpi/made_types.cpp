#include "interpose/mpi/made_types.hpp"

#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "interpose/mpi/by_thread.hpp"
#include "interpose/mpi/state.hpp"
#include "interpose/mpi/types.hpp"

namespace ddl::mpi {
namespace {

constexpr std::size_t kPlaces = 64;
std::size_t place_of(MPI_Datatype handle) {
  return (reinterpret_cast<std::uintptr_t>(handle) * 0x9e3779b97f4a7c15ull) >> 58;
}
static_assert(kPlaces == std::size_t{1} << (64 - 58));

// How many types have been freed, by place: what a thread knows of one of them is no longer true.
std::array<std::atomic<std::uint32_t>, kPlaces> types_freed{};
std::atomic<std::uint64_t> types_seen{0};

// The last two of each place.
struct Place {
  TypeFacts last, before;
};
using Places = std::array<Place, kPlaces>;

Place& place_at(std::size_t at) { return by_thread<Places>()[at]; }

TypeFacts* find_facts(MPI_Datatype type) {
  const std::size_t at = place_of(type);
  const std::uint32_t so_far = types_freed[at].load(std::memory_order_relaxed);
  Place& place = place_at(at);
  for (TypeFacts* facts : {&place.last, &place.before})
    if (facts->type == type && facts->freed == so_far && type) return facts;
  return nullptr;
}

void forget(MPI_Datatype type) { types_freed[place_of(type)].fetch_add(1, std::memory_order_relaxed); }

// What a type made by MPI_Type_contiguous or MPI_Type_dup, or by MPI_Type_vector without gaps, consists of;
// nothing where it is another.
struct Repeated {
  TypePart of;
  int count = 1;
};
Repeated repeated_by(MPI_Datatype type, int combiner) {
  Repeated repeated;
  const bool is_vector = combiner == MPI_COMBINER_VECTOR;
  if (!is_vector && combiner != MPI_COMBINER_CONTIGUOUS && combiner != MPI_COMBINER_DUP) return repeated;
  const int integers = is_vector ? 3 : combiner == MPI_COMBINER_CONTIGUOUS ? 1 : 0;
  std::array<int, 3> said = {1, 1, 1};  // how many blocks, of how many, how far from each other
  MPI_Aint no_address = 0;
  MPI_Datatype of = MPI_DATATYPE_NULL;
  if (PMPI_Type_get_contents(type, integers, 0, 1, said.data(), &no_address, &of) != MPI_SUCCESS)
    return repeated;
  TypePart part(of);
  const auto [blocks, block, stride] = said;
  const bool has_gaps = blocks > 1 && block != stride;
  if (has_gaps || std::int64_t{blocks} * block > std::numeric_limits<int>::max()) return repeated;
  repeated.of = std::move(part);
  repeated.count = blocks * block;
  return repeated;
}

// As MPI names it.
bool is_dense_by_itself(MPI_Datatype type) {
  const std::optional<std::uint64_t> size = size_of_type(type);
  MPI_Aint lower = 0, extent = 0;
  return size && PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS && lower == 0 &&
         static_cast<std::uint64_t>(extent) == *size;
}

bool is_dense_made(MPI_Datatype type, int combiner) {
  if (is_predefined(combiner)) return is_dense_by_itself(type);
  const Repeated repeated = repeated_by(type, combiner);
  return repeated.of && is_dense(repeated.of.get());
}

// Open MPI looks at a type before it looks at whom to send to, where it checks arguments at all.
bool is_committed(MPI_Datatype type) {
  return PMPI_Send(nullptr, 0, type, MPI_PROC_NULL, 0, state().own_self) == MPI_SUCCESS;
}

std::optional<std::uint64_t> ask_size(MPI_Datatype type) {
  MPI_Count size = 0;
  if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return std::nullopt;
  return static_cast<std::uint64_t>(size);
}

int ask_combiner(MPI_Datatype type) {
  int integers = 0, addresses = 0, types = 0, combiner = MPI_UNDEFINED;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  return combiner;
}

std::optional<TypeFacts> look_at(MPI_Datatype type) {
  TypeFacts facts;
  const std::optional<std::uint64_t> size = is_committed(type) ? ask_size(type) : std::nullopt;
  if (!size || PMPI_Type_get_extent(type, &facts.lower, &facts.extent) != MPI_SUCCESS) return std::nullopt;
  facts.type = type;
  facts.size = *size;
  facts.combiner = ask_combiner(type);
  const bool is_contiguous = facts.combiner == MPI_COMBINER_CONTIGUOUS;
  const bool may_be_dense = facts.lower == 0 && static_cast<std::uint64_t>(facts.extent) == *size;
  if (is_contiguous || may_be_dense) {
    const Repeated repeated = repeated_by(type, facts.combiner);
    facts.is_dense =
        may_be_dense && (is_predefined(facts.combiner) || (repeated.of && is_dense(repeated.of.get())));
    if (is_contiguous && repeated.of && combiner_of(repeated.of.get()) == MPI_COMBINER_NAMED) {
      facts.element = repeated.of.get();
      facts.elements = repeated.count;
    }
  }
  if (!facts.is_dense) facts.map = TypeMap::of_few(type, facts.combiner, facts.size, facts.extent);
  return facts;
}

}  // namespace

const TypeFacts* facts_of(MPI_Datatype type) {
  if (const TypeFacts* known = find_facts(type)) return known;
  const std::size_t at = place_of(type);
  const std::uint32_t freed = types_freed[at].load(std::memory_order_relaxed);
  std::optional<TypeFacts> found = look_at(type);
  if (!found) return nullptr;
  found->freed = freed;
  found->number = types_seen.fetch_add(1, std::memory_order_relaxed);
  Place& place = place_at(at);
  place.before = std::move(place.last);
  place.last = *std::move(found);
  return &place.last;
}

const TypeMap* type_map_of(MPI_Datatype type) {
  constexpr int kWorthIt = 3;  // finding it takes as long as MPI needs to pack a few times
  TypeFacts* facts = find_facts(type);
  if (!facts) return nullptr;
  if (facts->map.is_none() && facts->times_packed < kWorthIt && ++facts->times_packed == kWorthIt)
    facts->map = TypeMap::of(type);
  return facts->map.is_none() ? nullptr : &facts->map;
}

std::optional<std::uint64_t> size_of_type(MPI_Datatype type) {
  if (const std::uint64_t known = size_of_known(type)) return known;
  if (const TypeFacts* facts = find_facts(type)) return facts->size;
  return type == MPI_DATATYPE_NULL ? std::nullopt : ask_size(type);
}

std::optional<std::uint64_t> size_in_call(MPI_Datatype type) {
  if (const std::uint64_t known = size_of_known(type)) return known;
  const TypeFacts* facts = facts_of(type);
  return facts ? std::optional(facts->size) : std::nullopt;
}

MPI_Aint extent_of(MPI_Datatype type) {
  if (const std::uint64_t known = size_of_known(type)) return static_cast<MPI_Aint>(known);
  if (const TypeFacts* facts = find_facts(type)) return facts->extent;
  MPI_Aint lower = 0, extent = 0;
  return PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS ? extent : 0;
}

bool is_dense(MPI_Datatype type) {
  if (is_known(type)) return true;
  if (const TypeFacts* facts = find_facts(type)) return facts->is_dense;
  return is_dense_made(type, combiner_of(type));
}

int combiner_of(MPI_Datatype type) {
  if (is_known(type)) return MPI_COMBINER_NAMED;
  if (const TypeFacts* facts = find_facts(type)) return facts->combiner;
  return type == MPI_DATATYPE_NULL ? MPI_UNDEFINED : ask_combiner(type);
}

bool is_predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
         combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

const void* lasting_name(MPI_Datatype type) {
  const TypeFacts* facts = is_known(type) ? nullptr : facts_of(type);
  if (!facts || is_predefined(facts->combiner)) return type;
  return reinterpret_cast<const void*>(2 * facts->number + 1);
}

int type_free(MPI_Datatype* type) {
  if (type) forget(*type);
  return DDL_NEXT(MPI_Type_free)(type);
}

void FreeType::operator()(MPI_Datatype type) const {
  if (is_predefined(combiner_of(type))) return;
  forget(type);
  PMPI_Type_free(&type);
}

void LeavePart::operator()(MPI_Datatype type) const {
  if (!is_predefined(combiner_of(type))) PMPI_Type_free(&type);
}

}  // namespace ddl::mpi
