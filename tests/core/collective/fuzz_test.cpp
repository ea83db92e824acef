// An honest rank among hostile ones, which say what honest ones would say and lie about some of it. It must
// never crash, nor read beyond a buffer, nor give out a wrong result in silence; it refuses and says whom.
//
// The tests here are the same in every run. With DDL_FUZZ_SECONDS (scripts/fuzz.sh) each goes on with other
// seeds for about so long.
#include <gtest/gtest.h>

#include <chrono>
#include <climits>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "core/base/clock.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/hostile_job.hpp"
#include "tests/support/tcp_liar.hpp"

namespace ddl {
namespace {

using test::CallBuffers;
using test::HostileJob;
using test::Said;
using Random = std::mt19937;
using Story = std::vector<Said>;

struct Scenario {
  const char* name;
  std::vector<HostIndex> hosts;
  Kind kind;
  Rank root;  // as rank 0 sees it; send, receive: the other rank
  Elements count;
  int calls;  // under way together
  Bytes segment = 0;

  Rank size() const { return static_cast<Rank>(hosts.size()); }
  PlanLimits limits() const { return {1, HostileJob::kStaging, segment, {}}; }
};

const Scenario kScenarios[] = {
    {"one-shot", {0, 0}, Kind::all_reduce, 0, 100, 3},
    {"one-shot of three, inline", {0, 0, 0}, Kind::all_reduce, 0, 5, 2},
    {"in many segments", {0, 0}, Kind::all_reduce, 0, 10'003, 2, 4 << 10},
    {"between hosts", {0, 1}, Kind::all_reduce, 0, 7, 3},
    {"between hosts in many segments", {0, 1}, Kind::all_reduce, 0, 10'003, 2, 4 << 10},
    {"two hosts of two", {0, 0, 1, 1}, Kind::all_reduce, 0, 5'000, 1, 4 << 10},
    {"receive", {0, 0}, Kind::receive, 1, 3'000, 2},
    {"send", {0, 0}, Kind::send, 1, 3'000, 2},
    {"receive between hosts", {0, 1}, Kind::receive, 1, 3'000, 2, 4 << 10},
    {"send between hosts", {0, 1}, Kind::send, 1, 3'000, 2, 4 << 10},
    {"broadcast", {0, 0, 0}, Kind::broadcast, 1, 4'000, 2},
    {"broadcast between hosts", {0, 1, 1}, Kind::broadcast, 1, 4'000, 2, 4 << 10},
    {"broadcast from here", {0, 0, 1}, Kind::broadcast, 0, 4'000, 1, 4 << 10},
};

Kind seen_by(Rank rank, Kind kind) {
  if (rank == 0 || !is_between_two(kind)) return kind;
  return kind == Kind::send ? Kind::receive : Kind::send;
}

// The calls of one rank of a scenario. Whatever is not done when they go never will be.
struct Calls {
  Communicator& communicator;
  Engine& engine;
  std::vector<std::unique_ptr<CallBuffers>> buffers;
  std::vector<std::unique_ptr<Completion>> completions;
  Rank me, size;

  Calls(const Scenario& s, HostileJob& job, Rank rank)
      : communicator(job.create(rank, s.limits())), engine(job.engine(rank)), me(rank), size(s.size()) {
    Rank root = is_between_two(s.kind) && me != 0 ? 0 : s.root;
    for (int i = 0; i < s.calls; ++i) {
      Kind kind = seen_by(me, s.kind);
      buffers.push_back(std::make_unique<CallBuffers>(kind, root, me, size, s.count, test::Where::apart));
      completions.push_back(std::make_unique<Completion>());
    }
  }
  ~Calls() { engine.fail("the test is over"); }
  void start() {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Call& call = buffers[i]->call;
      if (is_between_two(call.kind))
        engine.start_together(communicator, {&call, 1}, {completions[i].get(), 1});
      else
        engine.start(communicator, call, *completions[i]);
    }
  }
  bool done() const {
    return std::all_of(completions.begin(), completions.end(), [](const auto& one) { return one->done(); });
  }
  bool over() const { return done() || engine.failed(); }
  void move() {
    for (const auto& one : completions) engine.test(*one);
  }
};

// What honest ranks say to rank 0.
Story honest_story(const Scenario& s) {
  HostileJob job(s.hosts);
  std::vector<std::unique_ptr<Calls>> calls;
  for (Rank rank = 0; rank < s.size(); ++rank) calls.push_back(std::make_unique<Calls>(s, job, rank));
  for (auto& one : calls) one->start();
  auto done = [](const auto& one) { return one->done(); };
  for (int i = 0; i < 100'000 && !std::all_of(calls.begin(), calls.end(), done); ++i)
    for (auto& one : calls) one->move();
  EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), done)) << s.name;
  for (auto& one : calls) EXPECT_EQ(one->engine.failure(), "") << s.name;
  EXPECT_FALSE(job.heard().empty()) << s.name;
  return job.heard();
}

// What must come of a story.
enum class Fate { right, refused, open };

void expect_named(const std::string& failure, std::span<const Rank> suspects) {
  bool named = std::any_of(suspects.begin(), suspects.end(), [&](Rank rank) {
    return failure.find("rank " + std::to_string(rank)) != std::string::npos;
  });
  EXPECT_TRUE(named && (failure.find("call number") != std::string::npos ||
                        failure.find("is gone") != std::string::npos))
      << failure;
}

void expect_sane(const Calls& calls, Fate fate, std::span<const Rank> suspects) {
  std::string failure = calls.engine.failure();
  if (fate == Fate::right) {
    EXPECT_TRUE(failure.empty() && calls.done()) << failure;
  }
  if (fate == Fate::refused) {
    EXPECT_FALSE(failure.empty()) << "nothing was refused; " << (calls.done() ? "done" : "not done");
  }
  if (!failure.empty()) return expect_named(failure, suspects);
  for (std::size_t i = 0; i < calls.buffers.size(); ++i)
    if (calls.completions[i]->done()) calls.buffers[i]->expect_right(calls.me, calls.size);
}

// So many cases, or more of them for this one's share of the time that the environment gives each test.
template <class Body>
void with_seeds(unsigned cases, const Body& body, std::size_t sharers = std::size(kScenarios)) {
  const char* seconds = std::getenv("DDL_FUZZ_SECONDS");
  Nanoseconds end =
      seconds ? now() + std::atol(seconds) * 1'000'000'000 / static_cast<Nanoseconds>(sharers) : 0;
  unsigned seed = seconds ? std::random_device()() : 0;
  for (unsigned i = 0; (i < cases || now() < end) && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(++seed));
    Random random(seed);
    body(random);
  }
}

// ---- lies about one message ----

struct Lie {
  const char* what;
  // Changes message `at` of the story, or what is around it.
  void (*tell)(Story& story, std::size_t at, Random& random);
  Fate fate, fate_between_two;
};

void resize(Said& said, std::size_t bytes) {
  said.payload.resize(bytes, std::byte{0x5a});
  said.header.bytes = static_cast<std::uint32_t>(bytes);
}

const Lie kLies[] = {
    {"nothing", [](Story&, std::size_t, Random&) {}, Fate::right, Fate::right},
    {"order", [](Story& story, std::size_t, Random& r) { std::shuffle(story.begin(), story.end(), r); },
     Fate::right, Fate::right},
    {"longer",
     [](Story& story, std::size_t at, Random& r) {
       resize(story[at], story[at].payload.size() + 1 + r() % (r() % 2 ? 8 : 20'000));
     },
     Fate::refused, Fate::refused},
    {"shorter",
     [](Story& story, std::size_t at, Random& r) {
       std::size_t bytes = story[at].payload.size();
       resize(story[at], bytes == 0 ? 1 : r() % bytes);
     },
     Fate::refused, Fate::refused},
    // Loopback knows how long a payload is.
    {"bytes", [](Story& story, std::size_t at, Random& r) { story[at].header.bytes ^= 1u << (r() % 32); },
     Fate::open, Fate::open},
    {"tag", [](Story& story, std::size_t at, Random& r) { story[at].header.tag ^= Tag{1} << (r() % 64); },
     Fate::refused, Fate::open},
    {"segment", [](Story& story, std::size_t at, Random& r) { story[at].header.segment ^= 1u << (r() % 32); },
     Fate::open, Fate::open},
    {"segment far away",
     [](Story& story, std::size_t at, Random& r) { story[at].header.segment += 5'000 + r() % 1'000'000; },
     Fate::refused, Fate::refused},
    {"communicator",
     [](Story& story, std::size_t at, Random& r) { story[at].header.comm ^= CommId{1} << (r() % 64); },
     Fate::open, Fate::open},
    {"from",
     [](Story& story, std::size_t at, Random& r) {
       const Rank strangers[] = {0, -1, 5, INT_MIN, INT_MAX, static_cast<Rank>(r() | 8)};
       story[at].header.from = strangers[r() % std::size(strangers)];
     },
     Fate::refused, Fate::refused},
    {"number", [](Story& story, std::size_t at, Random& r) { story[at].header.seq ^= 1u << (r() % 32); },
     Fate::open, Fate::open},
    {"number of long ago",
     [](Story& story, std::size_t at, Random& r) {
       Header& header = story[at].header;
       header.seq = (header.seq & kBetweenTwo) | ((header.seq - 10 - r() % 1000) & ~kBetweenTwo);
     },
     Fate::refused, Fate::refused},
    {"fingerprint",
     [](Story& story, std::size_t at, Random& r) { story[at].header.fingerprint ^= 1u << (r() % 32); },
     Fate::refused, Fate::refused},
    {"silence",
     [](Story& story, std::size_t at, Random&) {
       story.erase(story.begin() + static_cast<std::ptrdiff_t>(at));
     },
     Fate::open, Fate::open},
    {"twice",
     [](Story& story, std::size_t at, Random& r) {
       Said again = story[at];
       std::size_t place = at + r() % (story.size() - at + 1);
       story.insert(story.begin() + static_cast<std::ptrdiff_t>(place), again);
     },
     Fate::refused, Fate::open},
};

// Says it, some of it before rank 0 makes its calls, and moves rank 0 until nothing more can come of it.
void tell(const Story& story, HostileJob& job, Calls& calls, Random& random) {
  std::size_t early = random() % (story.size() + 1);
  for (std::size_t i = 0; i < story.size() && !calls.engine.failed(); ++i) {
    if (i == early) calls.start();
    for (int tries = 0; tries < 1000 && !job.say(story[i]); ++tries) calls.engine.progress();
    if (random() % 4 == 0) calls.engine.progress();
    job.listen();
  }
  if (early == story.size() || calls.engine.failed()) calls.start();
  for (int i = 0; i < 100 && !calls.over(); ++i) {
    calls.move();
    job.listen();
  }
  for (int i = 0; i < 3; ++i) calls.engine.progress();
}

}  // namespace

TEST(Fuzz, ALieAboutOneMessageIsRefusedAndNamedOrDoesNoHarm) {
  for (const Scenario& scenario : kScenarios) {
    const Story truth = honest_story(scenario);
    ASSERT_FALSE(truth.empty());
    for (const Lie& lie : kLies)
      with_seeds(
          6,
          [&](Random& random) {
            SCOPED_TRACE(std::string(scenario.name) + ", lie about " + lie.what);
            Story story = truth;
            std::size_t at = random() % story.size();
            std::vector<Rank> suspects = {story[at].by};
            lie.tell(story, at, random);
            if (at < story.size()) suspects.push_back(story[at].header.from);
            HostileJob job(scenario.hosts);
            Calls calls(scenario, job, 0);
            tell(story, job, calls, random);
            expect_sane(calls, is_between_two(scenario.kind) ? lie.fate_between_two : lie.fate, suspects);
          },
          std::size(kScenarios) * std::size(kLies));
  }
}

TEST(Fuzz, ManyLiesAtOnceBreakNothing) {
  for (const Scenario& scenario : kScenarios) {
    const Story truth = honest_story(scenario);
    with_seeds(40, [&](Random& random) {
      SCOPED_TRACE(scenario.name);
      Story story = truth;
      for (unsigned lies = 2 + random() % 5; lies > 0 && !story.empty(); --lies)
        kLies[random() % std::size(kLies)].tell(story, random() % story.size(), random);
      HostileJob job(scenario.hosts);
      Calls calls(scenario, job, 0);
      tell(story, job, calls, random);
    });
  }
}

TEST(Fuzz, ADescriptorOfMemoryThatIsNotTheSendersIsRefusedAndNamed) {
  for (const Scenario& scenario : kScenarios) {
    const Story truth = honest_story(scenario);
    Story near;
    auto is_near = [&](const Said& said) { return HostileJob(scenario.hosts).is_near(said.by); };
    std::copy_if(truth.begin(), truth.end(), std::back_inserter(near), is_near);
    if (near.empty()) continue;
    with_seeds(60, [&](Random& random) {
      SCOPED_TRACE(scenario.name);
      HostileJob job(scenario.hosts);
      Calls calls(scenario, job, 0);
      std::size_t at = random() % near.size();
      bool starts_early = random() % 2;
      if (starts_early) calls.start();
      for (std::size_t i = 0; i <= at && !calls.engine.failed(); ++i) {
        Said said = near[i];
        Bytes block = job.stage(said), end = job.region(0).bytes();
        if (i == at) {
          const Bytes lies[] = {0,
                                end,
                                end - 64,
                                end + (Bytes{random()} & ~Bytes{63}),
                                ~Bytes{63},
                                block + 8,
                                Bytes{random() | 1} << 32 | random(),
                                Bytes{random()} << 6 | 2,
                                job.region(0).staging_offset(1) | 2,
                                block};
          Bytes lie = lies[random() % std::size(lies)];
          said.header.bytes = static_cast<std::uint32_t>(89 + random() % 9000);
          if (lie == block || random() % 4 == 0)
            said.header.bytes = static_cast<std::uint32_t>(end - block - random() % sizeof(BlockHead));
          block = lie;
        }
        job.post(said, block);
        calls.engine.progress();
        job.listen();
      }
      if (!starts_early) calls.start();
      for (int i = 0; i < 10; ++i) calls.move();
      expect_sane(calls, Fate::refused, {{near[at].by}});
    });
  }
}

// ---- lies on a stream ----

namespace {

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
  for (Nanoseconds end = now() + 20'000'000'000; now() < end; calls.move(), calls.engine.progress())
    if (condition()) return true;
  return false;
}

}  // namespace

TEST(Fuzz, AStreamThatIsDistortedIsRefusedAndNamedAtItsEndAtTheLatest) {
  for (const Scenario& scenario : kScenarios) {
    if (!is_between_hosts(scenario)) continue;
    const Story truth = honest_story(scenario);
    with_seeds(80, [&](Random& random) {
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

TEST(Fuzz, WhoReadsAndSaysSomethingElseThanFarewellIsNamed) {
  const Scenario& scenario = kScenarios[3];
  with_seeds(20, [&](Random& random) {
    test::TcpLiar liar(2);
    HostileJob job(scenario.hosts, &liar.honest());
    Calls calls(scenario, job, 0);
    calls.start();
    Socket reader;
    ASSERT_TRUE(within_seconds(calls, [&] { return (reader = liar.accept()).is_open(); }));
    Header last = farewell();
    if (random() % 2) last.turn = static_cast<std::uint32_t>(random());
    liar.write(reader, std::as_bytes(std::span(&last, 1)).first(1 + random() % (sizeof(last) - 1)));
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
