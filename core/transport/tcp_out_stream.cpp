#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/transport/tcp_frames.hpp"
#include "core/transport/tcp_stream.hpp"

namespace ddl {
namespace {

constexpr std::size_t kGathered = 64;   // pieces per system call
constexpr Bytes kAtOnce = 32 << 10;     // a message does not wait for others behind so many bytes
constexpr Bytes kMostKept = 256 << 10;  // before the kernel is asked what has been acknowledged

}  // namespace

OutStream::OutStream(Socket socket, const Hello& hello, Keeps keeps, Hears hears)
    : socket_(std::move(socket)), epoch_(hello.epoch), keeps_(keeps), hears_(hears) {
  Frame& frame = append();
  std::memcpy(frame.head.data(), &hello, sizeof(hello));
  waiting_ = frame.head_bytes = sizeof(hello);
}

OutStream::Frame& OutStream::append() {
  constexpr std::size_t kGoneFrames = 64;  // frames that are not worth moving the others
  if (idle() || (first_ >= kGoneFrames && 2 * first_ >= queue_.size())) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
    if (queue_.empty()) own_bytes_.clear();
  }
  return queue_.emplace_back();
}

void OutStream::send(const Header& header, std::span<const std::byte> payload, std::uint32_t& unfinished) {
  if (state_ == StreamState::left) return;  // of one that is broken another takes over what waits
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

void OutStream::append_header(const Header& header) {
  Frame& frame = append();
  std::memcpy(frame.head.data(), &header, sizeof(header));
  frame.head_bytes = sizeof(header);
  waiting_ += sizeof(header);
}

void OutStream::append_frame(Header header, std::vector<std::byte> rest) {
  header.bytes = static_cast<std::uint32_t>(rest.size());
  append_header(header);
  own_bytes_.push_back(std::move(rest));
  queue_.back().rest = own_bytes_.back();
  waiting_ += header.bytes;
}

// Takes bytes that the kernel took off the front of the queue.
void OutStream::advance(std::size_t bytes) {
  taken_ += bytes;
  waiting_ -= bytes;
  while (!idle()) {
    Frame& frame = queue_[first_];
    const std::size_t head = std::min(bytes, frame.head_bytes - frame.head_done);
    const std::size_t rest = std::min(bytes - head, frame.rest.size() - frame.rest_done);
    if (keeps_ == Keeps::unacknowledged) {
      sent_.add(std::as_bytes(std::span(frame.head)).subspan(frame.head_done, head));
      sent_.add(frame.rest.subspan(frame.rest_done, rest));
    }
    frame.head_done += head;
    frame.rest_done += rest;
    bytes -= head + rest;
    if (!frame.is_done()) return;
    if (keeps_ == Keeps::unacknowledged && !frame.is_empty()) sent_.end_frame();
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
      if (frame.rest_done < frame.rest.size())
        pieces[count++] = piece_of(frame.rest.data() + frame.rest_done, frame.rest.size() - frame.rest_done);
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
  if (sent_.bytes() > kMostKept) sent_.trim(socket_.unacknowledged());
  return moved;
}

void OutStream::say_lost(std::size_t rail, std::uint32_t epoch, Loss loss) {
  Header lost{};
  lost.turn = tcp::kLost;
  lost.tag = rail;
  lost.seq = epoch;
  lost.segment = static_cast<std::uint32_t>(loss);
  append_header(lost);
}

void OutStream::say_gone(Rank who, std::string_view why) {
  Header gone{};
  gone.turn = tcp::kGone;
  gone.from = who;
  const auto text = std::as_bytes(std::span(why.substr(0, tcp::kMostOfWhy)));
  append_frame(gone, {text.begin(), text.end()});
  push(0);
}

// Frames that the kernel has taken whole may have come or not, the reader knows. Those behind have not.
void OutStream::take_over(OutStream& other, std::size_t rail, Loss loss) {
  say_lost(rail, other.epoch_, loss);
  bool has_said_hello = other.taken_ >= sizeof(Hello);
  while (other.sent_.frames() > 0) {
    Header again{};
    again.turn = tcp::kAgain;
    again.tag = other.sent_.first_frame();
    again.from = static_cast<Rank>(rail);
    again.seq = other.epoch_;
    std::vector<std::byte> frame = other.sent_.pop();
    if (again.tag != 0) append_frame(again, std::move(frame));  // 0: its hello
  }
  for (; !other.idle(); ++other.first_) {
    if (!std::exchange(has_said_hello, true)) continue;
    Frame frame = other.queue_[other.first_];
    frame.head_done = frame.rest_done = 0;
    waiting_ += frame.head_bytes + frame.rest.size();
    append() = frame;
  }
  for (std::vector<std::byte>& bytes : other.own_bytes_) own_bytes_.push_back(std::move(bytes));
  push(0);
}

bool OutStream::wake() {
  is_blocked_ = false;
  if (hears_ == Hears::itself) listen();
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
  if (got == sizeof(header) && tcp::is_farewell(header)) {
    state_ = StreamState::left;
  } else {
    state_ = StreamState::broken;
    why_ = "the connection was closed";
  }
}

void OutStream::ended(StreamState state, const std::string& why, bool is_silent) {
  if (state_ != StreamState::open) return;
  state_ = state;
  why_ = why;
  is_silent_ = is_silent;
  if (state == StreamState::broken) socket_.shut_down();  // the other end is told, too
}

// The kernel alone would try for a quarter of an hour. A machine that is there answers however busy its
// programs are, so that this is no bound on them, as TCP_USER_TIMEOUT would be.
void OutStream::listen_for_silence(int tries) {
  if (state_ == StreamState::open && socket_.unanswered_tries() >= tries) fail(ETIMEDOUT);
}

void OutStream::hang_up() {
  queue_.clear();
  own_bytes_.clear();
  first_ = waiting_ = 0;
  sent_ = {};
  state_ = StreamState::left;
  socket_.reset();
}

void OutStream::fail(int error) {
  state_ = StreamState::broken;
  why_ = std::strerror(error);
  is_silent_ = error == ETIMEDOUT;
}

bool OutStream::close() {
  bool can_say = socket_.is_open() && state_ == StreamState::open && (idle() || taken_ == 0);
  if (can_say && taken_ == 0) {
    iovec hello = piece_of(queue_[first_].head.data(), sizeof(Hello));
    can_say = socket_.send({&hello, 1}) == sizeof(Hello);
  }
  if (can_say) tcp::say_farewell(socket_);
  queue_.clear();
  first_ = waiting_ = 0;
  state_ = StreamState::left;
  socket_.close();
  return can_say;
}

}  // namespace ddl
