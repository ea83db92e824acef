// Test data whose reduction is known without communication, and exactly: small whole numbers that depend on
// rank, call and index, so that a stale, shifted or missing contribution shows in some element.
//
// Element i of rank r in call k is a function of (i + 97 k + 31 r) mod 251 alone, therefore data and expected
// results repeat every 251 elements (a prime: no chunk boundary repeats with it), and filling and checking
// are block copies and block compares. Not thread safe.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

const std::vector<std::string>& type_names();
const std::vector<std::string>& reduction_names();
std::size_t element_bytes(const std::string& dtype);
bool is_float(const std::string& dtype);
bool is_bitwise(const std::string& reduce);
MPI_Op mpi_op(const std::string& reduce);

class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual MPI_Datatype type() const = 0;
  // What this rank contributes to call `call`.
  virtual void fill(void* to, std::size_t count, int call, int rank) const = 0;
  // How many elements differ from what `rank` contributed to the call.
  virtual std::size_t changed(const void* data, std::size_t count, int call, int rank) const = 0;
  // How many elements differ from the reduction over all ranks by more than is tolerated.
  virtual std::size_t wrong(const void* result, std::size_t count, int call) const = 0;
};

std::unique_ptr<Pattern> make_pattern(const std::string& dtype, const std::string& reduce, int ranks,
                                      double tolerance = 0);

}  // namespace bench
