#include "core/stream/host_path.hpp"

#include <algorithm>
#include <cstring>

#include "core/reduce/reduce.hpp"
#include "core/stream/device.hpp"
#include "core/stream/trial.hpp"

namespace ddl {
namespace {

constexpr Bytes kShared = Bytes{32} << 20;  // of each rank
constexpr Bytes kFlags = Bytes{64} << 10;   // more than these take
// Smaller ones are as fast over the engine's messages, which need no agreement before.
constexpr Bytes kLeast = Bytes{256} << 10;
constexpr Bytes kShareUnit = 256;
constexpr Elements kBlock = 4096;  // elements that stay in the cache until all outputs have them

struct SharedOffer {
  gpu_window::ExportedWindow endpoint{};
  TroubleText trouble{};
};

class Block {
 public:
  explicit Block(const StreamCall& call, std::size_t ranks) : call_(call), ranks_(static_cast<Rank>(ranks)) {}

  // out = the reduction of that many elements.
  void reduce(void* out, std::span<const void* const> ins, Elements count) {
    const bool average = call_.scale == StreamCall::Scale::average;
    if (!average || !is_half(call_.type)) {
      ddl::reduce(call_.type, call_.op, out, ins, count);
      if (average) divide(call_.type, out, count, ranks_);
      return;
    }
    // Rounded once.
    wide_.resize(ins.size() * kBlock);
    pointers_.clear();
    for (std::size_t i = 0; i < ins.size(); ++i) {
      widen(call_.type, &wide_[i * kBlock], ins[i], count);
      pointers_.push_back(&wide_[i * kBlock]);
    }
    ddl::reduce(DType::float32, call_.op, wide_.data(), pointers_, count);
    divide(DType::float32, wide_.data(), count, ranks_);
    narrow(call_.type, out, wide_.data(), count);
  }

 private:
  const StreamCall& call_;
  const Rank ranks_;
  std::vector<float> wide_;
  std::vector<const void*> pointers_;
};

}  // namespace

std::unique_ptr<HostPath> HostPath::agree_on(PeerWatch& watch, cuda::Context context, Rank rank, bool may) {
  std::unique_ptr<HostPath> path(new HostPath);
  SharedOffer mine;
  mine.trouble = trouble_with([&]() -> std::string {
    if (!may) return "its streams wait in host functions";
    path->own_ = gpu_window::take_on_host(*gpu::driver(), context, kShared);
    std::memset(path->own_.host, 0, kFlags);  // it may have been used before
    return {};
  });
  mine.endpoint = path->own_.endpoint;
  const std::vector<SharedOffer> offers = watch.all_of(mine);
  if (!first_trouble(offers).empty()) return path->is_abandoned_ = false, nullptr;
  const Outcome outcome{trouble_with([&]() -> std::string {
    for (const SharedOffer& offer : offers) {
      const bool is_own = path->of_others_.size() == static_cast<std::size_t>(rank);
      path->of_others_.push_back(is_own ? nullptr : gpu_window::open_host(offer.endpoint));
      path->staging_.of_rank.push_back(is_own ? path->own_.host : path->of_others_.back().get());
    }
    return {};
  })};
  const bool all_can = first_trouble(watch.all_of(outcome)).empty();
  path->is_abandoned_ = false;
  if (!all_can) return nullptr;
  path->staging_.me = static_cast<std::size_t>(rank);
  path->staging_.on_device = path->own_.host_on_device;
  path->staging_.bytes = kShared;
  return path;
}

HostPath::~HostPath() {
  if (!own_.flags) return;
  if (is_abandoned_)
    gpu_window::abandon(std::move(own_));
  else
    gpu_window::give_back(std::move(own_));
}

bool HostPath::serves(const HostCall& what) const {
  const StreamCall& call = what.call;
  return call.kind == Kind::all_reduce && call.scale != StreamCall::Scale::times_scalar &&
         call.op <= Op::max && what.wire.is_exact() && call.count * size_of(call.type) >= kLeast;
}

void HostPath::work(const StreamCall& call, const StagedChunk& chunk) const {
  const std::size_t ranks = chunk.ins.size(), part = staging_.me * chunk.workers + chunk.worker;
  const Bytes most = round_up(divide_up(chunk.bytes, ranks * chunk.workers), kShareUnit);
  const Bytes begin = std::min(chunk.bytes, part * most), end = std::min(chunk.bytes, begin + most);
  const Bytes element = size_of(call.type);
  Block block(call, ranks);
  std::vector<const void*> ins(ranks);
  for (Bytes at = begin; at < end; at += kBlock * element) {
    const Bytes bytes = std::min(end - at, kBlock * element);
    for (std::size_t rank = 0; rank < ranks; ++rank) ins[rank] = chunk.ins[rank] + at;
    std::byte* const out = chunk.outs[staging_.me] + at;
    block.reduce(out, ins, bytes / element);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (rank != staging_.me) std::memcpy(chunk.outs[rank] + at, out, bytes);
  }
}

}  // namespace ddl
