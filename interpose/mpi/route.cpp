#include <array>
#include <optional>

#include "core/engine_types.hpp"
#include "interpose/mpi/front.hpp"

namespace ddl::mpi {
namespace {

template <class T>
constexpr DType integer_type() {
  constexpr bool is_signed = static_cast<T>(-1) < static_cast<T>(0);
  switch (sizeof(T)) {
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

enum class Use : std::uint8_t { any, bitwise };  // MPI_BYTE knows bitwise operations only

struct KnownType {
  MPI_Datatype handle;
  DType type;
  Use use;
};

// The handles are addresses in libmpi, so the table is built at run time; the commonest come first.
const auto& known_types() {
  static const std::array types = {
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
  };
  return types;
}

const KnownType* find_type(MPI_Datatype handle) {
  for (const KnownType& known : known_types())
    if (known.handle == handle) return &known;
  return nullptr;
}

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

std::uint64_t bytes_of(int count, MPI_Datatype type) {
  int size = 0;
  if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS) return 0;
  return static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

Route route_all_reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  Route route;
  auto original = [&](const char* reason) {
    route.reason = reason;
    return route;
  };
  if (!state().active) return original("engine is off");
  route.comm = state_of(comm);
  if (!route.comm) return original("communicator unknown to the engine");
  if (!route.comm->engine) return original(route.comm->reason);
  std::optional<Reduction> reduction;
  if (const KnownType* known = find_type(type)) {
    std::optional<Op> operation = find_op(op);
    if (!operation || !is_reducible(known->type, *operation) ||
        (known->use == Use::bitwise && *operation < Op::band))
      return original("operation");
    reduction = {known->type, *operation};
  } else if (reduction = custom_reduction(type, op); !reduction) {
    return original("datatype");
  }
  if (count < 0) return original("erroneous call");
  if (in == MPI_IN_PLACE)
    in = out;
  else if (in == out && count > 1)
    return original("erroneous call");  // of one element Open MPI lets it pass, as in place
  if (count > 0 && (!in || !out || out == MPI_IN_PLACE)) return original("erroneous call");
  route.call = {in, out, static_cast<std::uint64_t>(count), to_c(reduction->type), to_c(reduction->op), ""};
  return route;
}

}  // namespace ddl::mpi
