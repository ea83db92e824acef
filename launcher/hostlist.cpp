#include "launcher/hostlist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/env.hpp"
#include "core/base/error.hpp"

namespace ddl {
namespace {

constexpr std::uint64_t kMostHosts = 1'000'000;  // a typing error in a range must not eat the memory
constexpr const char* kForm = "write host[:slots],host[:slots],...";

std::uint64_t positive(std::string_view text) {
  std::uint64_t value = parse_number(text);
  if (value == 0 || value > kMostHosts) throw UsageError(fmt::format("'{}' is out of range", text));
  return value;
}

// Letters, digits and . _ -; `user@host`, and mpirun's relative `+n1`, `+e:2` and `^host` in hostfiles.
bool is_host_name(std::string_view name) {
  auto fits = [](unsigned char c) {
    return std::isalnum(c) || std::string_view("._-@+^").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), fits);
}

HostSlots parse_host(std::string_view item) {
  std::size_t colon = item.find(':');
  std::string name(item.substr(0, colon));
  if (!is_host_name(name))
    throw UsageError(name.empty() ? "a host name is empty" : fmt::format("'{}' is no host name", name));
  if (colon == std::string_view::npos) return {name, 0};
  std::string_view slots = item.substr(colon + 1);
  if (slots == "*" || slots == "auto") return {name, 0};
  try {
    return {name, positive(slots)};
  } catch (const UsageError&) {
    throw UsageError(fmt::format("'{}' is no number of slots for {}", slots, name));
  }
}

// Adds slots to the host if the list has it; a mention without a number counts one.
void add(HostList& hosts, const HostSlots& entry) {
  auto known =
      std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& h) { return h.host == entry.host; });
  if (known == hosts.end()) {
    hosts.push_back(entry);
    return;
  }
  known->slots = std::max<std::uint64_t>(known->slots, 1) + std::max<std::uint64_t>(entry.slots, 1);
}

// `slots=4` -> 4 into the entry; other words of mpirun's hostfiles (max_slots, ...) are left to mpirun.
void parse_host_file_word(HostSlots& entry, const std::string& word) {
  std::size_t equals = word.find('=');
  if (equals == std::string::npos) throw UsageError(fmt::format("'{}' is not understood", word));
  std::string key = word.substr(0, equals);
  static const Strings known = {
      "slots",   "count",     "cpus",      "cpu",  "max_slots", "max-slots",         "cpu_max",
      "cpu-max", "slots_max", "slots-max", "user", "username",  "user_name",         "user-name",
      "port",    "sockets",   "cores",     "rank", "boards",    "sockets-per-board", "cores-per-socket"};
  if (std::find(known.begin(), known.end(), key) == known.end())
    throw UsageError(fmt::format("'{}' is not understood", word));
  if (key == "slots" || key == "count" || key == "cpus" || key == "cpu")
    entry.slots = positive(word.substr(equals + 1));
  if (key.starts_with("user")) entry.user = word.substr(equals + 1);
}

void add_host_file_line(HostList& hosts, std::string line) {
  if (line.ends_with('\r'))
    throw UsageError("it ends with a carriage return, which mpirun does not understand");
  line = line.substr(0, line.find('#'));
  // `slots = 4` is as good as `slots=4`
  for (std::size_t at; (at = line.find(" =")) != std::string::npos;) line.erase(at, 1);
  for (std::size_t at; (at = line.find("= ")) != std::string::npos;) line.erase(at + 1, 1);
  std::istringstream words(line);
  std::string word;
  if (!(words >> word)) return;
  HostSlots entry = parse_host(word);
  while (words >> word) parse_host_file_word(entry, word);
  if (entry.host.front() != '^') add(hosts, entry);
}

// One comma-separated item outside brackets starts at `text`; returns its length.
std::size_t slurm_item_length(std::string_view text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  if (depth != 0) throw UsageError(fmt::format("brackets do not match in '{}'", text));
  return text.size();
}

// `001-003` -> 001 002 003: the width of the first number is kept.
Strings expand_range(std::string_view range) {
  std::size_t dash = range.find('-');
  std::string first(range.substr(0, dash)),
      last(dash == std::string_view::npos ? first : std::string(range.substr(dash + 1)));
  std::uint64_t from = parse_number(first), to = parse_number(last);
  if (to < from || to - from > kMostHosts) throw UsageError(fmt::format("'{}' is no range", range));
  Strings numbers;
  for (std::uint64_t more = 0; more <= to - from; ++more)
    numbers.push_back(fmt::format("{:0{}}", from + more, first.size()));
  return numbers;
}

// Expands the first bracket and recurses for what follows it.
Strings expand_item(std::string_view item) {
  std::size_t open = item.find('['), close = item.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    if (!is_host_name(item)) throw UsageError(fmt::format("'{}' is no host name", item));
    return {std::string(item)};
  }
  Strings names;
  for (const std::string& range : split(item.substr(open + 1, close - open - 1), ','))
    for (const std::string& number : expand_range(range))
      for (const std::string& name :
           expand_item(std::string(item.substr(0, open)) + number + std::string(item.substr(close + 1))))
        if (names.push_back(name); names.size() > kMostHosts)
          throw UsageError(fmt::format("'{}' names more than {} hosts", item, kMostHosts));
  return names;
}

}  // namespace

HostList parse_host_list(std::string_view text) {
  HostList hosts;
  try {
    // Of a list that a loop has made mpirun too leaves the last comma alone.
    for (const std::string& item : split(text, ','))
      if (!item.empty()) add(hosts, parse_host(item));
    if (hosts.empty()) throw UsageError("it names no host");
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("the host list '{}' is malformed", text), error.what(), kForm);
  }
  return hosts;
}

HostList parse_host_file(std::string_view text, const std::string& name) {
  HostList hosts;
  std::size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    try {
      add_host_file_line(hosts, line);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("line {} of the hostfile {} is malformed", number, name), error.what(),
                       "write one `host slots=N` per line");
    }
  }
  if (hosts.empty())
    throw UsageError(fmt::format("the hostfile {} names no host", name),
                     "there is nowhere to start the program", "write one `host slots=N` per line");
  return hosts;
}

bool has_colon_slots(std::string_view text) {
  for (const std::string& line : split(text, '\n')) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string host;
    if (words >> host && host.find(':') != std::string::npos && host.front() != '+') return true;
  }
  return false;
}

HostList parse_lsf_hosts(std::string_view text) {
  HostList hosts;
  std::istringstream words{std::string(text)};
  try {
    for (std::string host, slots; words >> host;) {
      if (!is_host_name(host)) throw UsageError(fmt::format("'{}' is no host name", host));
      if (!(words >> slots)) throw UsageError(fmt::format("no number of slots for {}", host));
      add(hosts, {host, positive(slots)});
    }
    if (hosts.empty()) throw UsageError("it names no host");
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("the host list '{}' is malformed", text), error.what(),
                     "look at LSB_MCPU_HOSTS");
  }
  return hosts;
}

HostList parse_slot_file(std::string_view text, const std::string& name) {
  HostList hosts = parse_host_file(text, name);
  for (HostSlots& entry : hosts) entry.slots = std::max<std::uint64_t>(entry.slots, 1);
  return hosts;
}

Strings expand_slurm_nodes(std::string_view text) {
  Strings names;
  try {
    for (std::string_view rest = text;;) {
      std::size_t length = slurm_item_length(rest);
      for (const std::string& name : expand_item(rest.substr(0, length))) names.push_back(name);
      if (length == rest.size()) return names;
      rest.remove_prefix(length + 1);
    }
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("the node list '{}' is malformed", text), error.what(),
                     "look at SLURM_JOB_NODELIST");
  }
}

std::vector<std::uint64_t> expand_slurm_tasks(std::string_view text) {
  std::vector<std::uint64_t> tasks;
  try {
    for (const std::string& item : split(text, ',')) {
      std::size_t open = item.find("(x");
      bool repeated = open != std::string::npos && item.back() == ')';
      std::uint64_t count = repeated ? positive(item.substr(open + 2, item.size() - open - 3)) : 1;
      tasks.insert(tasks.end(), count, positive(repeated ? item.substr(0, open) : item));
    }
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("the task counts '{}' are malformed", text), error.what(),
                     "look at SLURM_TASKS_PER_NODE");
  }
  return tasks;
}

std::string host_list_text(const HostList& hosts) {
  Strings words;
  for (const HostSlots& entry : hosts)
    words.push_back(entry.slots ? fmt::format("{}:{}", entry.host, entry.slots) : entry.host);
  return join(words, ",");
}

}  // namespace ddl
