// The same over TCP: whoever knows the secret of a rail may write to it what it likes.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/fuzzing.hpp"
#include "tests/support/tcp_liar.hpp"

namespace ddl {
namespace {

using test::Calls;
using test::expect_sane;
using test::Fate;
using test::honest_story;
using test::HostileJob;
using test::kScenarios;
using test::Random;
using test::Said;
using test::Scenario;
using test::Story;
using test::with_seeds;

using Stream = std::vector<std::byte>;

void append(Stream& stream, const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  stream.insert(stream.end(), begin, begin + bytes);
}

struct Script {
  Stream bytes;
  std::vector<std::size_t> headers;  // where they begin
  bool is_whole = true;              // told to the end, it makes the calls right
  std::vector<Rank> suspects = {1};
};

Script script_of(const Hello& hello, const Story& story) {
  Script script;
  append(script.bytes, &hello, sizeof(hello));
  for (const Said& said : story) {
    script.headers.push_back(script.bytes.size());
    append(script.bytes, &said.header, sizeof(said.header));
    append(script.bytes, said.payload.data(), said.payload.size());
  }
  return script;
}

// The farewell of an honest peer.
Header farewell() {
  Header header{};
  header.turn = 1;
  return header;
}

void insert(Script& script, std::size_t at, const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  script.bytes.insert(script.bytes.begin() + static_cast<std::ptrdiff_t>(at), begin, begin + bytes);
}

void distort(Script& script, Random& random) {
  std::size_t header = script.headers[random() % script.headers.size()];
  std::size_t anywhere = sizeof(Hello) + random() % (script.bytes.size() - sizeof(Hello));
  script.is_whole = false;
  switch (random() % 7) {
    case 0:
      script.is_whole = true;
      return;
    case 1:
      script.bytes[header + random() % offsetof(Header, turn)] ^= std::byte{1} << (random() % 8);
      script.suspects.emplace_back();
      std::memcpy(&script.suspects.back(), &script.bytes[header + offsetof(Header, from)], sizeof(Rank));
      return;
    case 2:
      script.bytes.resize(anywhere);
      return;
    case 3: {
      std::vector<std::uint32_t> noise(1 + random() % 30);
      for (std::uint32_t& word : noise) word = static_cast<std::uint32_t>(random());
      return insert(script, header, noise.data(), noise.size() * 4 - random() % 4);
    }
    case 4: {
      Header last = farewell();
      return insert(script, header, &last, 1 + random() % (sizeof(last) - 1));
    }
    case 5: {
      const std::uint32_t sizes[] = {1u << 30, (1u << 30) + 1, ~0u, 20'000'000};
      std::memcpy(&script.bytes[header + offsetof(Header, bytes)], &sizes[random() % 4], 4);
      return;
    }
    default: {
      Stream again(script.bytes.begin() + static_cast<std::ptrdiff_t>(header), script.bytes.end());
      return append(script.bytes, again.data(), again.size());
    }
  }
}

bool is_between_hosts(const Scenario& scenario) { return scenario.hosts == std::vector<HostIndex>{0, 1}; }

// Writes it in pieces, while rank 0 moves.
void write_all(const Socket& socket, const Stream& bytes, Calls& calls, Random& random) {
  std::size_t written = 0;
  for (int idle = 0; written < bytes.size() && idle < 1000 && !calls.engine.failed();) {
    std::size_t most = std::min<std::size_t>(bytes.size() - written, 1 + random() % 20'000);
    std::size_t took = test::TcpLiar::write(socket, std::span(bytes).subspan(written, most));
    idle = took ? 0 : idle + 1;
    written += took;
    calls.engine.progress();
  }
}

template <class Condition>
bool within_seconds(Calls& calls, const Condition& condition) {
  for (Nanoseconds end = now() + 20'000'000'000; now() < end; calls.move(), calls.engine.progress()) {
    if (condition()) return true;
    ::usleep(100);  // an end is told 0.3 s later
  }
  return false;
}

}  // namespace

TEST(Fuzz, AStreamThatIsDistortedIsRefusedAndNamedAtItsEndAtTheLatest) {
  for (const Scenario& scenario : kScenarios) {
    if (!is_between_hosts(scenario)) continue;
    const Story truth = honest_story(scenario);
    with_seeds(12, [&](Random& random) {
      SCOPED_TRACE(scenario.name);
      test::TcpLiar liar(2);
      HostileJob job(scenario.hosts, &liar.honest());
      Calls calls(scenario, job, 0);
      bool starts_early = random() % 2;
      if (starts_early) calls.start();
      Script script = script_of(liar.hello(1), truth);
      distort(script, random);
      Socket socket = liar.connect();
      write_all(socket, script.bytes, calls, random);
      if (!starts_early) calls.start();
      if (script.is_whole) {
        EXPECT_TRUE(within_seconds(calls, [&] { return calls.over(); }));
      }
      expect_sane(calls, script.is_whole ? Fate::right : Fate::open, script.suspects);
      bool is_left = script.bytes.size() > 24 && random() % 8 == 0 && script.is_whole;
      if (is_left) {
        Header last = farewell();
        liar.write(socket, std::as_bytes(std::span(&last, 1)));
      }
      socket.close();
      if (is_left) return;
      bool ends = within_seconds(calls, [&] { return calls.engine.failed(); });
      EXPECT_TRUE(ends) << "nobody noticed the end of the connection";
      expect_sane(calls, Fate::refused, script.suspects);
    });
  }
}

TEST(Fuzz, WhoAnswersWithNeitherHelloNorFarewellIsNamed) {
  const Scenario& scenario = kScenarios[3];
  with_seeds(20, [&](Random& random) {
    test::TcpLiar liar(2);
    HostileJob job(scenario.hosts, &liar.honest());
    Calls calls(scenario, job, 0);
    calls.start();
    Socket reader;
    ASSERT_TRUE(within_seconds(calls, [&] { return (reader = liar.accept()).is_open(); }));
    Header last = farewell();
    const bool is_whole = random() % 2;
    if (is_whole) last.turn ^= std::uint32_t{1} << (random() % 32);
    liar.write(reader, std::as_bytes(std::span(&last, 1))
                           .first(is_whole ? sizeof(last) : 1 + random() % (sizeof(last) - 1)));
    if (!is_whole) reader.close();
    ASSERT_TRUE(within_seconds(calls, [&] { return calls.engine.failed(); }));
    expect_sane(calls, Fate::refused, {{1}});
  });
}

TEST(Fuzz, AHelloThatIsWrongIsAStrangersAndHarmsNobody) {
  const Scenario& scenario = kScenarios[3];
  const Story truth = honest_story(scenario);
  with_seeds(20, [&](Random& random) {
    test::TcpLiar liar(2);
    HostileJob job(scenario.hosts, &liar.honest());
    Calls calls(scenario, job, 0);
    calls.start();
    Hello wrong = liar.hello(1);
    const std::uint32_t ranks[] = {2, 3, ~0u, 1u << 31};
    if (random() % 2)
      wrong.rank = ranks[random() % 4];
    else
      wrong.token ^= std::uint64_t{1} << (random() % 64);
    Script lie = script_of(wrong, truth);
    if (random() % 4 == 0) lie.bytes.resize(random() % sizeof(Hello));
    Socket stranger = liar.connect(), friendly = liar.connect();
    write_all(stranger, lie.bytes, calls, random);
    stranger.close();
    for (int i = 0; i < 5; ++i) calls.move();
    EXPECT_FALSE(calls.over()) << calls.engine.failure();
    write_all(friendly, script_of(liar.hello(1), truth).bytes, calls, random);
    ASSERT_TRUE(within_seconds(calls, [&] { return calls.over(); }));
    expect_sane(calls, Fate::right, {{1}});
  });
}

// Before the communicator is made nobody knows who its ranks are: the lie is found out then.
TEST(Fuzz, WhoSpokeForAnotherToACommunicatorThatWasNotMadeYetIsNamed) {
  const Scenario& scenario = kScenarios[3];
  for (bool lies : {false, true}) {
    test::TcpLiar liar(2);
    HostileJob job(scenario.hosts, &liar.honest());
    Calls calls(scenario, job, 0);  // of the communicator that there is
    Story story = {honest_story(scenario)[0]};
    story[0].header.comm += 1;
    if (lies) story[0].header.from = 0;
    Socket socket = liar.connect();
    liar.write(socket, script_of(liar.hello(1), story).bytes);
    for (int i = 0; i < 100; ++i, ::usleep(200)) calls.engine.progress();
    EXPECT_FALSE(calls.engine.failed()) << calls.engine.failure();
    Members members{{0, 1}, 0, scenario.hosts, Grid::from_hosts(scenario.hosts)};
    calls.engine.create(story[0].header.comm, std::make_shared<PlanStore>(members, scenario.limits()));
    EXPECT_EQ(calls.engine.failure(), lies ? "rank 1 of the job has sent what is of rank 0" : "");
  }
}

// Nobody says so who is still needed; the program waits on, and is told so by Engine's warning.
TEST(Fuzz, AFarewellInTheMiddleIsNoResult) {
  const Scenario& scenario = kScenarios[4];
  const Story truth = honest_story(scenario);
  with_seeds(20, [&](Random& random) {
    test::TcpLiar liar(2);
    HostileJob job(scenario.hosts, &liar.honest());
    Calls calls(scenario, job, 0);
    Script script = script_of(liar.hello(1), truth);
    Header last = farewell();
    insert(script, script.headers[random() % script.headers.size()], &last, sizeof(last));
    calls.start();
    Socket socket = liar.connect();
    write_all(socket, script.bytes, calls, random);
    socket.close();
    for (int i = 0; i < 100; ++i) calls.move();
    EXPECT_FALSE(calls.done());
    expect_sane(calls, Fate::open, {{1}});
  });
}

// Over two connections of one peer: the second must not write where the program may already read, or where
// its memory has been.
TEST(Fuzz, AMessageThatComesOverTwoConnectionsAtOnceIsRefused) {
  Scenario scenario{"receive", {0, 1}, Kind::receive, 1, 100'000, 1, 1 << 20};
  const Story truth = honest_story(scenario);
  ASSERT_EQ(truth.size(), 1u);
  for (bool first_ends_first : {true, false}) {
    test::TcpLiar liar(2);
    HostileJob job(scenario.hosts, &liar.honest());
    Calls calls(scenario, job, 0);
    calls.start();
    Random random(1);
    const Script script = script_of(liar.hello(1), truth);
    Stream begin(script.bytes.begin(), script.bytes.begin() + 1000);
    Stream rest(script.bytes.begin() + 1000, script.bytes.end());
    Socket one = liar.connect(), other = liar.connect();
    write_all(one, begin, calls, random);
    for (int i = 0; i < 20; ++i) calls.move();
    write_all(other, begin, calls, random);
    for (int i = 0; i < 20; ++i) calls.move();
    write_all(first_ends_first ? one : other, rest, calls, random);
    within_seconds(calls, [&] { return calls.over(); });
    EXPECT_NE(calls.done(), calls.engine.failed());
    EXPECT_EQ(calls.done(), first_ends_first) << "only what comes to its place is taken";
    if (!first_ends_first) continue;
    std::vector<std::int32_t>& result = calls.buffers[0]->out;
    std::fill(result.begin(), result.end(), 7);  // the program's again
    write_all(other, rest, calls, random);
    for (int i = 0; i < 100; ++i) calls.engine.progress();
    EXPECT_EQ(std::count(result.begin(), result.end(), 7), std::ssize(result)) << "it was written to";
  }
}

}  // namespace ddl
