#include "launcher/mpirun_options.hpp"

#include <algorithm>
#include <iterator>

namespace ddl {
namespace {

constexpr KnownTo k4 = KnownTo::open_mpi_4;
constexpr KnownTo k5 = KnownTo::open_mpi_5;
constexpr std::string_view kPreloadBinary =
    "it would copy ddl-exec instead of the program; copy the program yourself";
constexpr std::string_view kDaemon = "it starts a persistent daemon, not a job; use mpirun itself";

constexpr MpirunOption kOptions[] = {
    // how many, where
    {"np", 1},
    {"n", 1},
    {"c", 1},
    {"N", 1},
    {"H", 1},
    {"host", 1},
    {"hostfile", 1},
    {"machinefile", 1},
    {"default-hostfile", 1},
    {"npernode", 1},
    {"npersocket", 1},
    {"pernode", 0},
    {"ppr", 1},
    {"app", 1},  // read by the parser itself
    {"add-host", 1, k5},
    {"add-hostfile", 1, k5},
    {"pset", 1, k5},
    {"max-vm-size", 1},
    {"novm", 0},
    // mapping, ranking, binding
    {"map-by", 1},
    {"rank-by", 1},
    {"bind-to", 1},
    {"bind-to-core", 0},
    {"bind-to-socket", 0},
    {"bycore", 0},
    {"bynode", 0},
    {"byslot", 0},
    {"cpu-list", 1},
    {"cpu-set", 1},
    {"cpus-per-proc", 1},
    {"cpus-per-rank", 1},
    {"cf", 1, k4},
    {"cartofile", 1, k4},
    {"nolocal", 0},
    {"nooversubscribe", 0},
    {"oversubscribe", 0},
    {"report-bindings", 0},
    {"rf", 1},
    {"rankfile", 1},
    {"use-hwthread-cpus", 0},
    {"use-regexp", 0, k4},
    {"hetero-nodes", 0, k5},
    // parameters and environment
    {"mca", 2},
    {"gmca", 2},
    {"omca", 2, k5},
    {"gomca", 2, k5},
    {"prtemca", 2, k5},
    {"pmixmca", 2, k5},
    {"gpmixmca", 2, k5},
    {"am", 1},
    {"amca", 1, k5},
    {"tune", 1},
    {"x", 1},
    {"fwd-environment", 0, k5},
    {"personality", 1},
    {"runtime-options", 1, k5},
    {"rtos", 1, k5},
    {"with-ft", 1, k5},
    {"memory-alloc-kinds", 1, k5},
    {"gpu-support", 1, k5},
    // directories and files
    {"wd", 1},
    {"wdir", 1},
    {"path", 1},
    {"prefix", 1},
    {"noprefix", 0},
    {"no-app-prefix", 0, k5},
    {"pmix-prefix", 1, k5},
    {"preload-files", 1},
    {"preload-binary", 0, KnownTo::both, kPreloadBinary},
    {"set-cwd-to-session-dir", 0},
    {"tmpdir", 1},
    // input and output
    {"stdin", 1},
    {"q", 0},
    {"quiet", 0},
    {"display", 1, k5},
    {"display-comm", 0, k5},
    {"display-comm-finalize", 0, k5},
    {"output", 1, k5},
    {"output-filename", 1},
    {"output-directory", 1, k5},
    {"merge-stderr-to-stdout", 0},
    {"tag-output", 0},
    {"timestamp-output", 0},
    {"stream-buffering", 1, k5},
    {"xml", 0},
    {"xml-file", 1},
    {"xterm", 1},
    {"display-allocation", 0},
    {"display-map", 0},
    {"display-topo", 0},
    {"display-devel-allocation", 0},
    {"display-devel-map", 0},
    {"display-diffable-map", 0},
    {"output-proctable", 0},
    {"parseable", 0, k5},
    {"parsable", 0, k5},
    {"show-progress", 0},
    {"report-pid", 1},
    {"report-uri", 1},
    {"report-events", 1},
    {"report-child-jobs-separately", 0},
    {"report-state-on-timeout", 0},
    {"get-stack-traces", 0},
    // starting, stopping, debugging
    {"allow-run-as-root", 0},
    {"launch-agent", 1},
    {"exec-agent", 1, k5},
    {"timeout", 1},
    {"spawn-timeout", 1, k5},
    {"forward-signals", 1, k5},
    {"keepalive", 1, k5},
    {"set-sid", 0, k5},
    {"continuous", 0},
    {"enable-recovery", 0},
    {"disable-recovery", 0},
    {"max-restarts", 1},
    {"index-argv-by-rank", 0},
    {"do-not-launch", 0},
    {"do-not-resolve", 0},
    {"fwd-mpirun-port", 0},
    {"enable-instant-on-support", 0},
    {"ompi-server", 1},
    {"hnp", 1, k4},
    {"dvm", 0, KnownTo::both, kDaemon},
    {"dvm-uri", 1, k5},
    {"namespace", 1, k5},
    {"d", 0},
    {"debug-devel", 0},
    {"debug", 0},
    {"debugger", 1, k4},
    {"tv", 0},
    {"debug-daemons", 0},
    {"debug-daemons-file", 0},
    {"leave-session-attached", 0},
    {"test-suicide", 0, k5},
    {"stop-on-exec", 0, k5},
    {"stop-in-init", 0, k5},
    {"stop-in-app", 0, k5},
    {"initial-errhandler", 1, k5},
    {"terminate", 0, k4},
};

constexpr std::string_view kBinding[] = {"bind-to",  "bind-to-core",  "bind-to-socket", "cpu-list", "cpu-set",
                                         "rankfile", "cpus-per-proc", "cpus-per-rank",  "rf"};

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

const MpirunOption* find_mpirun_option(std::string_view name) {
  auto row = std::find_if(std::begin(kOptions), std::end(kOptions),
                          [&](auto& option) { return option.name == name; });
  return row == std::end(kOptions) ? nullptr : row;
}

std::string with_dashes(std::string_view name) {
  return std::string(name.size() == 1 ? "-" : "--") + std::string(name);
}

Strings mpirun_option_names() {
  Strings names;
  for (const MpirunOption& option : kOptions) names.push_back(with_dashes(option.name));
  return names;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool chooses_binding(std::string_view name, const Strings& values) {
  if (std::find(std::begin(kBinding), std::end(kBinding), name) != std::end(kBinding)) return true;
  if (name != "map-by" || values.empty()) return false;
  std::string policy = lower(values[0]);
  return policy.find("pe=") != std::string::npos || policy.find("pe-list") != std::string::npos ||
         policy.rfind("rankfile", 0) == 0;
}

bool parameter_chooses_binding(std::string_view name, const std::string& value) {
  return is_one_of(name, {"hwloc_base_binding_policy", "hwloc_default_binding_policy", "hwloc_base_cpu_list",
                          "hwloc_default_cpu_list", "rmaps_rank_file_path", "rmaps_base_cpus_per_rank"}) ||
         (is_one_of(name, {"rmaps_base_mapping_policy", "rmaps_default_mapping_policy"}) &&
          chooses_binding("map-by", {value}));
}

bool chooses_mapping(std::string_view name, const Strings&) {
  return is_one_of(name, {"map-by", "bynode", "byslot", "bycore", "nolocal"});
}

bool counts_ranks(std::string_view name, const Strings& values) {
  if (is_rank_count(name) ||
      is_one_of(name, {"N", "npernode", "npersocket", "pernode", "ppr", "rf", "rankfile"}))
    return true;
  if (name != "map-by" || values.empty()) return false;
  std::string policy = lower(values[0]);
  return policy.rfind("ppr", 0) == 0 || policy.rfind("rankfile", 0) == 0;
}

bool is_rank_count(std::string_view name) { return is_one_of(name, {"np", "n", "c"}); }
bool is_host_list(std::string_view name) { return is_one_of(name, {"H", "host"}); }
bool is_host_file(std::string_view name) { return is_one_of(name, {"hostfile", "machinefile"}); }

}  // namespace ddl
