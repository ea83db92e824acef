#include "interpose/mpi/type_making.hpp"

#include <array>
#include <utility>

#include "interpose/mpi/types.hpp"

namespace ddl::mpi {

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

std::optional<VectorShape> vector_of(MPI_Datatype type, int combiner) {
  const bool in_elements = combiner == MPI_COMBINER_VECTOR;
  if (!in_elements && combiner != MPI_COMBINER_HVECTOR) return std::nullopt;
  std::array<int, 3> said{};
  MPI_Aint stride = 0;
  MPI_Datatype of = MPI_DATATYPE_NULL;
  if (PMPI_Type_get_contents(type, in_elements ? 3 : 2, in_elements ? 0 : 1, 1, said.data(), &stride, &of) !=
      MPI_SUCCESS)
    return std::nullopt;
  const TypePart part(of);
  const auto size = static_cast<MPI_Aint>(size_of_known(of));
  if (size == 0) return std::nullopt;
  return VectorShape{said[0], said[1] * size, in_elements ? said[2] * size : stride};
}

TypePart resized_by(MPI_Datatype type, int combiner) {
  if (combiner != MPI_COMBINER_RESIZED) return {};
  int no_integer = 0;
  std::array<MPI_Aint, 2> lower_and_extent{};
  MPI_Datatype of = MPI_DATATYPE_NULL;
  if (PMPI_Type_get_contents(type, 0, 2, 1, &no_integer, lower_and_extent.data(), &of) != MPI_SUCCESS)
    return {};
  TypePart part(of);
  return is_known(of) ? TypePart{} : std::move(part);
}

}  // namespace ddl::mpi
