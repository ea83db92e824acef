#!/usr/bin/env python3
"""same_losses.py ONE SEVERAL: files of "loss STEP VALUE" with the same steps, whose values are equal but for the order of
their sums. Prints the largest relative difference."""
import sys

one, several = ([line.split()[1:] for line in open(name)] for name in sys.argv[1:3])
assert one and [step for step, _ in one] == [step for step, _ in several], (one, several)
apart = [abs(float(a) - float(b)) / float(a) for (_, a), (_, b) in zip(one, several)]
print(f"{len(one)} steps, losses differ by {max(apart):.1e} at most")
assert all(difference < 1e-4 for difference in apart), apart  # which a NaN is not
