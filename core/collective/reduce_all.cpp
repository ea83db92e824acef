#include "core/collective/reduce_all.hpp"

#include <cstring>

#include "core/collective/operation.hpp"

namespace ddl {
namespace {

// Told from an all-reduce of the program's own by a bit that no front has.
constexpr std::uint8_t kOfReduceScatter = 128;

Elements length_of(const Call& call, Rank block) {
  return call.in_blocks.counts ? call.in_blocks.counts[block] : call.count;
}

}  // namespace

void run_reducing_all(Engine& engine, Communicator& communicator, const Call& call, PreparedPlan& plan,
                      std::vector<std::byte>& memory) {
  const Members& members = communicator.members();
  const Bytes element = size_of(call.type);
  if (const Bytes most = static_cast<Bytes>(members.size()) * call.bytes(); memory.size() < most)
    memory.resize(most);
  Elements all = 0, own = 0;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const Elements length = length_of(call, rank);
    if (rank == members.me) own = all;
    if (length > 0)
      std::memcpy(memory.data() + all * element,
                  block_at(call, Source::input, static_cast<std::uint32_t>(rank)), length * element);
    all += length;
  }
  Call reduction = call;
  reduction.kind = Kind::all_reduce;
  reduction.in = reduction.out = memory.data();
  reduction.count = all;
  reduction.in_blocks = reduction.out_blocks = {};
  reduction.fingerprint = 0;
  reduction.variant |= kOfReduceScatter;
  engine.run_part(communicator, reduction);
  if (engine.failed()) return;
  if (const Elements length = length_of(call, members.me); length > 0)
    std::memcpy(call.out, memory.data() + own * element, length * element);
  engine.count(call, plan);
}

}  // namespace ddl
