#include "core/bootstrap/job_place.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/base/error.hpp"

namespace ddl {
namespace {

using Variables = std::map<std::string, std::string>;

const Variables kTorchrun = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29400"}};

JobPlace place(const JobAsked& asked, const Variables& variables, std::uint64_t port = 0,
               std::uint32_t before = 0) {
  return place_of(asked, port, before, [&](const char* name) {
    auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

Variables with(const char* name, const char* value) {
  Variables changed = kTorchrun;
  changed[name] = value;
  return changed;
}

void expect_refused(const JobAsked& asked, const Variables& variables, const std::string& word) {
  try {
    place(asked, variables);
    ADD_FAILURE() << "accepted without " << word;
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

}  // namespace

TEST(JobPlace, TorchrunsVariablesAreUnderstoodAndItsPortIsLeftToIt) {
  const JobPlace found = place({}, kTorchrun);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.size, 4);
  EXPECT_EQ(found.address, "10.0.0.1");
  EXPECT_EQ(found.port, 29401);
  EXPECT_EQ(place({}, kTorchrun, 777).port, 777) << "DDL_PORT";
  EXPECT_EQ(place({}, with("MASTER_PORT", "")).port, 29501);
}

TEST(JobPlace, WhatTheProgramSaysGoesFirst) {
  const JobPlace found = place({3, 5, "fd00::1", 99}, kTorchrun, 777);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.size, 5);
  EXPECT_EQ(found.address, "fd00::1");
  EXPECT_EQ(found.port, 99);
  EXPECT_EQ(place({0, 1, "", 0}, {}).size, 1) << "one rank needs no address";
}

TEST(JobPlace, WhatIsMissingOrWrongIsNamed) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) expect_refused({}, with(name, ""), name);
  expect_refused({}, with("RANK", "one"), "RANK=one");
  expect_refused({}, with("RANK", "-1"), "RANK=-1");
  expect_refused({}, with("RANK", "4"), "rank 4 of 4");
  expect_refused({}, with("WORLD_SIZE", "0"), "of 0");
  expect_refused({}, with("WORLD_SIZE", "99999999999999999999"), "WORLD_SIZE=");
  expect_refused({}, with("MASTER_PORT", "65535"), "MASTER_PORT=65535");
  EXPECT_THROW(place({}, kTorchrun, 70'000), UsageError);
}

TEST(JobPlace, JobsAreToldApart) {
  const JobPlace one = place({}, kTorchrun);
  EXPECT_EQ(place({}, with("RANK", "0")).token, one.token) << "all ranks of one";
  for (const Variables& other : {with("MASTER_PORT", "29410"), with("WORLD_SIZE", "5"),
                                 with("TORCHELASTIC_RUN_ID", "b"), with("TORCHELASTIC_RESTART_COUNT", "1")})
    EXPECT_NE(place({}, other).token, one.token);
  EXPECT_NE(place({}, kTorchrun, 0, 1).token, one.token) << "the process's second job";
}

}  // namespace ddl
