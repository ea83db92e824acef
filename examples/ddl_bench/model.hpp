// The gradients that a training step reduces, in the order in which its backward pass has them ready: a list
// in a file. A line is
//
//   NAME ELEMENTS MICROSECONDS
//
// one tensor, and how long is computed between the one before and it; with 0 elements computing alone. Lines
// that start with # and empty ones do not count.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

struct Tensor {
  std::string name;
  std::size_t elements = 0;
  double seconds = 0;  // of computing before it is ready
};

struct Model {
  std::string name;
  std::vector<Tensor> tensors;

  std::size_t reduced() const;  // tensors with elements
  std::size_t elements() const;
  double seconds() const;
  /// Computing that an all-reduce could hide behind: what comes after the first tensor is ready.
  double seconds_after_first() const;
  /// All times in proportion, so that they are so many seconds together. Where there are none they stay so.
  void compute_in(double seconds);
};

/// A file's content, or one line that says what is wrong with it.
struct ModelFile {
  std::string text, error;
};

/// `name` is one of the lists beside the program (../share/ddlrun/models), or else a file.
ModelFile read_model(const std::string& name);

struct ParsedModel {
  Model model;
  std::string error;  // "NAME:LINE: ..." where the text is not such a list
};
ParsedModel parse_model(const std::string& name, const std::string& text);

}  // namespace bench
