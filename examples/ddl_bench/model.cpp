#include "model.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace bench {
namespace {

namespace fs = std::filesystem;

constexpr double kLongest = 1e9;  // microseconds

fs::path folder_of_lists() {
  std::error_code failed;
  return fs::read_symlink("/proc/self/exe", failed).parent_path().parent_path() / "share/ddlrun/models";
}

std::string names_of_lists() {
  std::vector<std::string> names;
  std::error_code failed;
  for (const fs::directory_entry& file : fs::directory_iterator(folder_of_lists(), failed))
    names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none in " + folder_of_lists().string() : text;
}

/// What is wrong with a line, or nothing; then `to` holds it.
std::string take(const std::string& line, Tensor& to) {
  std::istringstream words(line);
  std::string elements, microseconds, rest;
  if (!(words >> to.name >> elements >> microseconds) || words >> rest)
    return "a line is NAME ELEMENTS MICROSECONDS";
  if (elements.find_first_not_of("0123456789") != std::string::npos || elements.size() > 10 ||
      std::stoull(elements) > INT_MAX)
    return fmt::format("'{}' is not a number of elements (at most {})", elements, INT_MAX);
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(microseconds, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != microseconds.size() || !(value >= 0 && value <= kLongest))
    return fmt::format("'{}' is not a time in microseconds", microseconds);
  to.elements = std::stoull(elements);
  to.seconds = value * 1e-6;
  return {};
}

}  // namespace

std::size_t Model::reduced() const {
  return static_cast<std::size_t>(std::count_if(tensors.begin(), tensors.end(),
                                                [](const Tensor& tensor) { return tensor.elements > 0; }));
}

std::size_t Model::elements() const {
  std::size_t all = 0;
  for (const Tensor& tensor : tensors) all += tensor.elements;
  return all;
}

double Model::seconds() const {
  double all = 0;
  for (const Tensor& tensor : tensors) all += tensor.seconds;
  return all;
}

double Model::seconds_after_first() const {
  double after = 0;
  bool is_after = false;
  for (const Tensor& tensor : tensors) {
    if (is_after) after += tensor.seconds;
    is_after = is_after || tensor.elements > 0;
  }
  return after;
}

void Model::compute_in(double wanted) {
  const double all = seconds();
  for (Tensor& tensor : tensors) tensor.seconds *= all > 0 ? wanted / all : 0;
}

ModelFile read_model(const std::string& name) {
  const fs::path known = folder_of_lists() / (name + ".txt");
  const bool is_known = name.find('/') == std::string::npos && fs::is_regular_file(known);
  const fs::path path = is_known ? known : fs::path(name);
  std::ifstream file;
  if (!fs::is_directory(path)) file.open(path);
  ModelFile read;
  if (file.is_open()) read.text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad())
    read.error = fmt::format("--replay: '{}' is neither a file that can be read nor a known list ({})", name,
                             names_of_lists());
  return read;
}

ParsedModel parse_model(const std::string& name, const std::string& text) {
  ParsedModel parsed;
  parsed.model.name = name;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos || line[start] == '#') continue;
    Tensor tensor;
    if (std::string wrong = take(line, tensor); !wrong.empty()) {
      parsed.error = fmt::format("--replay: {}:{}: {}", name, number, wrong);
      return parsed;
    }
    parsed.model.tensors.push_back(tensor);
  }
  if (parsed.model.reduced() == 0) parsed.error = fmt::format("--replay: {}: there is no tensor in it", name);
  return parsed;
}

}  // namespace bench
