// The rules of the house that a compiler does not see: who may include whom.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

namespace ddl {
namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file, header;
};

std::vector<Include> includes_under(const std::vector<std::string>& folders) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])");
  std::vector<Include> includes;
  for (const std::string& folder : folders)
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(fs::path(DDL_SOURCE_DIR) / folder)) {
      std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".hpp" && extension != ".h" && extension != ".c" &&
          extension != ".inl")
        continue;
      std::ifstream file(entry.path());
      std::smatch found;
      for (std::string line; std::getline(file, line);)
        if (std::regex_search(line, found, kInclude))
          includes.push_back({fs::relative(entry.path(), DDL_SOURCE_DIR), found[1]});
    }
  return includes;
}

void expect_only_in(const std::string& header_start, const std::vector<std::string>& places) {
  for (const Include& include : includes_under({"core", "hwloc_topo", "interpose", "launcher"})) {
    if (include.header.rfind(header_start, 0) != 0) continue;
    bool allowed = false;
    for (const std::string& place : places) allowed |= include.file.rfind(place, 0) == 0;
    EXPECT_TRUE(allowed) << include.file << " includes <" << include.header << ">";
  }
}

void expect_never(const std::string& folder, const std::vector<std::string>& headers) {
  for (const Include& include : includes_under({folder}))
    for (const std::string& header : headers)
      EXPECT_NE(include.header.rfind(header, 0), 0u) << include.file << " includes " << include.header;
}

}  // namespace

TEST(HouseRules, EachForeignLibraryIsConfinedToItsFiles) {
  expect_only_in("hwloc.h", {"hwloc_topo/"});
  expect_only_in("hwloc/", {"hwloc_topo/"});
  expect_only_in("pmix", {"core/bootstrap/pmix"});
  expect_only_in("ucp/", {"core/transport/ucx"});
  expect_only_in("mpi.h", {"interpose/mpi/"});
  expect_only_in("cuda", {});  // declared by ourselves: the build needs no CUDA
}

TEST(HouseRules, TheRoomsKnowOnlyThoseBelowThem) {
  expect_never("core", {"launcher/", "interpose/", "hwloc_topo/"});
  expect_never("hwloc_topo", {"launcher/", "interpose/"});
  expect_never("interpose", {"launcher/", "hwloc_topo/"});
  expect_never("launcher", {"interpose/"});
}

TEST(HouseRules, InsideCoreTheValuesDoNotKnowTheAction) {
  expect_never("core/base", {"core/plan", "core/transport", "core/collective", "core/reduce",
                             "core/bootstrap", "core/stream"});
  expect_never("core/plan",
               {"core/transport", "core/collective", "core/reduce", "core/bootstrap", "core/stream"});
  expect_never("core/reduce",
               {"core/plan", "core/transport", "core/collective", "core/bootstrap", "core/stream"});
  expect_never("core/transport",
               {"core/plan", "core/collective", "core/reduce", "core/bootstrap", "core/stream"});
  expect_never("core/device",
               {"core/plan", "core/transport", "core/collective", "core/bootstrap", "core/stream"});
  expect_never("core/bootstrap", {"core/plan", "core/collective", "core/transport", "core/stream"});
  expect_never("core/collective", {"core/tune", "core/bootstrap", "core/stream"});
  expect_never("core/tune", {"core/collective", "core/transport", "core/bootstrap", "core/stream"});
}

TEST(HouseRules, TheSessionKnowsAllOfCoreAndOnlyTheBoundaryKnowsTheSession) {
  expect_only_in("core/session/",
                 {"core/session/", "core/stream/", "core/ddl", "core/engine_api", "core/stream_api"});
  expect_only_in("core/engine_api", {"core/engine_api", "interpose/"});
  expect_never("core/session", {"core/stream", "core/engine_api", "core/stream_api"});
}

}  // namespace ddl
