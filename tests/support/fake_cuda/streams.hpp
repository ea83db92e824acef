// Streams and events of the test double: ordered queues, each worked off by a thread of its own. Streams are
// handled by pointer and checked against a list, so that a stale handle is refused and not followed.
// Thread safety: all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/device/cuda_driver.hpp"

namespace fake_cuda {

using ddl::cuda::Context;
using ddl::cuda::Event;
using ddl::cuda::Graph;
using ddl::cuda::Result;
using ddl::cuda::Stream;

// Those of CUDA's results and modes about captures that only the double has a use for.
constexpr Result kCaptureInvalid = 901, kCaptureMerge = 902, kCaptureUnmatched = 903, kCaptureUnjoined = 904,
                 kCaptureIsolation = 905, kCapturedEvent = 907, kCaptureWrongThread = 908;
constexpr int kCaptureGlobal = 0;

/// A stream of `context` that exists until its work is done and it is destroyed. Flags: kStreamNonBlocking.
Stream make_stream(Context context, unsigned flags);
/// Makes `stream` the one that waits for the others of its context and they for it.
void make_legacy_default(Stream stream);
Result destroy_stream(Stream stream);

/// Puts one operation behind all that the stream has (and, for the default stream's sake, others have).
Result submit(Stream stream, std::function<void()> operation);
Result synchronize(Stream stream);
Result query(Stream stream);
Result context_of(Stream stream, Context& context);
Result id_of(Stream stream, unsigned long long& id);
/// Waits until all streams of a context have done what they had when it was called.
void synchronize_all(Context context);

/// Recorded by streams of its context alone.
Event make_event(Context context);
Result destroy_event(Event event);
Result record(Event event, Stream stream);
Result wait_for(Stream stream, Event event);
Result query(Event event);
Result synchronize(Event event);

Result begin_capture(Stream stream, int mode);
Result end_capture(Stream stream, Graph& graph);
Result capture_status(Stream stream, int& status, unsigned long long* id = nullptr);
Result destroy_graph(Graph graph);
Result copy_graph(Graph graph, Graph& copy);
Result exchange_capture_mode(int& mode);
/// Of calls that are not safe while anything is captured, by this thread or, in the global mode, by any: that
/// capture is invalid from then on. A thread in the relaxed mode may.
Result refuse_during_capture();
/// Its operations one after the other, in CapturedGraph::order().
Result launch_graph(Graph graph, Stream stream);

}  // namespace fake_cuda
