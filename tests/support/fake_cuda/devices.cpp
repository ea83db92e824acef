#include "tests/support/fake_cuda/devices.hpp"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_cuda/prototypes.hpp"
#include "tests/support/fake_cuda/streams.hpp"

namespace fake_cuda {
namespace {

using namespace ddl::cuda;

std::atomic<bool> ready{false};
thread_local bool is_host_function = false;

// The ordinals of the machine that this process sees, in its own order.
std::vector<int> read_visible_devices() {
  const char* count = std::getenv("FAKE_CUDA_DEVICES");
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  int all = count ? std::atoi(count) : 1;
  std::vector<int> devices;
  if (!visible) {
    for (int i = 0; i < all; ++i) devices.push_back(i);
    return devices;
  }
  std::istringstream list(visible);
  for (std::string item; std::getline(list, item, ',');) {
    int ordinal = item.empty() ? -1 : std::atoi(item.c_str());
    if (ordinal < 0 || ordinal >= all) break;  // as in CUDA: the first bad one ends the list
    devices.push_back(ordinal);
  }
  return devices;
}

const std::vector<int>& visible_devices() {
  static const std::vector<int>* devices = new std::vector<int>(read_visible_devices());
  return *devices;
}

struct PrimaryContext {
  Device device;
  Stream default_stream;
};

struct Contexts {
  std::mutex mutex;
  std::map<Device, PrimaryContext*> by_device;
};

Contexts& contexts() {
  static Contexts* all = new Contexts;
  return *all;
}

PrimaryContext* inside(Context context) { return reinterpret_cast<PrimaryContext*>(context); }

// Without a destructor: exit handlers still make calls.
struct Stack {
  Context at[64];
  std::size_t depth;
  bool empty() const { return depth == 0; }
  Context back() const { return at[depth - 1]; }
  void pop_back() { --depth; }
  void push_back(Context context) {
    if (depth == std::size(at)) std::abort();
    at[depth++] = context;
  }
};
thread_local Stack stack;

// This thread's own default stream in a context, made when first meant.
Stream per_thread_stream(Context context) {
  thread_local std::map<Context, Stream> streams;
  Stream& stream = streams[context];
  if (!stream) stream = make_stream(context, 0);
  return stream;
}

struct Failures {
  std::mutex mutex;
  std::map<std::string, unsigned long, std::less<>> calls;
  std::string function;
  int calls_from_now = 0;
  Result result = kSuccess;
};

Failures& failures() {
  static Failures* all = new Failures;
  return *all;
}

}  // namespace

Result initialise() {
  if (visible_devices().empty()) return kNoDevice;
  ready = true;
  return kSuccess;
}

Result initialised() { return is_host_function ? kNotPermitted : ready ? kSuccess : kNotInitialized; }

void run_host_function(void (*function)(void*), void* data) {
  struct Line {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t last = 0, next = 1;
  };
  static Line* line = new Line;  // outlives exit handlers of the program
  std::unique_lock lock(line->mutex);
  const std::uint64_t mine = ++line->last;
  line->changed.wait(lock, [mine] { return line->next == mine; });
  lock.unlock();
  is_host_function = true;
  function(data);
  is_host_function = false;
  lock.lock();
  ++line->next;
  line->changed.notify_all();
}
int device_count() { return static_cast<int>(visible_devices().size()); }
bool device_exists(Device device) { return device >= 0 && device < device_count(); }

Uuid uuid_of(Device device) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  auto hash = static_cast<unsigned>(std::hash<std::string_view>{}(host));
  Uuid uuid = {};
  std::memcpy(uuid.bytes, "fake", 4);
  std::memcpy(uuid.bytes + 4, &hash, sizeof hash);
  uuid.bytes[15] = static_cast<char>(visible_devices()[static_cast<std::size_t>(device)]);
  return uuid;
}

Context primary_context(Device device) {
  std::lock_guard lock(contexts().mutex);
  PrimaryContext*& context = contexts().by_device[device];
  if (!context) {
    context = new PrimaryContext{device, nullptr};
    context->default_stream = make_stream(reinterpret_cast<Context>(context), 0);
    make_legacy_default(context->default_stream);
  }
  return reinterpret_cast<Context>(context);
}

bool is_context(Context context) {
  std::lock_guard lock(contexts().mutex);
  for (const auto& [device, known] : contexts().by_device)
    if (known == inside(context)) return true;
  return false;
}

Device device_of(Context context) { return inside(context)->device; }

Context current() { return stack.empty() ? nullptr : stack.back(); }

void set_current(Context context) {
  if (!stack.empty()) stack.pop_back();
  if (context) stack.push_back(context);
}

void push(Context context) { stack.push_back(context); }

bool pop(Context& context) {
  if (stack.empty()) return false;
  context = stack.back();
  stack.pop_back();
  return true;
}

Result stream_meant(Stream given, Stream& meant) {
  RETURN_IF_FAILED(initialised());
  meant = given;
  if (given && given != kStreamLegacy && given != kStreamPerThread) return kSuccess;
  if (!current()) return kInvalidContext;
  meant = given == kStreamPerThread ? per_thread_stream(current()) : inside(current())->default_stream;
  return kSuccess;
}

Result on_call(const char* function) {
  if (Result result = initialised()) return result;
  Failures& all = failures();
  std::lock_guard lock(all.mutex);
  ++all.calls[function];
  if (all.calls_from_now == 0 || all.function != function || --all.calls_from_now > 0) return kSuccess;
  return all.result;
}

}  // namespace fake_cuda

int fake_cuda_fail(const char* function, int calls_from_now, int result) {
  fake_cuda::Failures& all = fake_cuda::failures();
  std::lock_guard lock(all.mutex);
  all.function = function;
  all.calls_from_now = calls_from_now;
  all.result = result;
  return 0;
}

unsigned long fake_cuda_calls(const char* function) {
  fake_cuda::Failures& all = fake_cuda::failures();
  std::lock_guard lock(all.mutex);
  auto found = all.calls.find(std::string_view(function));
  return found == all.calls.end() ? 0 : found->second;
}
