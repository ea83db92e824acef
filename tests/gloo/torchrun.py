"""torchrun of PyTorch 1.13, which under Python 3.11 takes no redirection for an error."""
import torch.distributed.elastic.multiprocessing as multiprocessing
import torch.distributed.run

original = multiprocessing.to_map
multiprocessing.to_map = lambda asked, ranks: original(multiprocessing.Std.NONE if asked is None else asked, ranks)
torch.distributed.run.main()
