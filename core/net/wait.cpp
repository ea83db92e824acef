#include "core/net/wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace ddl {

Timeout::Timeout(double seconds)
    : left_(static_cast<Nanoseconds>(std::clamp(seconds, 0.0, 1e9) * 1e9)), asked_(now()) {}

bool Timeout::is_over() {
  constexpr Nanoseconds kSecond = 1'000'000'000;
  Nanoseconds time = now();
  left_ -= std::min(time - asked_, kSecond);
  asked_ = time;
  return left_ <= 0;
}

int Timeout::nap() const { return static_cast<int>(std::clamp<Nanoseconds>(left_ / 1'000'000 + 1, 1, 500)); }

bool PollSet::wait(int milliseconds) {
  if (::poll(polled_.data(), polled_.size(), milliseconds) > 0) return true;
  for (pollfd& one : polled_) one.revents = 0;
  return false;
}

bool wait_until(const FileDescriptor& one, Ready what, Timeout& timeout) {
  PollSet set;
  set.add(one, what);
  while (!timeout.is_over())
    if (set.wait(timeout.nap())) return true;
  return false;
}

EventSet::EventSet() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.is_open()) throw Error(fmt::format("cannot make an epoll set: {}", std::strerror(errno)));
}

void EventSet::watch(const FileDescriptor& one, std::uint32_t events, std::uint64_t key) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, one.fd(), &event) != 0)
    throw Error(fmt::format("cannot watch a connection: {}", std::strerror(errno)));
}

void EventSet::forget(const FileDescriptor& one) {
  epoll_event nothing{};
  ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, one.fd(), &nothing);
}

std::span<const epoll_event> EventSet::look() {
  int count = ::epoll_wait(epoll_.fd(), events_.data(), static_cast<int>(events_.size()), 0);
  return std::span(events_).first(static_cast<std::size_t>(std::max(count, 0)));
}

}  // namespace ddl
