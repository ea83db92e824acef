#include "launcher/other_launchers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr std::string_view kMeeting =
    "ddlrun sets MASTER_ADDR and MASTER_PORT; other values: -x MASTER_ADDR=HOST";
constexpr std::string_view kNodes = "the hosts are -H h1:2,h2:2, a --hostfile or the scheduler's";

constexpr std::string_view kGpus =
    "every rank sees the GPUs of its host and takes the one of its LOCAL_RANK; --accelerators N starts a "
    "rank for "
    "each of N";
constexpr std::string_view kCores = "each rank gets its share of the cores; other shares: --map-by slot:pe=N";

constexpr OtherOption kOtherOptions[] = {
    // MPICH's and Intel's mpiexec
    {"ppn", 1, "-N", {}},
    {"perhost", 1, "-N", {}},
    {"f", 1, "--hostfile", {}},
    {"hosts", 1, "-H", {}},
    {"genv", 2, "-x", {}},
    {"env", 2, "-x", {}},
    {"genvlist", 1, "-x", {}},
    {"envlist", 1, "-x", {}},
    {"genvall", 0, {}, {}},
    {"envall", 0, {}, {}},
    {"genvnone", 0, {}, "-x NAME passes variables on, there is none to pass nothing"},
    {"configfile", 1, {}, "write --app FILE"},
    {"bootstrap", 1, {}, "write --mca plm_rsh_agent SHELL"},
    {"launcher", 1, {}, "write --mca plm_rsh_agent SHELL"},
    // srun
    {"ntasks", 1, "-np", {}},
    {"ntasks-per-node", 1, "-N", {}},
    {"tasks-per-node", 1, "-N", {}},
    {"nodelist", 1, "-H", {}},
    {"w", 1, "-H", {}},
    {"export", 1, {}, "write -x NAME for each variable"},
    {"mpi", 1, {}, "leave it out: ddlrun starts the job with mpirun, also inside an allocation of Slurm"},
    {"gpus", 1, {}, kGpus},
    {"gpus-per-task", 1, {}, kGpus},
    {"gpus-per-node", 1, {}, kGpus},
    {"gres", 1, {}, kGpus},
    {"num_gpus", 1, {}, kGpus},  // of deepspeed
    {"cpus-per-task", 1, {}, kCores},
    // torchrun
    {"nproc_per_node", 1, "-N", {}},
    {"nproc-per-node", 1, "-N", {}},
    {"nnodes", 1, {}, kNodes},
    {"node_rank", 1, {}, "leave it out: ddlrun is started once, on one host"},
    {"node-rank", 1, {}, "leave it out: ddlrun is started once, on one host"},
    {"master_addr", 1, {}, kMeeting},
    {"master-addr", 1, {}, kMeeting},
    {"master_port", 1, {}, kMeeting},
    {"master-port", 1, {}, kMeeting},
    {"rdzv_endpoint", 1, {}, kMeeting},
    {"rdzv-endpoint", 1, {}, kMeeting},
    {"rdzv_backend", 1, {}, kMeeting},
    {"rdzv-backend", 1, {}, kMeeting},
    {"standalone", 0, {}, "leave it out: without hosts the job runs on this machine"},
};

PassedOption variable(const std::string& entry) {
  if (entry.empty() || entry.front() == '=')
    throw UsageError("a variable has no name", "it is to be passed to the ranks", "write -x NAME=VALUE");
  return {"-x", "x", {entry}};
}

}  // namespace

const OtherOption* find_other_option(std::string_view name) {
  auto row = std::find_if(std::begin(kOtherOptions), std::end(kOtherOptions),
                          [&](const OtherOption& option) { return option.name == name; });
  return row == std::end(kOtherOptions) ? nullptr : row;
}

std::vector<PassedOption> in_mpirun_words(const OtherOption& option, const Strings& values) {
  if (option.instead.empty()) return {};
  std::vector<PassedOption> words;
  if (option.instead == "-x" && option.values == 2)
    return {variable(values[0].empty() ? "" : values[0] + "=" + values[1])};
  if (option.instead == "-x") {
    for (const std::string& name : split(values[0], ',')) words.push_back(variable(name));
    return words;
  }
  return {{std::string(option.instead),
           std::string(option.instead.substr(option.instead.find_first_not_of('-'))), values}};
}

}  // namespace ddl
