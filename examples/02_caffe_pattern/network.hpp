// A small network of fully connected layers on the memory of the host, one layer at a time, and the samples
// that it learns: what in Caffe would be layers, data and solver. It knows neither CUDA nor NCCL.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

constexpr int kLayers = 3;
constexpr int kWidths[kLayers + 1] = {16, 64, 64, 4};  // inputs, two hidden layers of tanh, linear outputs
constexpr int kSamples = 203, kIterations = 60;        // ranks get shards of different sizes

using Weights = std::array<std::vector<float>, kLayers>;  // rows of the factors of an output, then its bias
constexpr std::size_t parameters(int layer) { return (kWidths[layer] + 1ul) * kWidths[layer + 1]; }
Weights first_weights(unsigned seed);
void descend(std::size_t count, float* weights, const float* gradient);  // one step

/// Some of the samples, and what the passes over the layers leave for each other: forward from the first to
/// the last, then backward. Loss and gradient are these samples' parts of the mean over *all* samples.
class Shard {
 public:
  Shard(int begin, int end);
  void forward(int layer, const float* weights);
  void backward(int layer, const float* weights, float* gradient);
  double loss(const Weights& weights);

 private:
  int samples_;
  std::vector<float> values_[kLayers + 1], targets_;  // of the inputs, and of each layer's outputs
  std::vector<float> errors_;  // derivatives of the loss by the outputs of the layer whose turn is next
};

/// What one rank with all samples learns, without CUDA and NCCL.
Weights train_alone();
