#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/transport/tcp_frames.hpp"
#include "core/transport/tcp_stream.hpp"

namespace ddl {

InStream::~InStream() {
  if (block_ && is_pooled_) pool_->give(block_);
}

// One system call: the rest of the payload under way goes to its block, what follows to the stage.
long InStream::read(Bytes& into_block) {
  std::array<iovec, 2> pieces;
  std::size_t count = 0;
  into_block = block_ ? header_.bytes - filled_ : 0;
  if (block_) pieces[count++] = piece_of(block_ + filled_, into_block);
  pieces[count++] = piece_of(stage_.data() + have_, block_ ? kAhead : kStage - have_);
  return socket_.receive(std::span(pieces).first(count));
}

bool InStream::receive(const Hello& expected, ReceivePool& pool, MessageHandler& handler,
                       LostStreams& others) {
  Bytes wanted = 0;
  long got = read(wanted);
  if (got == Socket::kNotNow) return false;
  if (++reads_ % kReadsPerWish == 0) socket_.delay_acknowledgements();
  if (got <= 0) {
    is_silent_ = got == -ETIMEDOUT;
    fail(got < 0 ? std::strerror(static_cast<int>(-got)) : "the connection was closed");
    return false;
  }
  Bytes in_block = std::min(wanted, static_cast<Bytes>(got));
  filled_ += in_block;
  have_ += static_cast<Bytes>(got) - in_block;
  is_reading_ = true;
  if (block_ && filled_ == header_.bytes) deliver(handler, others);
  if (!block_) parse(expected, pool, handler, others);
  is_reading_ = false;
  return true;
}

void InStream::parse(const Hello& expected, ReceivePool& pool, MessageHandler& handler, LostStreams& others) {
  if (from_ >= 0 || parse_hello(expected, others))
    while (state_ == StreamState::open && !block_ && parse_frame(pool, handler, others)) continue;
  if (at_ == have_) {
    at_ = have_ = 0;
  } else if (at_ > 0) {
    std::memmove(stage_.data(), stage_.data() + at_, have_ - at_);
    have_ -= std::exchange(at_, 0);
  }
}

bool InStream::parse_hello(const Hello& expected, const LostStreams& others) {
  Hello hello;
  if (have_ - at_ < sizeof(hello)) return false;
  std::memcpy(&hello, stage_.data() + at_, sizeof(hello));
  if (partner_ >= 0 && hello.magic == 0) {  // a farewell, at most
    if (have_ - at_ < sizeof(Header)) return false;
    std::memcpy(&header_, stage_.data() + at_, sizeof(Header));
    if (tcp::is_farewell(header_)) return leave();
  }
  const bool is_wanted = partner_ < 0 || hello.rank == static_cast<std::uint32_t>(partner_);
  if (hello.magic != expected.magic || hello.token != expected.token || hello.rank >= expected.rank ||
      !is_wanted) {
    fail("a stranger");
    return false;
  }
  at_ += sizeof(hello);
  from_ = static_cast<Rank>(hello.rank);
  epoch_ = hello.epoch;
  if (others.is_over({from_, rail_, epoch_})) state_ = StreamState::left;
  return state_ == StreamState::open;
}

// False when there is no whole header, or not all of what is skipped.
bool InStream::parse_frame(ReceivePool& pool, MessageHandler& handler, LostStreams& others) {
  if (to_skip_ > 0) return skip(), to_skip_ == 0;
  if (have_ - at_ < sizeof(Header)) return false;
  std::memcpy(&header_, stage_.data() + at_, sizeof(Header));
  at_ += sizeof(Header);
  if (header_.bytes > kLargest) return fail("it sends what is no message"), true;
  switch (header_.turn) {
    case tcp::kMessage:
      if (!handler.may_come_from(from_, header_)) {
        fail("it speaks for another rank");
        break;
      }
      take_payload(pool, handler, others);
      break;
    case tcp::kFarewell:
      if (tcp::is_farewell(header_)) {
        leave();
        break;
      }
      [[fallthrough]];
    default:
      fail("it sends what is no message");
      break;
    case tcp::kLost:
      others.lost({from_, header_.tag, header_.seq}, static_cast<Loss>(header_.segment));
      note_frame(others);
      break;
    case tcp::kGone: {
      if (header_.bytes > tcp::kMostOfWhy) return fail("it sends what is no message"), true;
      if (have_ - at_ < header_.bytes) return at_ -= sizeof(Header), false;
      others.gone(from_, header_.from, {reinterpret_cast<const char*>(stage_.data() + at_), header_.bytes});
      at_ += header_.bytes;
      note_frame(others);
      break;
    }
    case tcp::kAgain:
      parse_again(others);
      break;
  }
  return true;
}

// What follows is a frame of another stream.
void InStream::parse_again(const LostStreams& others) {
  const LostStream stream{from_, static_cast<std::size_t>(header_.from), header_.seq};
  if (header_.bytes < sizeof(Header)) return fail("it sends what is no message");
  again_.emplace_back(stream, header_.tag);
  if (others.lacks(stream, header_.tag)) return;
  again_.clear();
  to_skip_ = header_.bytes;
  skip();
}

void InStream::skip() {
  const Bytes here = std::min(to_skip_, have_ - at_);
  at_ += here;
  to_skip_ -= here;
  if (to_skip_ == 0) ++next_frame_;
}

// A frame has come whole.
void InStream::note_frame(LostStreams& others) {
  ++next_frame_;
  for (const auto& [stream, frame] : again_) others.took(stream, frame);
  again_.clear();
}

// A tiny payload travels in its view; any other gets a block or goes to its place, which the stage may fill
// only in part.
void InStream::take_payload(ReceivePool& pool, MessageHandler& handler, LostStreams& others) {
  const std::byte* here = stage_.data() + at_;
  Bytes staged = std::min<Bytes>(have_ - at_, header_.bytes);
  if (staged == header_.bytes && staged <= View::kInline) {
    at_ += staged;
    note_frame(others);
    return handler.deliver(header_, View::copy_of(here, staged));
  }
  pool_ = &pool;
  block_ = handler.place_for(header_);
  is_pooled_ = block_ == nullptr;
  if (is_pooled_) block_ = pool.take(header_.bytes);
  std::memcpy(block_, here, staged);
  at_ += staged;
  filled_ = staged;
  if (staged == header_.bytes) deliver(handler, others);
}

void InStream::deliver(MessageHandler& handler, LostStreams& others) {
  std::byte* payload = std::exchange(block_, nullptr);
  note_frame(others);
  handler.deliver(header_, is_pooled_ ? pool_->view(payload, filled_)
                                      : View(payload, filled_, nullptr, nullptr, nullptr));
}

void InStream::abandon(MessageHandler& handler) {
  if (block_ && !is_pooled_) handler.leave_place(header_);
  if (block_ && is_pooled_) pool_->give(block_);
  block_ = nullptr;
}

void InStream::fail(const std::string& why) {
  if (state_ != StreamState::open) return;  // an end after a farewell is no failure
  state_ = StreamState::broken;
  why_ = why;
}

// Who has said farewell may wait for its acknowledgement.
bool InStream::leave() {
  state_ = StreamState::left;
  socket_.acknowledge();
  return false;
}

void InStream::let_partner_leave(Timeout& patience) {
  const auto read_all = [&] {
    long got = 0;
    do {
      iovec piece = piece_of(stage_.data(), kStage);
      got = socket_.receive({&piece, 1});
    } while (got > 0 && !patience.is_over());
    return got == Socket::kNotNow;
  };
  while (state_ == StreamState::open && read_all() && socket_.unacknowledged() > 0 && !patience.is_over()) {
    PollSet answer;
    answer.add(socket_, Ready::read);
    answer.wait(1);
  }
}

void InStream::close() {
  const bool can_say = socket_.is_open() && from_ >= 0 && state_ == StreamState::open;
  if (can_say && partner_ < 0) tcp::say_farewell(socket_);
  socket_.close();
}

}  // namespace ddl
