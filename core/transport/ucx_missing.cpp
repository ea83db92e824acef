// Instead of ucx.cpp where there is no UCX to build with.
#include "core/base/error.hpp"
#include "core/transport/ucx.hpp"

namespace ddl {

std::unique_ptr<WireTransport> make_ucx_transport(const std::vector<std::string>&, const std::string&) {
  throw Error("DDL_WIRE asks for UCX", "this was built without it",
              "take DDL_WIRE=tcp, or build where UCX is installed");
}

}  // namespace ddl
