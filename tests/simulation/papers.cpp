#include "papers.hpp"

namespace ddl::simulation {
namespace {

constexpr double kImageNet = 1'281'167;  // training images

/// Seconds of computing in an iteration, from the time of a whole training and its scaling efficiency.
double compute_of(double training, double epochs, double batch, double efficiency) {
  return training / (epochs * kImageNet / batch) * efficiency;
}

}  // namespace

std::vector<Workload> workloads() {
  // PowerAI DDL: 90 epochs of ResNet-50 in 50 minutes on 256 GPUs at 95 %; 32 images per GPU.
  double resnet = compute_of(50 * 60, 90, 256 * 32, 0.95);
  // GradientFlow: 95 epochs of AlexNet in 1.5 minutes on 512 GPUs, 410.2 times one GPU; 128 images per GPU.
  double alexnet = compute_of(1.5 * 60, 95, 512 * 128, 410.2 / 512);
  const Bytes resnet_bytes = 102'400'000, alexnet_bytes = 244'000'000;
  return {
      {"ResNet-50, 256 GPUs (PowerAI DDL)", find_cluster("64x4"), resnet_bytes, resnet, "95 %"},
      {"ResNet-50, 192 GPUs (BlueConnect)", find_cluster("48x4"), resnet_bytes, resnet, "-"},
      {"AlexNet, 64 GPUs, 56 Gbit/s (GradientFlow)", find_cluster("8x8"), alexnet_bytes, alexnet, "3.9 %"},
      {"AlexNet, 512 GPUs, float32", find_cluster("64x8"), alexnet_bytes, alexnet, "-"},
      {"AlexNet, 512 GPUs, float16", find_cluster("64x8"), alexnet_bytes / 2, alexnet, "-"},
      {"AlexNet, 512 GPUs, float16, 15 % (sparse)", find_cluster("64x8"), alexnet_bytes / 2 * 15 / 100,
       alexnet, "80.1 %"}};
}

}  // namespace ddl::simulation
