#include "interpose/nccl/messages.hpp"

#include <algorithm>
#include <tuple>

namespace ddl::nccl {
namespace {

using Verb = Call::Verb;
using Calls = std::vector<Call>;

bool is_message(const Call& call) { return call.verb == Verb::send || call.verb == Verb::recv; }

int my_rank(const Call& call) { return call.record->rank; }

// Communicators are independent of each other: they keep the order in which they come.
auto place_of(const Call& call, const std::vector<ncclComm_t>& comms) {
  int me = my_rank(call);
  int from = call.verb == Verb::send ? me : call.peer, to = call.verb == Verb::send ? call.peer : me;
  return std::tuple(std::find(comms.begin(), comms.end(), call.comm) - comms.begin(), std::min(from, to),
                    std::max(from, to), from > to);
}

bool is_to_itself(const Call& call) { return call.peer == my_rank(call) && !(call.in && call.out); }

// The n-th send of a rank to itself with its n-th receive; what has no partner stays alone, and is refused.
// What is empty needs none.
void join_those_to_itself(Calls& calls, Calls::iterator begin) {
  for (auto send = begin; send != calls.end(); ++send) {
    if (send->verb != Verb::send || send->count == 0 || !is_to_itself(*send)) continue;
    auto receive = std::find_if(begin, calls.end(), [&](const Call& other) {
      return other.verb == Verb::recv && other.comm == send->comm && is_to_itself(other) &&
             other.count == send->count && other.type == send->type;
    });
    if (receive == calls.end()) continue;
    send->out = receive->out;
    auto index = send - (receive < send ? 1 : 0) - calls.begin();
    calls.erase(receive);
    send = calls.begin() + index;
  }
}

}  // namespace

void bring_into_common_order(Calls& calls) {
  if (std::none_of(calls.begin(), calls.end(), is_message)) return;
  auto turn = [](const Call& call) { return call.verb == Verb::destroy_op ? 2 : is_message(call) ? 1 : 0; };
  std::stable_sort(calls.begin(), calls.end(),
                   [&](const Call& a, const Call& b) { return turn(a) < turn(b); });
  const auto begin = std::find_if(calls.begin(), calls.end(), is_message);
  const auto end = std::find_if_not(begin, calls.end(), is_message);
  std::vector<ncclComm_t> comms;
  for (auto one = begin; one != end; ++one)
    if (std::find(comms.begin(), comms.end(), one->comm) == comms.end()) comms.push_back(one->comm);
  std::stable_sort(begin, end,
                   [&](const Call& a, const Call& b) { return place_of(a, comms) < place_of(b, comms); });
  join_those_to_itself(calls, begin);
}

}  // namespace ddl::nccl
