// What the parts of TcpTransport share: its rails, their connections, and what is known of those that are
// lost.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/net/wait.hpp"
#include "core/transport/lost_rails.hpp"
#include "core/transport/slow_rails.hpp"
#include "core/transport/tcp.hpp"
#include "core/transport/tcp_stream.hpp"

namespace ddl {

// What an event is about: the kind in the upper half, an index in the lower.
enum class TcpEvent : std::uint32_t { listener, out, in };

inline std::uint64_t key_of(TcpEvent kind, std::size_t index) {
  return static_cast<std::uint64_t>(kind) << 32 | index;
}

// As it travels in the endpoint info of a rank; all ranks run the same build.
struct PackedTcpAddress {
  std::uint64_t token;
  Endpoint endpoint;
};

struct TcpTransport::Impl : LostStreams {
  struct Rail {
    std::string interface;
    Endpoint local;
    std::uint64_t token = 0;
    Socket listener;
    std::vector<std::unique_ptr<OutStream>> outs;  // by rank in the job
    std::vector<Rank> used;                        // those of outs that exist
    Bytes sent = 0;
    std::vector<Rank> gathering;  // those of used that have had messages since the last push
    bool is_said_lost = false;
  };
  // Why a rail is lost, or a peer has failed.
  struct Reason {
    std::string text;
    Loss loss = Loss::of_a_peer;
    LostRails::Kind kind = LostRails::Kind::broken;
    bool is_silence = false;  // nobody answers
    bool is_told = false;     // by another rank, which says it
  };
  // What is to be said of a rail, unless it turns out that the peer is gone.
  struct Note {
    std::size_t rail;
    Nanoseconds since;
    std::string text;
  };

  Rank me = 0;
  Rank ranks = 0;
  ReceivePool pool;
  std::vector<Rail> rails;  // after set_rails(): by rail
  std::vector<std::vector<WireAddress>> addresses;
  std::vector<std::unique_ptr<InStream>> ins;
  struct Stranger {
    InStream* in;
    Nanoseconds since;
  };
  std::deque<Stranger> strangers;  // those of `ins` that have not said hello, the oldest first
  struct Failure {
    Rank peer;
    std::string why;
    Nanoseconds due;  // to be told
    Nanoseconds since;
    std::string own_words{};  // why, as that rank has said itself; empty where it has not
  };
  std::vector<Failure> failures;
  bool has_said_failed = false;
  EventSet events;
  bool said_stranger = false;
  int looks = 0;
  Nanoseconds inspected = 0;

  // Where there are several rails.
  LostRails lost_rails{0};
  EndedStreams ended_ins;
  std::vector<std::pair<std::size_t, Rank>> suspects;  // streams that may be broken
  struct BrokenIn {
    LostStream stream;
    Reason why;
    Nanoseconds since;
  };
  std::vector<BrokenIn> broken_ins;                 // their writers may say why
  std::set<std::pair<Rank, std::size_t>> lost_ins;  // who does not use which rail towards this rank any more
  std::map<std::pair<std::size_t, Rank>, StreamPace> paces;
  SlowRails slow_rails;
  Nanoseconds sampled = 0, concluded = 0;
  std::vector<Note> notes;
  MessageHandler* handler = nullptr;  // while progress() is at work

  void open_rail(const TcpRail& wanted);
  OutStream* connect(std::size_t rail, Rank to);
  OutStream* stream_for(std::size_t& rail, Rank to);
  OutStream* begin_stream(std::size_t rail, Rank to);
  OutStream* answer_on(std::size_t rail, Rank to);
  OutStream* add_out(std::size_t rail, Rank to, Socket socket);
  bool is_two_way() const { return rails.size() == 1; }
  InStream& add_in(Socket socket, std::size_t rail, Rank partner);
  void listen(std::size_t rail, Rank to);
  void end_partner(const InStream& in);
  void end_stream(std::size_t rail, Rank to);
  void fail(Rank peer, const Reason& why);
  void tell_failures();
  void accept_all(std::size_t rail);
  bool is_peer(std::size_t rail, const IpAddress& remote) const;
  bool make_room(Nanoseconds least);
  void refuse(std::size_t rail, const std::string& why);
  void remove_in(std::size_t index);
  Hello hello_of(std::size_t rail) const {
    return {Hello::kMagic, rails[rail].token, static_cast<std::uint32_t>(ranks), 0};
  }
  void check(std::size_t rail, Rank to, bool had_to_send);
  void check_suspects();
  void check_broken_ins();
  bool is_heard(Rank from) const;
  void give_up(std::size_t rail, Rank to, const Reason& why);
  std::set<Rank> peers_in_use() const;
  void give_up_all(std::size_t rail, const Reason& why);
  bool on_out(std::size_t index);
  bool on_in(std::size_t index);
  void inspect(Nanoseconds when);
  void sample(Nanoseconds when);
  SlowRails::Load load_of(std::size_t rail) const;
  void conclude();
  void inspect_links();
  void inspect_pace(std::size_t rail, Rank to, Nanoseconds passed);
  void try_again();
  void say_notes(Nanoseconds before);

  void lost(const LostStream& stream, Loss loss) override;
  bool lacks(const LostStream& stream, std::uint64_t frame) const override {
    return ended_ins.lacks(stream, frame);
  }
  void gone(Rank says, Rank who, std::string_view why) override;
  bool is_over(const LostStream& stream) const override { return ended_ins.is_over(stream); }
  void took(const LostStream& stream, std::uint64_t frame) override { ended_ins.took(stream, frame); }
  /// Where that rank listens; all zeros: it gave none.
  PackedTcpAddress address_of(std::size_t rail, Rank rank) const {
    PackedTcpAddress packed{};
    const WireAddress& bytes = addresses[static_cast<std::size_t>(rank)][rail];
    if (bytes.size() == sizeof(packed)) std::memcpy(&packed, bytes.data(), sizeof(packed));
    return packed;
  }
  OutStream* out(std::size_t rail, Rank to) const {
    return rails[rail].outs[static_cast<std::size_t>(to)].get();
  }
};

}  // namespace ddl
