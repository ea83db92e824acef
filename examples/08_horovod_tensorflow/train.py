#!/usr/bin/env python3
"""Data-parallel training with Horovod and Keras over MPI: handwritten digits of scikit-learn."""
import hashlib
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

STEPS, BATCH, TEST, WIDTH = 150, 64, 297, 512


class Report(tf.keras.callbacks.Callback):
    """Times every step, and says after each 50 how far the model is."""

    def __init__(self, images, labels):
        super().__init__()
        self.images, self.labels, self.times, self.began, self.step = images, labels, [], 0.0, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter() - self.began)
        self.step += 1
        if hvd.rank() == 0 and self.step % 50 == 0:
            right = np.mean(self.model(self.images).numpy().argmax(1) == self.labels)
            print(f"step {self.step:3d}  loss {logs['loss']:.4f}  test accuracy {100 * right:.2f} %  "
                  f"{1e3 * statistics.median(self.times):.1f} ms a step", flush=True)


def main():
    hvd.init()
    tf.get_logger().setLevel("ERROR")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(2)
    images, labels = load_digits(return_X_y=True)
    order = np.random.RandomState(1).permutation(len(labels))
    images, labels = images[order].astype(np.float32) / 16, labels[order]
    batches = TEST + np.random.RandomState(3).randint(len(labels) - TEST, size=(STEPS, BATCH))
    mine = batches[:, hvd.rank()::hvd.size()]
    model = tf.keras.Sequential([tf.keras.layers.Dense(WIDTH, activation="relu", input_shape=(64,)),
                                 tf.keras.layers.Dense(WIDTH, activation="relu"),
                                 tf.keras.layers.Dense(WIDTH, activation="relu"), tf.keras.layers.Dense(10)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(images[mine.ravel()], labels[mine.ravel()], batch_size=mine.shape[1], shuffle=False, verbose=0,
              callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), Report(images[:TEST], labels[:TEST])])
    weights = np.concatenate([one.ravel() for one in model.get_weights()])
    same = bool((hvd.allgather(weights[None]).numpy() == weights).all())
    if hvd.rank() == 0:
        print("weights", hashlib.sha256(weights.tobytes()).hexdigest()[:16], "the same on all ranks" if same else "DIFFERENT")
    hvd.shutdown()


if __name__ == "__main__":
    main()
