#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>

#include "items.hpp"

namespace calls {
namespace {

bool asked(const Options& options, const std::string& name) {
  return std::find(options.only.begin(), options.only.end(), name) != options.only.end();
}

std::vector<std::string> names() {
  std::vector<std::string> found{"overlap"};
  for (const Item& item : items()) found.emplace_back(item.name);
  return found;
}

std::string epilogue() {
  std::string text = "Items:\n";
  for (const Item& item : items()) {
    std::string name = item.name;
    name.resize(18, ' ');
    text += "  " + name + item.what + "\n";
  }
  return text +
         "  overlap           the last three\n\n"
         "Times of loops are rank 0's: the median over batches of calls. Times of rounds that start after a\n"
         "barrier (outstanding, threads, overlap) are the slowest rank's: the median over the rounds.\n";
}

// What --only means: `overlap` is short for three items, and nothing for all that go together.
void complete(Options& options) {
  std::vector<std::string> chosen;
  for (const Item& item : items()) {
    const bool in_overlap = item.group == Group::kOverlap && asked(options, "overlap");
    const bool by_default = options.only.empty() && item.group != Group::kAlone;
    if (in_overlap || by_default || asked(options, item.name)) chosen.emplace_back(item.name);
  }
  options.only = chosen;
}

std::string contradiction(const Options& options) {
  for (const std::uint64_t size : options.sizes)
    if (size % sizeof(float) != 0 || size / sizeof(float) > INT_MAX)
      return "--sizes must be multiples of 4, the bytes of a float32, up to 8 GiB";
  for (const Item& item : items())
    if (item.group == Group::kAlone && asked(options, item.name) && options.only.size() > 1)
      return "--only " + std::string(item.name) + " needs a run of its own";
  if (asked(options, "first") && options.sizes.size() != 1)
    return "--only first needs one size (--sizes 4k): the calls of another would not be the first";
  return {};
}

}  // namespace

Parsed parse(int argc, char** argv) {
  Parsed parsed;
  Options& options = parsed.options;
  CLI::App app{
      "ddl-bench-calls measures what surrounds the blocking MPI_Allreduce of float32 sums. Start it with\n"
      "mpirun or ddlrun; results are checked outside the timed parts."};
  app.add_option("--only", options.only, "items, separated by commas (default: all but first and threads)")
      ->delimiter(',')
      ->check(CLI::IsMember(names()));
  app.add_option("--sizes", options.sizes,
                 "bytes of a call, separated by commas; 64k and 1m are powers of 1024")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", options.rounds, "timed rounds of everything (default: falls with the size)")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--json", options.json, "rank 0 writes the results to this file");
  app.footer(epilogue());
  try {
    app.parse(argc, argv);
    complete(options);
    if (auto wrong = contradiction(options); !wrong.empty())
      parsed = {options, 2, false, "ddl-bench-calls: error: " + wrong + "\n"};
  } catch (const CLI::CallForHelp&) {
    parsed = {options, 0, false, app.help()};
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    parsed = {options, 2, false, "ddl-bench-calls: error: " + text.substr(0, text.find('\n')) + "\n"};
  }
  return parsed;
}

std::vector<std::uint64_t> sizes_or(const Options& options, std::vector<std::uint64_t> own) {
  return options.sizes.empty() ? own : options.sizes;
}

}  // namespace calls
