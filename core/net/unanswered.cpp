#include "core/net/unanswered.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/base/file.hpp"

namespace ddl {
namespace {

constexpr std::size_t kMostBytes = 4 << 20;
constexpr unsigned kEstablished = 1;

std::uint64_t number_in(std::string_view text, int base) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

// "0100007F:1F90": the address as the number that it is in memory.
std::string address_in(const std::string& word) {
  const auto number =
      static_cast<std::uint32_t>(number_in(std::string_view(word).substr(0, word.find(':')), 16));
  const auto byte = std::bit_cast<std::array<std::uint8_t, 4>>(number);
  return fmt::format("{}.{}.{}.{}", byte[0], byte[1], byte[2], byte[3]);
}

// The links are called "socket:[inode]".
std::set<std::uint64_t> sockets_of(const std::string& process) {
  std::set<std::uint64_t> sockets;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(process + "/fd", error)) {
    const std::string to = std::filesystem::read_symlink(file.path(), error).string();
    constexpr std::string_view kBegins = "socket:[";
    if (to.starts_with(kBegins)) sockets.insert(number_in(std::string_view(to).substr(kBegins.size()), 10));
  }
  return sockets;
}

}  // namespace

// sl local rem st tx:rx tr:when retransmissions uid probes inode ...: without a way to the far end, as when
// the interface is down, the kernel counts probes instead.
std::vector<std::string> unanswered_in(const std::string& table, const std::set<std::uint64_t>& sockets,
                                       unsigned times) {
  std::vector<std::string> found;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, sent_again, user, probes, inode;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> sent_again >> user >> probes >>
          inode))
      continue;
    const std::uint64_t in_vain = std::max(number_in(sent_again, 16), number_in(probes, 10));
    if (number_in(state, 16) == kEstablished && in_vain >= times && sockets.count(number_in(inode, 10)))
      found.push_back(address_in(remote));
  }
  return found;
}

std::vector<std::string> unanswered_connections_of(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const std::set<std::uint64_t> sockets = sockets_of(process);
  if (sockets.empty()) return {};
  return unanswered_in(read_file(process + "/net/tcp", kMostBytes).text, sockets, kTimesInVain);
}

}  // namespace ddl
