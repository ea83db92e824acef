#include "core/transport/tcp_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddl {
namespace {

enum Turn : std::uint32_t { kMessage, kFarewell, kLost, kAgain, kGone };  // in Header::turn
constexpr std::size_t kGathered = 64;                                     // pieces per system call
constexpr Bytes kAtOnce = 32 << 10;     // a message does not wait for others behind so many bytes
constexpr Bytes kMostKept = 256 << 10;  // before the kernel is asked what has been acknowledged

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

OutStream::OutStream(Socket socket, const Hello& hello, Keeps keeps, Hears hears)
    : socket_(std::move(socket)), epoch_(hello.epoch), keeps_(keeps), hears_(hears) {
  Frame& frame = append();
  std::memcpy(frame.head.data(), &hello, sizeof(hello));
  waiting_ = frame.head_bytes = sizeof(hello);
}

OutStream::Frame& OutStream::append() {
  constexpr std::size_t kGone = 64;  // frames that are not worth moving the others
  if (idle() || (first_ >= kGone && 2 * first_ >= queue_.size())) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
    if (queue_.empty()) again_.clear();
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
  lost.turn = kLost;
  lost.tag = rail;
  lost.seq = epoch;
  lost.segment = static_cast<std::uint32_t>(loss);
  append_header(lost);
}

void OutStream::say_gone(Rank who) {
  Header gone{};
  gone.turn = kGone;
  gone.from = who;
  append_header(gone);
  push(0);
}

// Frames that the kernel has taken whole may have come or not, the reader knows. Those behind have not.
void OutStream::take_over(OutStream& other, std::size_t rail, Loss loss) {
  say_lost(rail, other.epoch_, loss);
  bool has_said_hello = other.taken_ >= sizeof(Hello);
  while (other.sent_.frames() > 0) {
    Header again{};
    again.turn = kAgain;
    again.tag = other.sent_.first_frame();
    again.from = static_cast<Rank>(rail);
    again.seq = other.epoch_;
    again_.push_back(other.sent_.pop());
    if (again.tag == 0) continue;  // its hello
    again.bytes = static_cast<std::uint32_t>(again_.back().size());
    append_header(again);
    queue_.back().rest = again_.back();
    waiting_ += again_.back().size();
  }
  for (; !other.idle(); ++other.first_) {
    if (!std::exchange(has_said_hello, true)) continue;
    Frame frame = other.queue_[other.first_];
    frame.head_done = frame.rest_done = 0;
    waiting_ += frame.head_bytes + frame.rest.size();
    append() = frame;
  }
  for (std::vector<std::byte>& bytes : other.again_) again_.push_back(std::move(bytes));
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
  if (got == sizeof(header) && is_farewell(header)) {
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
  again_.clear();
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
  if (can_say) say_farewell(socket_);
  queue_.clear();
  first_ = waiting_ = 0;
  state_ = StreamState::left;
  socket_.close();
  return can_say;
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
    if (is_farewell(header_)) return leave();
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
    case kMessage:
      if (!handler.may_come_from(from_, header_)) {
        fail("it speaks for another rank");
        break;
      }
      take_payload(pool, handler, others);
      break;
    case kFarewell:
      if (is_farewell(header_)) {
        leave();
        break;
      }
      [[fallthrough]];
    default:
      fail("it sends what is no message");
      break;
    case kLost:
      others.lost({from_, header_.tag, header_.seq}, static_cast<Loss>(header_.segment));
      note_frame(others);
      break;
    case kGone:
      others.gone(from_, header_.from);
      note_frame(others);
      break;
    case kAgain:
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
  if (can_say && partner_ < 0) say_farewell(socket_);
  socket_.close();
}

}  // namespace ddl
