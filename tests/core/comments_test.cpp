// What clang-format does to comments that are too long for their line.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace ddl {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const std::vector<std::string> kFolders = {"core",      "examples", "hwloc_topo",
                                           "interpose", "launcher", "tests"};
const std::set<std::string> kExtensions = {".c", ".cpp", ".def", ".h", ".hpp", ".inl"};

// One or two words that were cut from the end of a row of a table, with more of the table behind them. The
// end of a paragraph has a stop.
bool is_torn_row(const Lines& lines, std::size_t at) {
  static const std::regex kLong(R"(^\s*(//+|/?\*)\s+.{70,}$)"), kComment(R"(^\s*(//+|\*)\s+\S.*$)"),
      kFew(R"(^\s*(//+|\*)\s+(\S+( \S+)?)$)");
  std::smatch few;
  if (at == 0 || at + 1 == lines.size() || !std::regex_match(lines[at], few, kFew)) return false;
  const std::string words = few[2];
  return words.size() <= 20 && std::string(".:;").find(words.back()) == std::string::npos &&
         std::regex_match(lines[at - 1], kLong) && std::regex_match(lines[at + 1], kComment);
}

// A declaration that goes on in the next line only because a comment stands behind it.
bool is_torn_declaration(const Lines& lines, std::size_t at) {
  static const std::regex kType(R"(^\s+(const |static |constexpr |mutable )*[\w:]+(<[^;]*>)?[*&]?$)"),
      kName(R"(^\s+\w+( = [^;]+)?(\{.*\})?;\s+(//|/\*).*$)"), kBegin(R"(^\s+[\w:<>,*& ]+ =$)"),
      kValue(R"(^\s+\S+;\s+//.*$)");
  if (at + 1 == lines.size()) return false;
  const std::string& next = lines[at + 1];
  return (std::regex_match(lines[at], kType) && std::regex_match(next, kName)) ||
         (std::regex_match(lines[at], kBegin) && std::regex_match(next, kValue));
}

Lines lines_of(const fs::path& path) {
  Lines lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST(Comments, AreNotTornByTheFormatter) {
  for (const std::string& folder : kFolders)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(DDL_SOURCE_DIR) / folder)) {
      if (!kExtensions.count(entry.path().extension())) continue;
      const Lines lines = lines_of(entry.path());
      for (std::size_t at = 0; at < lines.size(); ++at) {
        EXPECT_FALSE(is_torn_row(lines, at)) << entry.path() << ":" << at + 1 << ": make the rows shorter";
        EXPECT_FALSE(is_torn_declaration(lines, at))
            << entry.path() << ":" << at + 1 << ": let the comment stand above";
      }
    }
}

TEST(Comments, TornOnesAreSeen) {
  const Lines row = {
      "//   lost   := Header      turn = 2, tag: lane, seq: epoch. What was sent in it and so on and",
      "//   there", "//               and did not come"};
  EXPECT_TRUE(is_torn_row(row, 1));
  const Lines paragraph = {row[0], "// program).", row[2]};
  EXPECT_FALSE(is_torn_row(paragraph, 1));
  EXPECT_TRUE(is_torn_declaration({"  std::uint32_t", "      expected;  // of its messages"}, 0));
  EXPECT_TRUE(is_torn_declaration({"  Nanoseconds patience =", "      2'000;  // of the destructor"}, 0));
  EXPECT_FALSE(is_torn_declaration({"  // Of its messages.", "  std::uint32_t expected;"}, 0));
}

}  // namespace ddl
