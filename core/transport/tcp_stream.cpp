#include "core/transport/tcp_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddl {
namespace {

constexpr std::uint32_t kFarewell = 1;  // Header.turn
constexpr std::size_t kGathered = 64;   // pieces per system call
constexpr Bytes kAtOnce = 32 << 10;     // a message does not wait for others behind so many bytes

Header farewell() {
  Header header{};
  header.turn = kFarewell;
  return header;
}

// With anything else in it it is no farewell: the stream has lost its place.
bool is_farewell(const Header& header) {
  const Header expected = farewell();
  return std::memcmp(&header, &expected, sizeof(header)) == 0;
}

void say_farewell(const Socket& socket) {
  Header header = farewell();
  iovec piece = piece_of(&header, sizeof(header));
  socket.send({&piece, 1});  // who does not hear it reports that we are gone, which is true
}

}  // namespace

OutStream::OutStream(Socket socket, const Hello& hello) : socket_(std::move(socket)) {
  Frame& frame = append();
  std::memcpy(frame.head.data(), &hello, sizeof(hello));
  waiting_ = frame.head_bytes = sizeof(hello);
}

OutStream::Frame& OutStream::append() {
  constexpr std::size_t kGone = 64;  // frames that are not worth moving the others
  if (idle() || (first_ >= kGone && 2 * first_ >= queue_.size())) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  return queue_.emplace_back();
}

void OutStream::send(const Header& header, std::span<const std::byte> payload, std::uint32_t& unfinished) {
  if (state_ != StreamState::open) return;
  Frame& frame = append();
  std::memcpy(frame.head.data(), &header, sizeof(header));
  frame.head_bytes = sizeof(header);
  if (payload.size() <= kCopied) {
    if (!payload.empty()) std::memcpy(frame.head.data() + sizeof(header), payload.data(), payload.size());
    frame.head_bytes += payload.size();
  } else {
    frame.rest = payload;
    frame.unfinished = &unfinished;
    ++unfinished;
  }
  waiting_ += sizeof(header) + payload.size();
  push(kAtOnce);
}

bool OutStream::push(Bytes at_least) { return waiting_ >= at_least && !is_blocked_ && drain(); }

void OutStream::flush(std::uint32_t& unfinished) {
  if (idle()) return;
  append().unfinished = &unfinished;  // a frame without bytes: gone when all before it are
  ++unfinished;
}

// Takes bytes that the kernel took off the front of the queue.
void OutStream::advance(std::size_t bytes) {
  while (!idle()) {
    Frame& frame = queue_[first_];
    std::size_t head = std::min(bytes, frame.head_bytes - frame.head_done);
    frame.head_done += head;
    bytes -= head;
    waiting_ -= head;
    std::size_t rest = frame.head_done == frame.head_bytes ? std::min(bytes, frame.rest.size()) : 0;
    frame.rest = frame.rest.subspan(rest);
    bytes -= rest;
    waiting_ -= rest;
    if (frame.head_done < frame.head_bytes || !frame.rest.empty()) return;
    if (frame.unfinished) --*frame.unfinished;
    ++first_;
  }
}

bool OutStream::drain() {
  bool moved = false;
  while (!idle() && state_ == StreamState::open) {
    std::array<iovec, kGathered> pieces;
    std::size_t count = 0;
    for (std::size_t f = first_; f < queue_.size() && count + 2 <= kGathered; ++f) {
      const Frame& frame = queue_[f];
      if (frame.head_done < frame.head_bytes)
        pieces[count++] = piece_of(frame.head.data() + frame.head_done, frame.head_bytes - frame.head_done);
      if (!frame.rest.empty()) pieces[count++] = piece_of(frame.rest.data(), frame.rest.size());
    }
    long sent = count ? socket_.send(std::span(pieces).first(count)) : 0;
    is_blocked_ = sent < 0;
    if (sent < 0) {
      // ENOTCONN: still connecting; how that ended shows as the socket's error.
      if (sent != Socket::kNotNow && sent != -ENOTCONN) fail(static_cast<int>(-sent));
      break;
    }
    moved = true;
    advance(static_cast<std::size_t>(sent));
  }
  return moved;
}

bool OutStream::wake() {
  is_blocked_ = false;
  listen();
  return state_ == StreamState::open && drain();
}

// The reader says nothing but farewell. Its socket also tells how connecting ended.
void OutStream::listen() {
  Header header{};
  iovec piece = piece_of(&header, sizeof(header));
  long got = socket_.receive({&piece, 1});
  if (got == Socket::kNotNow) return;
  if (got == -ENOTCONN) {
    if (int error = socket_.error()) fail(error);
    return;
  }
  if (got < 0) return fail(static_cast<int>(-got));
  if (got == sizeof(header) && is_farewell(header)) {
    state_ = StreamState::left;
  } else {
    state_ = StreamState::broken;
    why_ = "the connection was closed";
  }
}

// The kernel alone would try for a quarter of an hour. A machine that is there answers however busy its
// programs are, so that this is no bound on them, as TCP_USER_TIMEOUT would be.
void OutStream::listen_for_silence() {
  constexpr int kTries = 7;  // each waits twice as long as the one before: half a minute at the least
  if (state_ == StreamState::open && socket_.unanswered_tries() >= kTries) fail(ETIMEDOUT);
}

void OutStream::fail(int error) {
  state_ = StreamState::broken;
  why_ = std::strerror(error);
}

void OutStream::close() {
  if (socket_.is_open() && idle() && state_ == StreamState::open) say_farewell(socket_);
  queue_.clear();
  first_ = waiting_ = 0;
  state_ = StreamState::left;
  socket_.close();
}

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

bool InStream::receive(const Hello& expected, ReceivePool& pool, MessageHandler& handler) {
  Bytes wanted = 0;
  long got = read(wanted);
  if (got == Socket::kNotNow) return false;
  if (got <= 0) {
    fail(got < 0 ? std::strerror(static_cast<int>(-got)) : "the connection was closed");
    return false;
  }
  Bytes in_block = std::min(wanted, static_cast<Bytes>(got));
  filled_ += in_block;
  have_ += static_cast<Bytes>(got) - in_block;
  if (block_ && filled_ == header_.bytes) deliver(handler);
  if (!block_) parse(expected, pool, handler);
  return true;
}

void InStream::parse(const Hello& expected, ReceivePool& pool, MessageHandler& handler) {
  if (from_ >= 0 || parse_hello(expected))
    while (state_ == StreamState::open && !block_ && parse_message(pool, handler)) continue;
  if (at_ == have_) {
    at_ = have_ = 0;
  } else if (at_ > 0) {
    std::memmove(stage_.data(), stage_.data() + at_, have_ - at_);
    have_ -= std::exchange(at_, 0);
  }
}

bool InStream::parse_hello(const Hello& expected) {
  Hello hello;
  if (have_ - at_ < sizeof(hello)) return false;
  std::memcpy(&hello, stage_.data() + at_, sizeof(hello));
  if (hello.magic != expected.magic || hello.token != expected.token || hello.rank >= expected.rank) {
    fail("a stranger");
    return false;
  }
  at_ += sizeof(hello);
  from_ = static_cast<Rank>(hello.rank);
  return true;
}

// False when there is no whole header.
bool InStream::parse_message(ReceivePool& pool, MessageHandler& handler) {
  if (have_ - at_ < sizeof(Header)) return false;
  std::memcpy(&header_, stage_.data() + at_, sizeof(Header));
  at_ += sizeof(Header);
  if (is_farewell(header_)) {
    state_ = StreamState::left;
  } else if (header_.turn != 0 || header_.bytes > kLargest) {
    fail("it sends what is no message");
  } else {
    take_payload(pool, handler);
  }
  return true;
}

// A tiny payload travels in its view; any other gets a block or goes to its place, which the stage may fill
// only in part.
void InStream::take_payload(ReceivePool& pool, MessageHandler& handler) {
  const std::byte* here = stage_.data() + at_;
  Bytes staged = std::min<Bytes>(have_ - at_, header_.bytes);
  if (staged == header_.bytes && staged <= View::kInline) {
    at_ += staged;
    return handler.deliver(header_, View::copy_of(here, staged));
  }
  pool_ = &pool;
  block_ = handler.place_for(header_);
  is_pooled_ = block_ == nullptr;
  if (is_pooled_) block_ = pool.take(header_.bytes);
  std::memcpy(block_, here, staged);
  at_ += staged;
  filled_ = staged;
  if (staged == header_.bytes) deliver(handler);
}

void InStream::deliver(MessageHandler& handler) {
  std::byte* payload = std::exchange(block_, nullptr);
  handler.deliver(header_, is_pooled_ ? pool_->view(payload, filled_)
                                      : View(payload, filled_, nullptr, nullptr, nullptr));
}

void InStream::fail(const std::string& why) {
  if (state_ != StreamState::open) return;  // an end after a farewell is no failure
  state_ = StreamState::broken;
  why_ = why;
}

void InStream::close() {
  if (socket_.is_open() && from_ >= 0 && state_ == StreamState::open) say_farewell(socket_);
  socket_.close();
}

}  // namespace ddl
