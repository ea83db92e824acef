#!/usr/bin/python3
"""Data-parallel training with numpy alone: two spirals, a net with one hidden layer. The gradient of a layer is
summed over the ranks while that of the layer before it is computed."""
import numpy

import ddl

SAMPLES, HIDDEN, STEPS, RATE = 2048, 64, 300, 0.5


def spirals():
    random = numpy.random.default_rng(1)
    kind = numpy.arange(SAMPLES) % 2
    turn = 2.5 * random.random(SAMPLES) + 0.3
    angle = 2.2 * turn + numpy.pi * kind
    points = numpy.stack([turn * numpy.cos(angle), turn * numpy.sin(angle)], axis=1)
    return points + 0.03 * random.standard_normal(points.shape), kind


def main():
    group = ddl.Group()
    points, kind = spirals()
    mine = slice(group.rank, SAMPLES, group.size)
    features = numpy.concatenate([points, numpy.sin(2 * points), numpy.cos(2 * points)], axis=1)
    random = numpy.random.default_rng(group.rank)  # rank 0's weights count
    first = random.standard_normal((features.shape[1] + 1, HIDDEN)) * 0.7
    second = random.standard_normal((HIDDEN + 1, 1)) * 0.2
    group.broadcast(first)
    group.broadcast(second)

    ones = numpy.ones((len(points[mine]), 1))
    inputs, labels = numpy.concatenate([features[mine], ones], axis=1), kind[mine, None]
    for step in range(1, STEPS + 1):
        hidden = numpy.concatenate([numpy.tanh(inputs @ first), ones], axis=1)
        guess = 1 / (1 + numpy.exp(-hidden @ second))
        slope = (guess - labels) / SAMPLES
        of_second = hidden.T @ slope
        under_way = group.start_sum(of_second)
        of_first = inputs.T @ ((slope @ second[:-1].T) * (1 - hidden[:, :-1] ** 2))
        group.sum(of_first)
        group.wait(under_way)
        first -= 8 * RATE * of_first
        second -= 8 * RATE * of_second
        right = numpy.array([float(numpy.sum((guess > 0.5) == labels))])
        group.sum(right)
        if group.rank == 0 and step % 100 == 0:
            print(f"step {step}: {100 * right[0] / SAMPLES:.1f} % right", flush=True)
    group.finalize()
    return 0 if right[0] > 0.9 * SAMPLES else 1


if __name__ == "__main__":
    raise SystemExit(main())
