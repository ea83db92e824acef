#!/usr/bin/python3
"""Data-parallel training of a digit classifier with PyTorch and mpi4py: an ordinary MPI program.

Every rank holds the whole model and takes its share of each batch. The gradients lie in one flat buffer, which
comm.Allreduce sums in place. The batch is the same whatever the number of ranks, and all seeds are fixed, so two
runs differ only in the order in which an all-reduce adds its terms.

  mpirun -np 2 /usr/bin/python3 train_digits.py [--steps N] [--json FILE] [--weights FILE.npy]
"""
import argparse
import hashlib
import json
import statistics
import sys
import time

import numpy
import torch
from mpi4py import MPI
from sklearn.datasets import load_digits

BATCH, RATE, MOMENTUM = 64, 0.1, 0.9
TEST_SAMPLES, WIDTH = 297, 1344


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps (default %(default)s)")
    parser.add_argument("--seed", type=int, default=2, help="of weights and batches (default %(default)s)")
    parser.add_argument("--json", help="write accuracy, losses and times to this file")
    parser.add_argument("--weights", help="write the final weights to this .npy file")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    return options


def words_of(images):
    """Each image as 49 words: the place of a 2x2 patch of pixels and its pattern in three grey levels."""
    grey = images.astype(numpy.int64) * 3 // 17
    pattern = 27 * grey[:, :-1, :-1] + 9 * grey[:, :-1, 1:] + 3 * grey[:, 1:, :-1] + grey[:, 1:, 1:]
    return torch.tensor(numpy.arange(49) * 81 + pattern.reshape(-1, 49))


def load_data(seed):
    """1500 training and 297 test images as scikit-learn carries them, in a fixed random order."""
    digits = load_digits()
    order = numpy.random.default_rng(seed).permutation(len(digits.target))
    words, labels = words_of(digits.images[order]), torch.tensor(digits.target[order], dtype=torch.int64)
    return (words[TEST_SAMPLES:], labels[TEST_SAMPLES:]), (words[:TEST_SAMPLES], labels[:TEST_SAMPLES])


def make_model():
    """Most parameters are in an embedding table, as in models of language and of recommendations: much to send for
    little to compute, which is where communication matters."""
    table = torch.nn.EmbeddingBag(49 * 81, WIDTH, mode="sum")
    torch.nn.init.normal_(table.weight, std=0.02)
    return torch.nn.Sequential(table, torch.nn.ReLU(), torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 10))


def flat_gradients(model):
    """One buffer that holds the gradients of all parameters: each parameter's .grad is a view into it."""
    flat = torch.zeros(sum(p.numel() for p in model.parameters()))
    offset = 0
    for parameter in model.parameters():
        parameter.grad = flat[offset:offset + parameter.numel()].view_as(parameter)
        offset += parameter.numel()
    return flat


def flat_weights(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()


def my_share(batch, comm):
    """The samples of this rank: consecutive ones, numbers differ by at most one."""
    return batch[len(batch) * comm.rank // comm.size:len(batch) * (comm.rank + 1) // comm.size]


def batches(samples, seed):
    """Batches of sample numbers without end, each epoch in a new order, the same on every rank."""
    random = numpy.random.default_rng(seed)
    while True:
        order = random.permutation(samples)
        for at in range(0, samples - BATCH + 1, BATCH):
            yield order[at:at + BATCH]


def accuracy_of(model, data):
    images, labels = data
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


class Trainer:
    """The model of one rank, and what each step measured."""

    def __init__(self, comm, data, seed):
        self.comm, self.images, self.labels = comm, *data
        torch.manual_seed(seed)
        self.model = make_model()
        self.gradients = flat_gradients(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=MOMENTUM)
        self.losses, self.step_seconds, self.comm_seconds, self.largest_gradients = [], [], [], []

    def step(self, batch):
        start = time.perf_counter()
        mine = my_share(batch, self.comm)
        self.gradients.zero_()
        loss = torch.nn.functional.cross_entropy(self.model(self.images[mine]), self.labels[mine],
                                                 reduction="sum") / len(batch)
        loss.backward()
        self.largest_gradients.append(torch.linalg.vector_norm(self.gradients, float("inf")).item())
        total_loss = numpy.array([loss.item()])
        before = time.perf_counter()
        self.comm.Allreduce(MPI.IN_PLACE, self.gradients.numpy())
        self.comm.Allreduce(MPI.IN_PLACE, total_loss)
        after = time.perf_counter()
        self.optimizer.step()
        self.losses.append(float(total_loss[0]))
        self.comm_seconds.append(after - before)
        self.step_seconds.append(time.perf_counter() - start)


def train(trainer, steps, seed, test_data):
    chosen = batches(len(trainer.labels), seed)
    for step in range(1, steps + 1):
        trainer.step(next(chosen))
        if trainer.comm.rank == 0 and (step % max(1, steps // 10) == 0 or step == 1):
            print(f"step {step:4d}/{steps}  loss {trainer.losses[-1]:.4f}  "
                  f"test accuracy {100 * accuracy_of(trainer.model, test_data):5.2f} %  "
                  f"{1e3 * trainer.step_seconds[-1]:6.1f} ms, {1e3 * trainer.comm_seconds[-1]:6.1f} ms of it "
                  f"in all-reduce", flush=True)


def reordering_bound(largest_gradients):
    """How far two runs may drift apart when their all-reduces add in another order, to first order.

    Adding p terms in float32 errs by at most (p-1) u sum|terms|, u = 2^-24, whatever the order; two orders differ by
    twice that. Momentum m lets a gradient error move a weight by rate/(1-m) times itself in all. Summed over the
    steps; that the next gradients see the moved weights is second order and left out, as is the rounding of the
    update. largest_gradients[r][t] bounds every term of rank r in step t. With two ranks a+b = b+a: no difference.
    """
    ranks = len(largest_gradients)
    if ranks <= 2:
        return 0.0
    terms = float(numpy.sum(largest_gradients))
    return 2 * (ranks - 1) * 2.0 ** -24 * terms * RATE / (1 - MOMENTUM)


def results_of(trainer, accuracy, weights, per_rank):
    """The JSON document. Times are medians over the steps after the first, which warms everything up."""
    waits = numpy.array([r["comm"] for r in per_rank])[:, min(1, len(trainer.losses) - 1):]
    return {
        "ranks": trainer.comm.size, "steps": len(trainer.losses), "batch": BATCH,
        "gradient_bytes": trainer.gradients.numel() * 4,
        "accuracy": accuracy, "losses": trainer.losses,
        "weights_sha256": hashlib.sha256(weights.tobytes()).hexdigest(),
        "same_weights_on_all_ranks": len({r["sha256"] for r in per_rank}) == 1,
        "step_seconds": statistics.median(trainer.step_seconds[1:] or trainer.step_seconds),
        "communication_seconds": float(numpy.median(waits.mean(axis=0))),  # what a rank sees, waiting included
        "transfer_seconds": float(numpy.median(waits.min(axis=0))),  # the rank that came last: it waits for nobody
        "reordering_bound": reordering_bound([r["largest"] for r in per_rank]),
        "mpi": MPI.Get_library_version().split(",")[0],
    }


def main():
    options = parse_arguments()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    comm = MPI.COMM_WORLD
    training_data, test_data = load_data(options.seed)
    trainer = Trainer(comm, training_data, options.seed)
    if comm.rank == 0:
        print(f"{comm.size} ranks, {len(training_data[1])} digits, {trainer.gradients.numel():,} parameters: "
              f"{trainer.gradients.numel() * 4 / 1e6:.1f} MB of gradients per step", flush=True)
    train(trainer, options.steps, options.seed, test_data)

    weights = flat_weights(trainer.model)
    mine = {"sha256": hashlib.sha256(weights.tobytes()).hexdigest(), "comm": trainer.comm_seconds,
            "largest": trainer.largest_gradients}
    per_rank = comm.gather(mine, root=0)
    if comm.rank != 0:
        return 0
    results = results_of(trainer, accuracy_of(trainer.model, test_data), weights, per_rank)
    if options.weights:
        numpy.save(options.weights, weights)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    print(f"step {1e3 * results['step_seconds']:.1f} ms, all-reduce {1e3 * results['communication_seconds']:.1f} ms "
          f"(medians)")
    same = "the same on all ranks" if results["same_weights_on_all_ranks"] else "DIFFERENT between the ranks"
    print(f"check: accuracy {100 * results['accuracy']:.2f} % final loss {results['losses'][-1]:.6f} "
          f"weights {results['weights_sha256'][:16]} {same}", flush=True)
    return 0 if results["same_weights_on_all_ranks"] else 1


if __name__ == "__main__":
    sys.exit(main())
