#!/usr/bin/env python3
"""Data-parallel training with ChainerMN's "naive" communicator over mpi4py: handwritten digits of scikit-learn."""
import hashlib
import statistics
import time

import chainer
import chainermn
import numpy
from sklearn.datasets import load_digits

STEPS, BATCH, TEST, WIDTH = 150, 64, 297, 512


class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.first = chainer.links.Linear(64, WIDTH)
            self.second = chainer.links.Linear(WIDTH, WIDTH)
            self.last = chainer.links.Linear(WIDTH, 10)

    def __call__(self, x):
        return self.last(chainer.functions.relu(self.second(chainer.functions.relu(self.first(x)))))


def main():
    comm = chainermn.create_communicator("naive")
    numpy.random.seed(2)
    images, labels = load_digits(return_X_y=True)
    order = numpy.random.RandomState(1).permutation(len(labels))
    images, labels = images[order].astype(numpy.float32) / 16, labels[order].astype(numpy.int32)
    model = Net()
    optimizer = chainermn.create_multi_node_optimizer(chainer.optimizers.MomentumSGD(lr=0.1, momentum=0.9), comm)
    optimizer.setup(model)
    batches = numpy.random.RandomState(3)
    times = []
    for step in range(1, STEPS + 1):
        batch = TEST + batches.randint(len(labels) - TEST, size=BATCH)[comm.rank::comm.size]
        began = time.perf_counter()
        loss = chainer.functions.softmax_cross_entropy(model(images[batch]), labels[batch])
        model.cleargrads()
        loss.backward()
        optimizer.update()
        times.append(time.perf_counter() - began)
        if comm.rank == 0 and step % 50 == 0:
            with chainer.no_backprop_mode():
                right = (model(images[:TEST]).array.argmax(1) == labels[:TEST]).mean()
            print(f"step {step:3d}  loss {float(loss.array):.4f}  test accuracy {100 * right:.2f} %  "
                  f"{1e3 * statistics.median(times):.1f} ms a step", flush=True)
    weights = numpy.concatenate([parameter.array.ravel() for _, parameter in sorted(model.namedparams())])
    digests = comm.gather_obj(hashlib.sha256(weights.tobytes()).hexdigest()[:16])
    if comm.rank == 0:
        print("weights", digests[0], "the same on all ranks" if len(set(digests)) == 1 else "DIFFERENT")


if __name__ == "__main__":
    main()
