#!/usr/bin/python3
"""Data-parallel training over gloo, a model per seed: prints the test accuracies as one line of JSON.

train.py --network mlp|convolutional [--seeds N] [--steps N]
"""
import argparse
import json
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

BATCH, TEST, RATE, MOMENTUM = 64, 597, 0.05, 0.9


def load():
    """1200 training and 597 test images of 8 x 8 as scikit-learn carries them, in a fixed random order."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(1))
    images = torch.tensor(digits.images, dtype=torch.float32)[order].unsqueeze(1) / 16
    labels = torch.tensor(digits.target)[order]
    return images[TEST:], labels[TEST:], images[:TEST], labels[:TEST]


def make_model(network):
    nn = torch.nn
    if network == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10))


def train(network, seed, steps, data):
    """Test accuracy, and whether all ranks ended with the same weights."""
    images, labels, test_images, test_labels = data
    torch.manual_seed(seed)
    group = dist.new_group()  # what is kept of one model's gradients must not be added to the next one's
    model = DistributedDataParallel(make_model(network), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    order = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randint(len(labels), (BATCH,), generator=order)[dist.get_rank()::dist.get_world_size()]
        loss = torch.nn.functional.cross_entropy(model(images[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    of_all = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, weights)
    with torch.no_grad():
        right = (model.module(test_images).argmax(1) == test_labels).float().mean().item()
    return right, all(torch.equal(weights, other) for other in of_all)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=("mlp", "convolutional"), required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    data = load()
    results = [train(options.network, seed, options.steps, data) for seed in range(1, options.seeds + 1)]
    if dist.get_rank() == 0:
        print(json.dumps({"accuracies": [right for right, _ in results], "same": all(same for _, same in results)}),
              flush=True)
    dist.barrier()
    time.sleep(0.3)  # PyTorch aborts where a thread of its own is the last to hold the group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
