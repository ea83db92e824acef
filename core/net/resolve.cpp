#include "core/net/resolve.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>

#include "core/base/error.hpp"

namespace ddl {

std::vector<std::string> resolve(const std::string& host) {
  addrinfo asked{};
  asked.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (int failed = ::getaddrinfo(host.c_str(), nullptr, &asked, &list); failed != 0)
    throw Error(fmt::format("the host {} has no address: {}", host, ::gai_strerror(failed)));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  std::vector<std::string> four, six;
  for (const addrinfo* one = list; one; one = one->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    std::vector<std::string>& of_family = one->ai_family == AF_INET ? four : six;
    if (std::find(of_family.begin(), of_family.end(), text) == of_family.end()) of_family.emplace_back(text);
  }
  four.insert(four.end(), six.begin(), six.end());
  if (four.empty()) throw Error(fmt::format("the host {} has no address", host));
  return four;
}

}  // namespace ddl
