// CallBatches: which calls of a group are one operation. In NCCL's words a group is one unit: its calls may
// be done in any order, and it is as if each stream in it had all of them. So buffers of two calls have
// nothing to do with each other, unless both only read, and what is fused depends neither on the streams,
// which each rank chooses for itself, nor on what else is between the calls. All ranks make the same
// all-reduces in the same order, and cut them alike.
//
// Thread safety: none. Pure but for its places, which are used again.
#pragma once

#include <span>
#include <vector>

#include "core/gradient/fusion.hpp"
#include "core/stream/stream_call.hpp"

namespace ddl {

class CallBatches {
 public:
  CallBatches(FusionRule rule, WireRule wire) : rule_(rule), wire_(wire) {}
  /// Whether any calls are fused.
  bool is_on() const { return rule_.threshold > 0; }
  WireFormat wire_of(const StreamCall& call) const {
    return wire_.format_of(call.kind, call.type, call.count * size_of(call.type));
  }
  /// Elements a call takes in a batch.
  Elements room_of(const StreamCall& call) const { return part_of(call).room(); }

  /// `may_be_fused`: by what is equal on all ranks.
  template <class MayBeFused>
  void cut(std::span<const StreamCall> calls, MayBeFused may_be_fused) {
    begin(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i)
      if (calls[i].kind == Kind::all_reduce && rule_.takes(calls[i].count * size_of(calls[i].type)) &&
          may_be_fused(calls[i]))
        add(i, calls[i]);
    chain();
  }
  /// Of what was cut: the first calls of batches, in their order; each call alone is one, too. And the one
  /// behind a call in its batch, kLast where there is none.
  bool is_first(std::size_t call) const { return is_first_[call]; }
  std::size_t next(std::size_t call) const { return next_[call]; }
  static constexpr std::size_t kLast = ~std::size_t{0};

 private:
  Part part_of(const StreamCall& call) const {
    return {{call.type, call.op, wire_of(call), static_cast<std::uint8_t>(call.scale)}, call.count};
  }
  void begin(std::size_t calls);
  void add(std::size_t index, const StreamCall& call);
  void chain();

  const FusionRule rule_;
  const WireRule wire_;
  std::vector<Part> parts_;         // of those that may be fused
  std::vector<std::size_t> which_;  // calls these are
  Batches batches_;
  std::vector<std::size_t> last_;  // call so far, of each batch
  std::vector<char> is_first_;
  std::vector<std::size_t> next_;
};

}  // namespace ddl
