// Calls of who is alone in a communicator: one copy, however long.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "core/collective/engine.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {
namespace {

// More than 4 GiB, all of it the same 4 MiB.
class ManyBytes {
 public:
  static constexpr Bytes kHere = 4 << 20, kBytes = (Bytes{4} << 30) + kHere;

  ManyBytes() : file_(::memfd_create("many", MFD_CLOEXEC)) {
    void* room = ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(room, MAP_FAILED);
    EXPECT_EQ(::ftruncate(file_, kHere), 0);
    begin_ = static_cast<std::byte*>(room);
    for (Bytes at = 0; at < kBytes; at += kHere)
      EXPECT_NE(::mmap(begin_ + at, kHere, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0),
                MAP_FAILED);
  }
  ~ManyBytes() {
    ::munmap(begin_, kBytes);
    ::close(file_);
  }
  ManyBytes(const ManyBytes&) = delete;
  ManyBytes& operator=(const ManyBytes&) = delete;
  std::byte* begin() const { return begin_; }

 private:
  int file_;
  std::byte* begin_;
};

}  // namespace

TEST(Alone, MoreThanFourGigabytesAreCopied) {
  constexpr Bytes kLess = 64;  // so that 32 bits say something, but too little
  test::VirtualJob job({0});
  auto world = job.create(1, {0});
  const ManyBytes in, out;
  for (Bytes i = 0; i < ManyBytes::kHere; ++i) in.begin()[i] = static_cast<std::byte>(1 + i % 251);
  for (Kind kind : {Kind::all_reduce, Kind::all_gather}) {
    std::fill_n(out.begin(), ManyBytes::kHere, std::byte{});
    Call call{in.begin(), out.begin(), (Bytes{4} << 30) + kLess, DType::uint8, Op::max, "x", now()};
    call.kind = kind;
    job.engine(0).run(*world[0], call);
    EXPECT_EQ(out.begin()[ManyBytes::kHere - 1], in.begin()[ManyBytes::kHere - 1]) << name_of(kind);
    EXPECT_EQ(job.engine(0).failure(), "");
  }
}

}  // namespace ddl
