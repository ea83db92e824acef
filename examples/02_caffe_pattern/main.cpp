// caffe_pattern [RANKS]: how Caffe trains on several GPUs with NCCL, as README.md tells. RANKS is the number
// of GPUs unless given; more than that share GPUs. What would be kernels are functions of the host here, on
// the same streams between copies, so that no CUDA compiler is needed.
#include <cuda.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <thread>

#include "network.hpp"

namespace {

[[noreturn]] void fail(const char* call, const char* error, const char* detail) {
  std::fprintf(stderr, "caffe_pattern: %s: %s%s%s\n", call, error, *detail ? ": " : "", detail);
  std::_Exit(1);
}

void must(CUresult result, const char* call) {
  const char* name = "unknown error";
  if (result != CUDA_SUCCESS) cuGetErrorName(result, &name), fail(call, name, "");
}

void must(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) fail(call, ncclGetErrorString(result), ncclGetLastError(nullptr));
}

#define MUST(call) must(call, #call)

// Numbers on the GPU, and a pinned copy of them for the functions that stand for kernels.
struct Blob {
  explicit Blob(std::size_t numbers) : count(numbers), bytes(numbers * sizeof(float)) {
    MUST(cuMemAlloc(&device, bytes));
    MUST(cuMemHostAlloc(reinterpret_cast<void**>(&host), bytes, CU_MEMHOSTALLOC_PORTABLE));
  }
  void to_host(CUstream stream) const { MUST(cuMemcpyDtoHAsync(host, device, bytes, stream)); }
  void to_device(CUstream stream) const { MUST(cuMemcpyHtoDAsync(device, host, bytes, stream)); }
  std::size_t count, bytes;
  float* host;
  CUdeviceptr device;
};

using Work = std::function<void()>;

// Stands for a kernel: the work, which must live as long, runs when all before it on the stream is done.
void launch(CUstream stream, Work& work) {
  MUST(cuLaunchHostFunc(
      stream, [](void* given) { (*static_cast<Work*>(given))(); }, &work));
}

struct Layer {
  explicit Layer(std::size_t count) : weights(count), gradient(count) {
    for (CUevent* one : {&gradient_ready, &weights_ready}) MUST(cuEventCreate(one, CU_EVENT_DISABLE_TIMING));
  }
  Blob weights, gradient;
  CUevent gradient_ready, weights_ready;
  Work forward, backward, update;
};

// Made by the main thread, trained by its own. Nothing is freed before the process ends: freeing waits for
// the whole GPU, and so for other ranks on it, which may be waiting for this one.
class Rank {
 public:
  Rank(int rank, int ranks, CUcontext context)
      : context_(context), shard_(kSamples * rank / ranks, kSamples * (rank + 1) / ranks) {
    for (CUstream* one : {&compute_, &communication_}) MUST(cuStreamCreate(one, CU_STREAM_NON_BLOCKING));
    Weights first = first_weights(rank);
    for (int i = 0; i < kLayers; ++i) {
      Layer& layer = layers_.emplace_back(parameters(i));
      float *weights = layer.weights.host, *gradient = layer.gradient.host;
      std::copy(first[i].begin(), first[i].end(), weights);
      layer.forward = [this, i, weights] { shard_.forward(i, weights); };
      layer.backward = [this, i, weights, gradient] { shard_.backward(i, weights, gradient); };
      layer.update = [i, weights, gradient] { descend(parameters(i), weights, gradient); };
    }
  }

  void train(ncclComm_t comm) {
    ncclResult_t state;
    MUST(cuCtxSetCurrent(context_));
    broadcast_weights(comm);
    for (int iteration = 0; iteration < kIterations; ++iteration) iterate(comm);
    for (const Layer& layer : layers_) layer.weights.to_host(communication_);
    MUST(cuStreamSynchronize(communication_));  // never the whole GPU: see above
    MUST(ncclCommGetAsyncError(comm, &state));
    must(state, "training");
    MUST(ncclCommDestroy(comm));
  }

  const float* weights(int layer) const { return layers_[layer].weights.host; }

 private:
  void broadcast_weights(ncclComm_t comm) {
    for (const Layer& layer : layers_) {
      void* weights = reinterpret_cast<void*>(layer.weights.device);
      layer.weights.to_device(communication_);
      MUST(ncclBroadcast(weights, weights, layer.weights.count, ncclFloat32, 0, comm, communication_));
      MUST(cuEventRecord(layer.weights_ready, communication_));
    }
  }

  // Only queues work: the streams wait for each other, and this thread for none.
  void iterate(ncclComm_t comm) {
    for (Layer& layer : layers_) {
      MUST(cuStreamWaitEvent(compute_, layer.weights_ready, 0));
      layer.weights.to_host(compute_);
      launch(compute_, layer.forward);
    }
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      launch(compute_, layer->backward);
      layer->gradient.to_device(compute_);
      MUST(cuEventRecord(layer->gradient_ready, compute_));
      sum_and_update(*layer, comm);
    }
  }

  // Meanwhile the backward passes go on with the layers before this one, which need its weights no more.
  void sum_and_update(Layer& layer, ncclComm_t comm) {
    void* gradient = reinterpret_cast<void*>(layer.gradient.device);
    MUST(cuStreamWaitEvent(communication_, layer.gradient_ready, 0));
    MUST(ncclAllReduce(gradient, gradient, layer.gradient.count, ncclFloat32, ncclSum, comm, communication_));
    layer.gradient.to_host(communication_);
    launch(communication_, layer.update);
    layer.weights.to_device(communication_);
    MUST(cuEventRecord(layer.weights_ready, communication_));
  }

  CUcontext context_;
  Shard shard_;
  CUstream compute_, communication_;
  std::deque<Layer> layers_;  // the streams know their addresses
};

int verdict(const std::deque<Rank>& ranks) {
  Weights alone = train_alone(), trained = alone;
  Shard all(0, kSamples);
  double before = all.loss(first_weights(0)), largest = 0;
  bool good = true;
  for (const Rank& rank : ranks)
    for (int i = 0; i < kLayers; ++i)
      for (std::size_t k = 0; k < parameters(i); ++k) {
        double difference = std::fabs((trained[i][k] = rank.weights(i)[k]) - alone[i][k]);
        largest = std::max(largest, difference);
        good &= difference <= 1e-5;  // float32 sums in another order; false for a NaN
      }
  double after = all.loss(trained);
  good &= after < before / 2;
  std::printf("%zu ranks, %d iterations: weights differ by at most %.1e; loss %.4f -> %.4f: %s\n",
              ranks.size(), kIterations, largest, before, after, good ? "ok" : "WRONG");
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int gpus = 0;
  MUST(cuInit(0));
  MUST(cuDeviceGetCount(&gpus));
  int size = argc > 1 ? std::atoi(argv[1]) : gpus;
  if (argc > 2 || size < 1 || size > kSamples || gpus < 1)
    return std::fprintf(stderr, "usage: caffe_pattern [RANKS], 1 to %d, and a GPU\n", kSamples), 2;
  std::deque<Rank> ranks;
  std::vector<int> devices;
  for (int rank = 0; rank < size; ++rank) {
    CUcontext context;
    devices.push_back(rank % gpus);
    MUST(cuDevicePrimaryCtxRetain(&context, devices.back()));
    MUST(cuCtxSetCurrent(context));
    ranks.emplace_back(rank, size, context);
  }
  std::vector<ncclComm_t> comms(size);
  MUST(ncclCommInitAll(comms.data(), size, devices.data()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(&Rank::train, &ranks[rank], comms[rank]);
  for (std::thread& thread : threads) thread.join();
  return verdict(ranks);
}
