#include "launcher/reachability.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "core/base/env.hpp"
#include "launcher/mca_parameters.hpp"
#include "launcher/messages.hpp"
#include "launcher/run_command.hpp"

namespace ddl {
namespace {

constexpr std::chrono::seconds kLimit{12};
constexpr std::size_t kProbesAtOnce = 16;

// "ssh : rsh" -> the first that is on PATH, else the first.
Strings choose_agent(const std::string& text, const System& world) {
  std::vector<Strings> candidates;
  for (const std::string& item : split(text, ':'))
    if (Strings words = split_shell_words(item); !words.empty()) candidates.push_back(words);
  for (const Strings& words : candidates) {
    bool is_path = words[0].find('/') != std::string::npos;
    if (is_path || !find_on_path(words[0], world.variable("PATH"), world.directory).empty()) return words;
  }
  return candidates.empty() ? Strings{"ssh"} : candidates.front();
}

// Without these ssh would ask for a password or a host key, on a terminal that mpirun's daemons do not have.
Strings with_batch_mode(Strings agent) {
  std::string base = agent[0].substr(agent[0].rfind('/') + 1);
  if (base == "ssh") agent.insert(agent.end(), {"-o", "BatchMode=yes", "-o", "ConnectTimeout=8"});
  return agent;
}

// "" when the host answers, else why not.
std::string try_host(const Strings& agent, const HostSlots& host, const System& world) {
  if (world.is_here(host.host)) return {};  // mpirun starts ranks there without a shell
  Strings command = agent;
  command.insert(command.end(), {(host.user.empty() ? "" : host.user + "@") + host.host, "true"});
  CommandResult result = run_command(command, kLimit);
  if (result.timed_out) return fmt::format("no answer in {} s", kLimit.count());
  if (result.exit_code == 0) return {};
  std::string said = last_line(result.errors);
  return said.empty() ? fmt::format("{} ended with {}", agent[0], result.exit_code) : said;
}

std::vector<std::string> try_hosts(const Strings& agent, const HostList& hosts, const System& world) {
  std::vector<std::string> reasons(hosts.size());
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i; (i = next++) < hosts.size();) reasons[i] = try_host(agent, hosts[i], world);
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(kProbesAtOnce, hosts.size()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return reasons;
}

}  // namespace

Strings remote_shell(const Options& options, const System& world) {
  if (is_started_by_scheduler(world)) return {};
  const McaParameters set = mca_parameters(options, world);
  const std::string starter = value_of(set, {"plm"});
  const bool names_shell =
      starter.find("rsh") != std::string::npos || starter.find("ssh") != std::string::npos;
  if (!starter.empty() && names_shell == starter.starts_with('^')) return {};
  const std::string agent =
      value_of(set, {"plm_rsh_agent", "plm_ssh_agent", "orte_rsh_agent", "pls_rsh_agent"});
  Strings words = with_batch_mode(choose_agent(agent.empty() ? "ssh : rsh" : agent, world));
  const Strings more = split_shell_words(value_of(set, {"plm_rsh_args", "plm_ssh_args"}));
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

HostList remote_hosts(const Allocation& allocation, const std::string& this_host) {
  HostList remote = allocation.hosts;
  std::erase_if(remote, [&](const HostSlots& entry) {
    return is_own_name(entry.host, this_host) || entry.host.starts_with('+');
  });
  return remote;
}

std::string last_line(const std::string& text) {
  std::size_t end = text.find_last_not_of(" \r\n\t");
  if (end == std::string::npos) return {};
  std::size_t start = text.find_last_of("\r\n", end);
  return text.substr(start == std::string::npos ? 0 : start + 1,
                     end - (start == std::string::npos ? -1 : start));
}

void check_hosts(const JobInputs& in) {
  if (in.options.skip_checks) return;
  HostList hosts = remote_hosts(in.allocation, in.world.host);
  Strings agent = remote_shell(in.options, in.world);
  if (hosts.empty() || agent.empty()) return;
  std::vector<std::string> reasons = try_hosts(agent, hosts, in.world);
  Strings failed;
  std::string why;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (reasons[i].empty()) continue;
    failed.push_back(hosts[i].host);
    if (why.empty()) why = reasons[i];
  }
  if (failed.empty()) return;
  throw LaunchError(
      fmt::format("host{} {} cannot be reached", failed.size() > 1 ? "s" : "", join(failed, ", ")), why,
      fmt::format("make `{} {} true` work, or skip this check with -s", shell_line({agent[0]}), failed[0]));
}

}  // namespace ddl
