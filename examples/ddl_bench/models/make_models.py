#!/usr/bin/python3
"""Writes the gradient lists that `ddl-bench --replay` knows: make_models.py [--check] FOLDER

The shapes follow from the papers that the heads of the lists name. Times are those of matrix products and convolutions
alone, 2 operations per multiplication and addition, as on a device of OPERATIONS a second: forward once, backward twice
(for the gradients of the weights and of the input). --check compares with what is there.
"""
import pathlib
import sys

OPERATIONS = 4e12  # a second; 202 ms for 32 images of ResNet-50 (docs/reproduction.md) are 3.7e12


class Model:
    """The layers of a network in forward order, each with its tensors and the operations of its forward pass."""

    def __init__(self, name, source, samples, what):
        self.name, self.source, self.samples, self.what = name, source, samples, what
        self.layers = []  # (operations of one sample, [(tensor, elements)])

    def layer(self, operations, *tensors):
        self.layers.append((operations, tensors))

    def convolution(self, name, size, channels_in, channels, side, stride=1, groups=1, bias=True):
        """Over a square of side * side with its edges filled; the side of what comes out."""
        out = -(-side // stride)
        weights = channels * (channels_in // groups) * size * size
        tensors = [(f"{name}.weight", weights)] + ([(f"{name}.bias", channels)] if bias else [])
        self.layer(2 * weights * out * out, *tensors)
        return out

    def normalisation(self, name, channels):
        self.layer(0, (f"{name}.weight", channels), (f"{name}.bias", channels))

    def linear(self, name, width_in, width, rows=1):
        self.layer(2 * rows * width_in * width, (f"{name}.weight", width_in * width), (f"{name}.bias", width))

    def elements(self):
        return sum(elements for _, tensors in self.layers for _, elements in tensors)

    def tensors(self):
        return sum(elements > 0 for _, tensors in self.layers for _, elements in tensors)

    def text(self):
        second = 1e6 * self.samples / OPERATIONS
        forward = sum(operations for operations, _ in self.layers) * second
        lines = [f"# {line}" for line in self.source] + [
            f"# {self.tensors()} tensors, {self.elements()} elements; made by make_models.py.",
            f"# Times: convolutions and matrix products of {self.samples} {self.what}, {3 * forward / 1e3:.1f} ms at "
            f"{OPERATIONS / 1e12:g}e12 operations a second;",
            "# two thirds of it backward. Another total: --compute-ms.",
            "#",
            "# tensor, elements (0: computing alone), microseconds of computing before it is ready",
            f"forward 0 {forward:.1f}"]
        for operations, tensors in reversed(self.layers):
            for number, (name, elements) in enumerate(reversed(tensors)):
                lines.append(f"{name} {elements} {0 if number else 2 * operations * second:.1f}")
        return "\n".join(lines) + "\n"


def alexnet():
    model = Model("alexnet", [
        "AlexNet: Krizhevsky, Sutskever, Hinton, \"ImageNet Classification with Deep Convolutional Neural Networks\", 2012,",
        "section 3.5, as in Caffe: layers 2, 4 and 5 in two groups (60,965,224; 61,100,840 is torchvision's, without groups)."],
        128, "images")
    model.layer(2 * 96 * 3 * 121 * 55 * 55, ("conv1.weight", 96 * 3 * 121), ("conv1.bias", 96))
    model.convolution("conv2", 5, 96, 256, 27, groups=2)
    model.convolution("conv3", 3, 256, 384, 13)
    model.convolution("conv4", 3, 384, 384, 13, groups=2)
    model.convolution("conv5", 3, 384, 256, 13, groups=2)
    model.linear("fc6", 256 * 6 * 6, 4096)
    model.linear("fc7", 4096, 4096)
    model.linear("fc8", 4096, 1000)
    return model


def vgg16():
    model = Model("vgg16", [
        "VGG-16: Simonyan, Zisserman, \"Very Deep Convolutional Networks for Large-Scale Image Recognition\", 2014,",
        "table 1, column D."], 32, "images")
    side, channels = 224, 3
    for stage, (width, convolutions) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 1):
        for number in range(1, convolutions + 1):
            model.convolution(f"conv{stage}_{number}", 3, channels, width, side)
            channels = width
        side //= 2
    model.linear("fc6", 512 * 7 * 7, 4096)
    model.linear("fc7", 4096, 4096)
    model.linear("fc8", 4096, 1000)
    return model


def resnet50():
    model = Model("resnet50", [
        "ResNet-50: He, Zhang, Ren, Sun, \"Deep Residual Learning for Image Recognition\", 2015, table 1; convolutions have no",
        "bias, each is normalised. The stride of a stage is in the first convolution of its first block, as in the paper."],
        32, "images")

    def normalised(name, size, channels_in, channels, side, stride=1):
        out = model.convolution(name, size, channels_in, channels, side, stride, bias=False)
        model.normalisation(f"{name}.norm", channels)
        return out

    side = normalised("conv1", 7, 3, 64, 224, 2) // 2
    channels = 64
    for stage, (inner, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], 2):
        for block in range(1, blocks + 1):
            stride = 2 if block == 1 and stage > 2 else 1
            name = f"conv{stage}_{block}"
            out = normalised(f"{name}.1", 1, channels, inner, side, stride)
            normalised(f"{name}.2", 3, inner, inner, out)
            normalised(f"{name}.3", 1, inner, 4 * inner, out)
            if block == 1:
                normalised(f"{name}.shortcut", 1, channels, 4 * inner, side, stride)
            side, channels = out, 4 * inner
    model.linear("fc", 2048, 1000)
    return model


def googlenet():
    model = Model("googlenet", [
        "GoogLeNet: Szegedy et al., \"Going Deeper with Convolutions\", 2014, table 1, with both auxiliary classifiers, which",
        "training has, and without normalisation, as in Caffe (without them 6,998,552)."], 32, "images")
    side = model.convolution("conv1", 7, 3, 64, 224, 2) // 2
    model.convolution("conv2.reduce", 1, 64, 64, side)
    model.convolution("conv2", 3, 64, 192, side)
    side, channels = side // 2, 192
    # 1x1; 3x3 reduced, 3x3; 5x5 reduced, 5x5; 1x1 behind the pool
    table = {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
             "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
             "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128),
             "5b": (384, 192, 384, 48, 128, 128)}
    for name, (one, reduce3, three, reduce5, five, pool) in table.items():
        side = {"3": 28, "4": 14, "5": 7}[name[0]]
        model.convolution(f"{name}.1x1", 1, channels, one, side)
        model.convolution(f"{name}.3x3.reduce", 1, channels, reduce3, side)
        model.convolution(f"{name}.3x3", 3, reduce3, three, side)
        model.convolution(f"{name}.5x5.reduce", 1, channels, reduce5, side)
        model.convolution(f"{name}.5x5", 5, reduce5, five, side)
        model.convolution(f"{name}.pool", 1, channels, pool, side)
        channels = one + three + five + pool
        if name in ("4a", "4d"):
            classifier = "aux1" if name == "4a" else "aux2"
            model.convolution(f"{classifier}.conv", 1, channels, 128, 4)
            model.linear(f"{classifier}.fc1", 128 * 4 * 4, 1024)
            model.linear(f"{classifier}.fc2", 1024, 1000)
    model.linear("fc", channels, 1000)
    return model


def bert_large():
    length, width, inner, layers = 128, 1024, 4096, 24
    model = Model("bert-large", [
        "BERT-large: Devlin, Chang, Lee, Toutanova, \"BERT: Pre-training of Deep Bidirectional Transformers\", 2018, section 3:",
        "24 layers of width 1024, 30,522 words (uncased), the pooler, and no head of a task. Embeddings have dense gradients."],
        32, f"sequences of {length} words")
    for name, rows in (("word", 30522), ("position", 512), ("kind", 2)):
        model.layer(0, (f"embedding.{name}", rows * width))
    model.normalisation("embedding.norm", width)
    for number in range(1, layers + 1):
        name = f"layer{number}"
        for part in ("query", "key", "value"):
            model.linear(f"{name}.{part}", width, width, length)
        model.layer(2 * 2 * length * length * width, (f"{name}.scores", 0))  # and the values they weigh
        model.linear(f"{name}.attention", width, width, length)
        model.normalisation(f"{name}.norm1", width)
        model.linear(f"{name}.inner", width, inner, length)
        model.linear(f"{name}.output", inner, width, length)
        model.normalisation(f"{name}.norm2", width)
    model.linear("pooler", width, width)
    return model


def main():
    words = sys.argv[1:]
    check = words[:1] == ["--check"]
    if len(words) != 1 + check:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    different = 0
    for make in (alexnet, vgg16, resnet50, googlenet, bert_large):
        model = make()
        path = pathlib.Path(words[-1]) / f"{model.name}.txt"
        if not check:
            path.write_text(model.text(), encoding="utf-8")
        elif path.read_text(encoding="utf-8") != model.text():
            print(f"{path} is not what make_models.py makes")
            different = 1
        print(f"{model.name}: {model.tensors()} tensors, {model.elements()} elements")
    return different


if __name__ == "__main__":
    sys.exit(main())
