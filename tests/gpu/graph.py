"""An all-reduce of NCCL's own, of one rank, captured into a CUDA graph and replayed."""
import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
numbers = torch.zeros(100000, device="cuda")
dist.all_reduce(numbers)  # the communicator is made before the capture
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    numbers += 1
    dist.all_reduce(numbers)
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
assert numbers.eq(3).all(), numbers[0].item()
print("graph: replayed three times")
dist.destroy_process_group()
