#include "core/stream/stream_owners.hpp"

#include <map>
#include <mutex>
#include <tuple>

namespace ddl::stream_owners {
namespace {

using Place = std::tuple<RendezvousId::Token, cuda::Context, cuda::Stream>;

struct Table {
  std::mutex mutex;
  std::map<Place, const Owner*> owners;
};

Table& table() {
  static Table* the_table = new Table;  // outlives exit handlers of the program
  return *the_table;
}

}  // namespace

bool claim(cuda::Context context, cuda::Stream stream, Owner& owner) {
  if (stream == cuda::kStreamPerThread) return ++owner.under_way, true;  // another one in each thread
  if (!stream) stream = cuda::kStreamLegacy;
  std::lock_guard lock(table().mutex);
  const Owner*& now_its = table().owners[{owner.group, context, stream}];
  if (now_its && now_its != &owner && now_its->under_way > 0) return false;
  now_its = &owner;
  ++owner.under_way;  // before anybody else looks
  return true;
}

void forget(const Owner& owner) {
  std::lock_guard lock(table().mutex);
  std::erase_if(table().owners, [&](const auto& entry) { return entry.second == &owner; });
}

}  // namespace ddl::stream_owners
