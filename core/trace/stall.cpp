#include "core/trace/stall.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ddl {
namespace {

using State = CallStatus::State;
using Presence = Peer::Presence;

bool is_in(const Stall& stall, const Peer& peer) {
  if (stall.number == 0 || peer.presence != Presence::answers) return false;
  const CallStatus& call = peer.call;
  if (!stall.goes_on)
    return call.is_in(stall.name, stall.comm, stall.number) && call.in_original == stall.in_original;
  return call.comm == stall.comm && call.number >= stall.number;
}

// It has been in that call, and has left.
bool is_through(const Stall& stall, const Peer& peer) {
  const CallStatus& call = peer.call;
  return stall.number > 0 && peer.presence == Presence::answers && call.comm == stall.comm &&
         (call.number > stall.number || (call.number == stall.number && call.state == State::ended));
}

bool does_not_come(const Stall& stall, const Peer& peer) {
  if (is_in(stall, peer)) return false;
  if (peer.is_awaited) return true;
  if (!stall.needs_all || stall.number == 0 || is_through(stall, peer)) return false;
  // Who has begun a call that goes on may be anywhere by now.
  return !stall.goes_on || peer.presence != Presence::answers || peer.call.comm == stall.comm;
}

std::string name_of_call(const Stall& stall, const CallStatus& call) {
  std::string text = call.name.text();
  if (call.comm != 0 && call.number > 0) text += fmt::format(" #{}", call.number);
  if (call.comm != 0 && stall.comm != 0)
    text += call.comm == stall.comm ? " on the same communicator" : " on another communicator";
  if (call.is_in(stall.name, stall.comm, stall.number))
    text += call.in_original ? ", in the original library" : ", on the engine";
  return text;
}

// "is in MPI_Finalize": what follows its rank, alike for several ranks.
std::string does(const Stall& stall, const Peer& peer, bool are_several) {
  const char* is = are_several ? "are" : "is";
  switch (peer.presence) {
    case Presence::silent:
      return are_several ? "do not answer" : "does not answer";
    case Presence::stopped:
      return fmt::format("{} stopped (by a signal or a debugger)", is);
    case Presence::gone:
      return fmt::format("{} gone", is);
    case Presence::answers:
      break;
  }
  if (is_in(stall, peer)) return fmt::format("{} in it, too", is);
  const std::string call = name_of_call(stall, peer.call);
  if (peer.call.state == State::inside) return fmt::format("{} in {}", is, call);
  if (peer.call.state == State::none) return are_several ? "do not come" : "does not come";
  return fmt::format("{} outside the collectives; the last, {}, ended {} s ago", is, call,
                     peer.call.age / 1'000'000'000);
}

std::string list_of(const std::vector<Rank>& ranks) {
  constexpr std::size_t kNamed = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > kNamed) text += fmt::format(" and {} more", ranks.size() - kNamed);
  return text;
}

}  // namespace

Presence presence_of(ProcessState state) {
  switch (state) {
    case ProcessState::stopped:
      return Presence::stopped;
    case ProcessState::gone:
      return Presence::gone;
    case ProcessState::runs:
      break;
  }
  return Presence::answers;
}

Speaker speaker_of(const Stall& stall, const std::vector<Peer>& peers) {
  Speaker speaker = Speaker::me;
  for (const Peer& peer : peers) {
    if (!is_in(stall, peer)) continue;
    if (SaidOfStall::covers(peer.said, stall.comm, stall.number, stall.waited)) return Speaker::has_spoken;
    const bool comes_first = peer.rank == stall.sink || (peer.rank < stall.me && stall.me != stall.sink);
    if (comes_first && peer.call.age > stall.waited / 2) speaker = Speaker::another;
  }
  return speaker;
}

bool is_explained(const Stall& stall, const std::vector<Peer>& peers) {
  return std::any_of(peers.begin(), peers.end(),
                     [&](const Peer& peer) { return does_not_come(stall, peer); });
}

std::string line_of(const Stall& stall, const std::vector<Peer>& peers) {
  std::vector<Peer> named;
  auto comes_not = [&](const Peer& peer) { return does_not_come(stall, peer); };
  std::copy_if(peers.begin(), peers.end(), std::back_inserter(named), comes_not);
  if (named.empty())
    std::copy_if(peers.begin(), peers.end(), std::back_inserter(named),
                 [](const Peer& peer) { return peer.is_awaited; });
  std::string text =
      fmt::format("waiting for {:.3g} s in {}", static_cast<double>(stall.waited) * 1e-9, stall.what);
  const char* between = ": ";
  while (!named.empty()) {
    std::vector<Rank> alike;
    const Peer first = named.front();
    const std::string doing = does(stall, first, false), doing_all = does(stall, first, true);
    std::erase_if(named, [&](const Peer& peer) {
      const bool is_alike = does(stall, peer, false) == doing;
      if (is_alike) alike.push_back(peer.rank);
      return is_alike;
    });
    text += between + list_of(alike) + " " + (alike.size() > 1 ? doing_all : doing);
    between = "; ";
  }
  return text;
}

}  // namespace ddl
