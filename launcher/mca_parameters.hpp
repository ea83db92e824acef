// Open MPI's parameters (MCA) as the user and the installation set them for mpirun, wherever that is: in
// files of the installation's and the user's own, in files named by --am and --tune, in variables, as
// options. What ddlrun decides beside mpirun (binding, slots, remote shell, hosts) has to follow them. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/options.hpp"
#include "launcher/system.hpp"

namespace ddl {

struct McaParameter {
  std::string name, value;
};
/// In the order in which mpirun reads them: the last of a name counts.
using McaParameters = std::vector<McaParameter>;

McaParameters mca_parameters(const Options& options, const System& world);
/// Of one that has several names (each Open MPI has its own); "" where none is set.
std::string value_of(const McaParameters& parameters, std::initializer_list<std::string_view> names);

/// The file of hosts that counts where no option, and no scheduler, names any; "" none.
std::string default_hostfile(const Options& options, const System& world);

}  // namespace ddl
