"""An all-reduce of PyTorch's captured into a CUDA graph and replayed a hundred times: of one rank, by NCCL, or of several on one GPU."""
import torch
import torch.distributed as dist

REPLAYS = 100
torch.cuda.set_device(0)
dist.init_process_group("nccl")
numbers = torch.zeros(100000, device="cuda")
dist.all_reduce(numbers)  # the communicator is made before the capture
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    numbers += dist.get_rank() + 1
    dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
for replay in range(1, REPLAYS + 1):
    graph.replay()
    if replay % 10 == 0:
        torch.cuda.synchronize()
        assert numbers.eq(replay * dist.get_world_size()).all(), (replay, numbers[0].item())
if dist.get_rank() == 0:
    print(f"graph: {dist.get_world_size()} ranks, replayed {REPLAYS} times")
dist.barrier()
dist.destroy_process_group()
