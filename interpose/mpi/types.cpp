#include "interpose/mpi/types.hpp"

#include <array>
#include <optional>
#include <utility>

#include "interpose/mpi/custom_ops.hpp"

namespace ddl::mpi {
namespace {

constexpr DType integer_of(std::size_t bytes, bool is_signed = true) {
  switch (bytes) {
    case 1:
      return is_signed ? DType::int8 : DType::uint8;
    case 2:
      return is_signed ? DType::int16 : DType::uint16;
    case 4:
      return is_signed ? DType::int32 : DType::uint32;
    default:
      return is_signed ? DType::int64 : DType::uint64;
  }
}

template <class T>
constexpr DType integer_type() {
  return integer_of(sizeof(T), static_cast<T>(-1) < static_cast<T>(0));
}

// What MPI defines on a type, beside what the element type allows.
enum class Use : std::uint8_t {
  any,
  bitwise,      // MPI_BYTE
  not_logical,  // Fortran's integers
  logical,      // and nothing else
  sum,          // complex numbers, of which only this works on each part alone
  none,         // characters are moved
};

constexpr bool is_allowed(Use use, Op op) {
  const bool is_logical = op >= Op::land && op <= Op::lxor;
  switch (use) {
    case Use::bitwise:
      return op >= Op::band;
    case Use::not_logical:
      return !is_logical;
    case Use::logical:
      return is_logical;
    case Use::sum:
      return op == Op::sum;
    case Use::none:
      return false;
    default:
      return true;
  }
}

struct KnownType {
  MPI_Datatype handle = nullptr;
  DType type{};
  Use use{};
  std::uint64_t parts = 1;  // of that element type
};

// By handle, which is an address in libmpi: what is none of these is asked for as often as what is one.
class TypeTable {
 public:
  void add(const KnownType& known) {
    std::size_t at = place_of(known.handle);
    while (places_[at].handle) at = (at + 1) % kPlaces;
    places_[at] = known;
  }
  const KnownType* find(MPI_Datatype handle) const {
    for (std::size_t at = place_of(handle); places_[at].handle; at = (at + 1) % kPlaces)
      if (places_[at].handle == handle) return &places_[at];
    return nullptr;
  }

 private:
  static constexpr std::size_t kPlaces = 256;  // five for each type
  static std::size_t place_of(MPI_Datatype handle) {
    return (reinterpret_cast<std::uintptr_t>(handle) * 0x9e3779b97f4a7c15ull) >> 56;
  }
  static_assert(kPlaces == std::size_t{1} << (64 - 56));

  std::array<KnownType, kPlaces> places_{};  // open addressing
};

// 0 where the library was built without Fortran, or its compiler does not have the type.
std::size_t size_of_handle(MPI_Datatype type) {
  int size = 0;
  return PMPI_Type_size(type, &size) == MPI_SUCCESS && size > 0 ? static_cast<std::size_t>(size) : 0;
}

// Whether Fortran's .true. is 1 here, and all else but 0 is true too, as in C. Compilers differ, and the
// library was built for one.
bool is_logical_as_in_c() {
  constexpr std::size_t kValues = 6;
  const std::size_t size = size_of_handle(MPI_LOGICAL);
  if (size != sizeof(int)) return false;
  const std::array<int, kValues> a = {0, 0, 1, 1, 2, -1}, b = {0, 1, 0, 1, 1, 2};
  auto gives = [&](MPI_Op op, std::array<int, kValues> wanted) {
    std::array<int, kValues> result = b;
    return PMPI_Reduce_local(a.data(), result.data(), kValues, MPI_LOGICAL, op) == MPI_SUCCESS &&
           result == wanted;
  };
  return gives(MPI_LAND, {0, 0, 0, 1, 1, 1}) && gives(MPI_LOR, {0, 1, 1, 1, 1, 1}) &&
         gives(MPI_LXOR, {0, 1, 1, 0, 0, 0});
}

// Fortran's, which mpi.h names only where the library's compiler has them; the library defines them all,
// those without a size.
#define DDL_FORTRAN_TYPE(name) OMPI_PREDEFINED_GLOBAL(MPI_Datatype, ompi_mpi_##name)

void add_fortran_types(TypeTable& types) {
  types.add({DDL_FORTRAN_TYPE(character), DType::uint8, Use::none});
  for (MPI_Datatype real :
       {DDL_FORTRAN_TYPE(dblprec), DDL_FORTRAN_TYPE(real), DDL_FORTRAN_TYPE(real8), DDL_FORTRAN_TYPE(real4)})
    if (std::size_t size = size_of_handle(real); size == 4 || size == 8)
      types.add({real, size == 4 ? DType::float32 : DType::float64, Use::any});
  for (MPI_Datatype integer :
       {DDL_FORTRAN_TYPE(integer), DDL_FORTRAN_TYPE(integer8), DDL_FORTRAN_TYPE(integer4),
        DDL_FORTRAN_TYPE(integer2), DDL_FORTRAN_TYPE(integer1)})
    if (std::size_t size = size_of_handle(integer); size && size <= 8)
      types.add({integer, integer_of(size), Use::not_logical});
  for (MPI_Datatype complex : {DDL_FORTRAN_TYPE(dblcplex), DDL_FORTRAN_TYPE(cplex),
                               DDL_FORTRAN_TYPE(complex16), DDL_FORTRAN_TYPE(complex8)})
    if (std::size_t size = size_of_handle(complex); size == 8 || size == 16)
      types.add({complex, size == 8 ? DType::float32 : DType::float64, Use::sum, 2});
  if (!is_logical_as_in_c()) return;
  for (MPI_Datatype logical :
       {DDL_FORTRAN_TYPE(logical), DDL_FORTRAN_TYPE(logical4), DDL_FORTRAN_TYPE(logical1),
        DDL_FORTRAN_TYPE(logical8), DDL_FORTRAN_TYPE(logical2)})
    if (std::size_t size = size_of_handle(logical); size && size <= 8)
      types.add({logical, integer_of(size), Use::logical});
}

#undef DDL_FORTRAN_TYPE

// The handles are known at run time only.
const TypeTable& known_types() {
  static const TypeTable& types = *[] {  // outlives exit handlers of the program
    auto* all = new TypeTable;
    for (const KnownType& known : {
             KnownType{MPI_FLOAT, DType::float32, Use::any},
             KnownType{MPI_DOUBLE, DType::float64, Use::any},
             KnownType{MPI_INT, integer_type<int>(), Use::any},
             KnownType{MPI_LONG, integer_type<long>(), Use::any},
             KnownType{MPI_LONG_LONG, integer_type<long long>(), Use::any},
             KnownType{MPI_INT32_T, DType::int32, Use::any},
             KnownType{MPI_INT64_T, DType::int64, Use::any},
             KnownType{MPI_UNSIGNED, integer_type<unsigned>(), Use::any},
             KnownType{MPI_UNSIGNED_LONG, integer_type<unsigned long>(), Use::any},
             KnownType{MPI_UNSIGNED_LONG_LONG, integer_type<unsigned long long>(), Use::any},
             KnownType{MPI_UINT32_T, DType::uint32, Use::any},
             KnownType{MPI_UINT64_T, DType::uint64, Use::any},
             KnownType{MPI_INT8_T, DType::int8, Use::any},
             KnownType{MPI_INT16_T, DType::int16, Use::any},
             KnownType{MPI_UINT8_T, DType::uint8, Use::any},
             KnownType{MPI_UINT16_T, DType::uint16, Use::any},
             KnownType{MPI_SIGNED_CHAR, DType::int8, Use::any},
             KnownType{MPI_UNSIGNED_CHAR, DType::uint8, Use::any},
             KnownType{MPI_SHORT, integer_type<short>(), Use::any},
             KnownType{MPI_UNSIGNED_SHORT, integer_type<unsigned short>(), Use::any},
             KnownType{MPI_AINT, integer_type<MPI_Aint>(), Use::any},
             KnownType{MPI_OFFSET, integer_type<MPI_Offset>(), Use::any},
             KnownType{MPI_COUNT, integer_type<MPI_Count>(), Use::any},
             KnownType{MPI_BYTE, DType::uint8, Use::bitwise},
             KnownType{MPI_CHAR, DType::uint8, Use::none},
             KnownType{MPI_C_BOOL, DType::uint8, Use::logical},
             KnownType{MPI_C_FLOAT_COMPLEX, DType::float32, Use::sum, 2},
             KnownType{MPI_C_DOUBLE_COMPLEX, DType::float64, Use::sum, 2},
         })
      all->add(known);
    add_fortran_types(*all);
    return all;
  }();
  return types;
}

const KnownType* find_type(MPI_Datatype handle) { return known_types().find(handle); }

std::optional<Op> find_op(MPI_Op handle) {
  static const std::array<std::pair<MPI_Op, Op>, kOps> ops = {{{MPI_SUM, Op::sum},
                                                               {MPI_PROD, Op::prod},
                                                               {MPI_MIN, Op::min},
                                                               {MPI_MAX, Op::max},
                                                               {MPI_LAND, Op::land},
                                                               {MPI_LOR, Op::lor},
                                                               {MPI_LXOR, Op::lxor},
                                                               {MPI_BAND, Op::band},
                                                               {MPI_BOR, Op::bor},
                                                               {MPI_BXOR, Op::bxor}}};
  for (const auto& [known, op] : ops)
    if (known == handle) return op;
  return std::nullopt;
}

}  // namespace

bool is_known(MPI_Datatype type) { return find_type(type) != nullptr; }

std::uint64_t size_of_known(MPI_Datatype type) {
  const KnownType* known = find_type(type);
  return known ? known->parts * size_of(known->type) : 0;
}

const char* find_reduction(MPI_Datatype type, MPI_Op op, Reduction& reduction, std::uint64_t& parts) {
  parts = 1;
  if (const KnownType* known = find_type(type)) {
    std::optional<Op> operation = find_op(op);
    if (!operation || !is_reducible(known->type, *operation) || !is_allowed(known->use, *operation))
      return "operation";
    reduction = {known->type, *operation};
    parts = known->parts;
    return nullptr;
  }
  std::optional<Reduction> custom = custom_reduction(type, op);
  if (!custom) return "datatype";
  reduction = *custom;
  return nullptr;
}

}  // namespace ddl::mpi
