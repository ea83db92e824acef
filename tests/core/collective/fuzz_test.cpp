// An honest rank among hostile ones, which say what honest ones would say and lie about one message or some.
// It must never crash, nor read beyond a buffer, nor give out a wrong result in silence; it refuses and says
// whom.
#include <climits>
#include <optional>

#include "tests/support/fuzzing.hpp"

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
      std::vector<Rank> suspects;
      for (const Story& told : {truth, story})
        for (const Said& said : told) suspects.insert(suspects.end(), {said.by, said.header.from});
      expect_named_if_refused(calls, suspects);
      for (const auto& buffers : calls.buffers) buffers->expect_untouched(calls.me);
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

}  // namespace ddl
