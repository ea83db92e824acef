"""An all-reduce of PyTorch's captured into a CUDA graph and replayed: of one rank, by NCCL, or of several on one GPU."""
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
right = 0
for _ in range(3):
    graph.replay()
    right = (right + 1) * dist.get_world_size()
torch.cuda.synchronize()
assert numbers.eq(right).all(), (numbers[0].item(), right)
if dist.get_rank() == 0:
    print(f"graph: {dist.get_world_size()} ranks, replayed three times")
dist.barrier()
dist.destroy_process_group()
