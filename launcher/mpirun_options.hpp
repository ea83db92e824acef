// mpirun's own options and how many values each takes, for Open MPI 4 and 5: with this table the program is
// found as the first word that is neither an option nor an option's value.
//
// Names are without dashes: both mpiruns take one or two. A name missing here is an unknown option, so a new
// Open MPI option means a new row (until then users reach it with --mpiarg).
#pragma once

#include <string>
#include <string_view>

#include "launcher/strings.hpp"

namespace ddl {

enum class KnownTo { both, open_mpi_4, open_mpi_5 };

struct MpirunOption {
  std::string_view name;
  int values = 0;
  KnownTo known_to = KnownTo::both;
  std::string_view refused = {};  // why ddlrun cannot pass it on; empty: it can
};

/// The row of an option, or nullptr.
const MpirunOption* find_mpirun_option(std::string_view name);
/// All names, written as a user would: -N, --np.
Strings mpirun_option_names();
/// "-N" or "--np".
std::string with_dashes(std::string_view name);

/// Does the option, with these values, say how ranks are bound to cores?
bool chooses_binding(std::string_view name, const Strings& values);
/// Does a parameter of mpirun's?
bool parameter_chooses_binding(std::string_view name, const std::string& value);
/// Does it say how ranks are spread over hosts and cores?
bool chooses_mapping(std::string_view name, const Strings& values);
/// Does it say how many ranks there are, in all or on each host?
bool counts_ranks(std::string_view name, const Strings& values);
/// The name says how many ranks there are (np, n, c).
bool is_rank_count(std::string_view name);
/// In small letters.
std::string lower(std::string text);
bool is_host_list(std::string_view name);
bool is_host_file(std::string_view name);

}  // namespace ddl
