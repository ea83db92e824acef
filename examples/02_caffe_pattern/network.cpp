#include "network.hpp"

#include <algorithm>
#include <cmath>
#include <random>

Weights first_weights(unsigned seed) {
  Weights weights;
  std::mt19937 random(seed);
  for (int layer = 0; layer < kLayers; ++layer) {
    std::uniform_real_distribution<float> uniform(-0.3f, 0.3f);
    weights[layer].resize(parameters(layer));
    for (float& weight : weights[layer]) weight = uniform(random);
  }
  return weights;
}

void descend(std::size_t count, float* weights, const float* gradient) {
  for (std::size_t i = 0; i < count; ++i) weights[i] -= 0.1f * gradient[i];
}

Shard::Shard(int begin, int end) : samples_(end - begin) {
  for (int layer = 0; layer <= kLayers; ++layer) values_[layer].resize(samples_ * kWidths[layer]);
  for (int sample = begin; sample < end; ++sample) {
    std::mt19937 random(sample);  // the same samples, whoever has them
    std::uniform_real_distribution<float> uniform(-1, 1);
    float* in = values_[0].data() + (sample - begin) * kWidths[0];
    for (int i = 0; i < kWidths[0]; ++i) in[i] = uniform(random);
    for (int o = 0; o < kWidths[kLayers]; ++o)
      targets_.push_back(std::sin(2 * in[o]) + in[o + 4] * in[o + 8]);
  }
}

void Shard::forward(int layer, const float* weights) {
  int inputs = kWidths[layer], outputs = kWidths[layer + 1];
  for (int sample = 0; sample < samples_; ++sample) {
    const float *in = values_[layer].data() + sample * inputs, *row = weights;
    float* out = values_[layer + 1].data() + sample * outputs;
    for (int o = 0; o < outputs; ++o, row += inputs + 1) {
      out[o] = row[inputs];
      for (int i = 0; i < inputs; ++i) out[o] += row[i] * in[i];
      if (layer + 1 < kLayers) out[o] = std::tanh(out[o]);
    }
  }
}

void Shard::backward(int layer, const float* weights, float* gradient) {
  int inputs = kWidths[layer], outputs = kWidths[layer + 1];
  std::vector<float> results = values_[layer + 1], errors_of_inputs(values_[layer].size());
  bool is_last = layer + 1 == kLayers;
  if (is_last) errors_ = results;
  for (std::size_t i = 0; i < results.size(); ++i)  // of the loss, or of tanh
    errors_[i] = is_last ? (results[i] - targets_[i]) / kSamples : errors_[i] * (1 - results[i] * results[i]);
  std::fill_n(gradient, parameters(layer), 0.0f);
  for (int sample = 0; sample < samples_; ++sample) {
    const float *in = values_[layer].data() + sample * inputs, *row = weights;
    float *error_in = errors_of_inputs.data() + sample * inputs, *sum = gradient;
    for (int o = 0; o < outputs; ++o, row += inputs + 1, sum += inputs + 1) {
      float error = errors_[sample * outputs + o];
      for (int i = 0; i < inputs; ++i) sum[i] += error * in[i];
      for (int i = 0; i < inputs; ++i) error_in[i] += error * row[i];
      sum[inputs] += error;
    }
  }
  errors_ = std::move(errors_of_inputs);
}

double Shard::loss(const Weights& weights) {
  double squares = 0;
  for (int layer = 0; layer < kLayers; ++layer) forward(layer, weights[layer].data());
  for (std::size_t i = 0; i < targets_.size(); ++i) squares += std::pow(values_[kLayers][i] - targets_[i], 2);
  return squares / 2 / kSamples;
}

Weights train_alone() {
  Weights weights = first_weights(0), gradient = weights;
  Shard all(0, kSamples);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    for (int i = 0; i < kLayers; ++i) all.forward(i, weights[i].data());
    for (int i = kLayers; i-- > 0;) all.backward(i, weights[i].data(), gradient[i].data());
    for (int i = 0; i < kLayers; ++i) descend(parameters(i), weights[i].data(), gradient[i].data());
  }
  return weights;
}
