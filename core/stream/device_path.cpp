#include "core/stream/device_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/stream/device.hpp"
#include "core/stream/trial.hpp"

namespace ddl {
namespace {

constexpr Nanoseconds kPatience = 2'000'000'000;

// Where the GPU has to change between processes for every meeting, calls of less than that for each rank are
// done sooner by the host: copies of up to a few hundred KiB are not kept waiting by such a change. On an
// H200, 64 KiB: 2 ranks 45 us by the host, 160 on the GPU; 4 ranks 120 and 480; as fast at 256 KiB and 1 MiB.
constexpr Bytes kBytesPerRankWorthAChange = Bytes{128} << 10;

// What the ranks tell each other. The text is for people.
struct DeviceOffer {
  Bytes bytes = 0;
  bool has_mps = false;  // the GPU need not change between processes
  gpu_window::ExportedWindow endpoint{};
  TroubleText trouble{};
};

DeviceOp op_of(const StreamCall& call) {
  return call.scale == StreamCall::Scale::average ? DeviceOp::average : static_cast<DeviceOp>(call.op);
}
static_assert(static_cast<int>(DeviceOp::sum) == static_cast<int>(Op::sum) &&
              static_cast<int>(DeviceOp::prod) == static_cast<int>(Op::prod) &&
              static_cast<int>(DeviceOp::min) == static_cast<int>(Op::min) &&
              static_cast<int>(DeviceOp::max) == static_cast<int>(Op::max));

// The same on all ranks.
Bytes worth_a_change(const std::vector<DeviceOffer>& offers) {
  const bool is_one_process = std::all_of(offers.begin(), offers.end(), [&](const DeviceOffer& one) {
    return one.endpoint.of_process == offers[0].endpoint.of_process;
  });
  const bool shares = is_one_process || std::all_of(offers.begin(), offers.end(),
                                                    [](const DeviceOffer& one) { return one.has_mps; });
  return shares ? 0 : offers.size() * kBytesPerRankWorthAChange;
}

}  // namespace

// What is in the way on this rank.
std::string DevicePath::set_up(cuda::Context context, const Place& place, gpu_window::Own& own) {
  if (place.staging == 0) return "DDL_GPU_STAGING_BYTES is 0";
  if (!place.one_host) return "its ranks are on several hosts";
  if (place.size > static_cast<Rank>(kernels::kMostBuffers))
    return fmt::format("it has more than {} ranks", kernels::kMostBuffers);
  if (!cuda::has_stream_memory_operations(*gpu::driver(), gpu::device_of(context)))
    return "the GPU has no stream memory operations";
  if (const auto& loaded = ReduceKernels::of(*gpu::driver(), context); !loaded.kernels) return loaded.why;
  own = gpu_window::take(*gpu::driver(), context, place.staging);
  return {};
}

DevicePath::Agreed DevicePath::agree_on(PeerWatch& watch, cuda::Context context, const Place& place) {
  std::unique_ptr<DevicePath> path(new DevicePath);
  path->size_ = place.size;
  DeviceCalls::Layout layout{static_cast<std::size_t>(place.rank), {}, place.staging};
  if (place.size == 1) {
    layout.windows.resize(1);
    path->calls_ = std::make_unique<DeviceCalls>(*gpu::driver(), context, nullptr, std::move(layout));
    return {std::move(path), ""};
  }
  DeviceOffer mine{place.staging, cuda::has_mps(*gpu::driver(), gpu::device_of(context)), {}, {}};
  mine.trouble = trouble_with([&] { return set_up(context, place, path->own_); });
  mine.endpoint = path->own_.endpoint;
  path->is_shown_ = true;
  std::vector<DeviceOffer> offers = watch.all_of(mine);
  if (std::string wrong = first_trouble(offers); !wrong.empty())
    return path->is_shown_ = false, Agreed{nullptr, wrong};
  path->least_bytes_ = worth_a_change(offers);
  layout.raiser = path->own_.raiser;
  const Outcome outcome{trouble_with([&]() -> std::string {
    for (std::size_t rank = 0; rank < offers.size(); ++rank) {
      layout.bytes = std::min(layout.bytes, offers[rank].bytes);
      layout.windows.push_back(rank == layout.me
                                   ? path->own_.window
                                   : gpu_window::open(*gpu::driver(), context, offers[rank].endpoint));
    }
    path->calls_ = std::make_unique<DeviceCalls>(
        *gpu::driver(), context, ReduceKernels::of(*gpu::driver(), context).kernels, std::move(layout));
    return {};
  })};
  const std::string wrong = first_trouble(watch.all_of(outcome));
  path->is_shown_ = false;
  if (!wrong.empty()) return {nullptr, wrong};
  return {std::move(path), ""};
}

// The others are about to be done with the window, having made the same calls. After a failure they may still
// read it and raise flags there, so that nobody can use it again.
DevicePath::~DevicePath() {
  if (!own_.flags) return;
  const Nanoseconds until = now() + kPatience;
  for (Patience patience; calls_ && calls_->is_waiting_for_others() && now() < until;) patience.wait();
  if (!is_shown_ && (!calls_ || calls_->is_done())) {
    gpu_window::give_back(std::move(own_));
    return;
  }
  if (calls_ && calls_->passed() != calls_->submitted())
    log_warning(Error::sentence(
        "a stream does not come to an end",
        fmt::format("an all-reduce on it was aborted, and {} MiB of GPU memory that it may still "
                    "use are left behind",
                    own_.bytes >> 20),
        ""));
  gpu_window::abandon(std::move(own_));
}

bool DevicePath::serves(const StreamCall& call) const {
  if (call.kind != Kind::all_reduce || call.scale == StreamCall::Scale::times_scalar) return false;
  if (call.count * size_of(call.type) < least_bytes_) return false;
  return call.op <= Op::max && call.type != DType::int16 && call.type != DType::uint16;
}

Submitted DevicePath::submit(const StreamCall& call, const std::function<void()>& announce) {
  auto note_and_announce = [&] {
    {
      std::lock_guard lock(mutex_);
      names_.push_back(call.name);
    }
    announce();
  };
  return calls_->submit({call.in, call.out, call.count, call.type, op_of(call)}, call.stream,
                        std::ref(note_and_announce));
}

int DevicePath::newly_passed() {
  if (is_alone()) return 0;
  std::lock_guard lock(mutex_);
  auto count = std::min(names_.size(), static_cast<std::size_t>(calls_->passed() - passed_));
  names_.erase(names_.begin(), names_.begin() + static_cast<std::ptrdiff_t>(count));
  passed_ += count;
  return static_cast<int>(count);
}

const char* DevicePath::under_way() const {
  std::lock_guard lock(mutex_);
  return names_.empty() ? nullptr : names_.front();
}

}  // namespace ddl
