#include "core/hierarchy/hierarchy_setup.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>
#include <thread>

#include "core/base/log.hpp"
#include "core/base/signals.hpp"

namespace ddl {
namespace {

using RailsId = std::array<std::byte, DDL_RAILS_ID_BYTES>;

// What a rank has got of its hierarchy, for all to hear.
enum Got : std::uint8_t { kReady = 1, kRails = 2 };

// One rank's setup on its way.
struct UnderWay {
  HierarchySetup setup;
  std::shared_ptr<HierarchicalCommunicator> made;
  // What this rank was not able to do; "" where all went well.
  std::string trouble_of_rounds = {}, trouble_of_rails = {};

  template <class Said>
  void start(const Said& mine) {
    try {
      setup.rounds->start(bytes_of_value(mine));
    } catch (const std::exception&) {
      // The answer will not come either, and say why.
    }
  }
  // Nothing, and why, when a rank cannot be heard.
  template <class Said>
  std::optional<std::vector<Said>> answers(std::string& why) {
    try {
      return values_of<Said>(setup.rounds->wait());
    } catch (const std::exception& error) {
      why = error.what();
      return std::nullopt;
    }
  }
};
using All = std::vector<UnderWay>;

// Every rank takes part in all of it, whatever went wrong before: the others would wait.
void split_all(const ddl_library& library, All& all) {
  std::size_t most = 0;
  for (const UnderWay& one : all) most = std::max(most, one.made->parts_wanted());
  for (std::size_t d = 0; d < most; ++d) {
    library.group_start();
    for (UnderWay& one : all)
      if (d < one.made->parts_wanted()) one.made->split(d, one.setup.config.data());
    const int result = library.group_end();
    for (UnderWay& one : all) one.made->note(result);
  }
}

// The first of each group says where its rails meet. In threads, because the ranks wait for each other.
void open_rails(const ddl_library& library, All& all) {
  std::vector<std::jthread> threads;
  for (UnderWay& one : all) {
    RailsId id{};
    if (!one.made->may_have_rails()) continue;
    if (one.made->last().place == 0) library.make_rails_id(id.data());
    one.start(id);
  }
  SignalsBlocked blocked;
  for (UnderWay& one : all) {
    if (!one.made->may_have_rails()) continue;
    auto ids = one.answers<RailsId>(one.trouble_of_rounds);
    if (!ids) continue;
    auto open = [&one, id = (*ids)[static_cast<std::size_t>(one.made->last().first)]] {
      one.trouble_of_rails = one.made->open_rails(id, one.setup.who);
    };
    try {
      threads.emplace_back(open);
    } catch (const std::system_error& error) {
      one.trouble_of_rails = error.what();
    }
  }
}

// Who was not heard, or does not hear, leaves the rounds: the others hear of that.
void tell_what_there_is(UnderWay& one) {
  if (!one.trouble_of_rounds.empty()) return one.setup.rounds.reset();
  one.start(static_cast<std::uint8_t>((one.made->is_ready() ? kReady : 0) |
                                      (one.trouble_of_rails.empty() ? kRails : 0)));
}

// Why this rank's calls are left to the library, for people; nothing when all ranks have what it takes. Rails
// are dropped where one has none.
std::optional<std::string> why_not(const ddl_library& library, UnderWay& one, bool verbose) {
  const std::string left = std::string("the communicator is left to ") + library.name + ": ";
  if (!one.trouble_of_rounds.empty()) return left + one.trouble_of_rounds;
  std::string why;
  auto all = one.answers<std::uint8_t>(why);
  auto all_have = [&all](Got what) {
    return all && std::all_of(all->begin(), all->end(), [what](std::uint8_t got) { return got & what; });
  };
  HierarchicalCommunicator& made = *one.made;
  if (made.may_have_rails() && !all_have(kRails)) {
    if (verbose && !one.trouble_of_rails.empty())
      log_info(one.setup.who + ": no rails of ours between the hosts: " + one.trouble_of_rails);
    made.drop_rails();
  }
  if (all_have(kReady)) return std::nullopt;
  if (!made.is_ready())
    return std::string("no smaller communicators: ") + library.describe(made.state()) + ": " +
           library.last_error(one.setup.whole);
  if (!all) return left + why;
  return one.setup.rounds->rank() == 0 ? left + "a rank has not got its smaller ones" : "";
}

}  // namespace

std::vector<std::shared_ptr<HierarchicalCommunicator>> set_up_hierarchies(const ddl_library& library,
                                                                          const cuda::Driver& driver,
                                                                          std::vector<HierarchySetup> setups,
                                                                          bool verbose) {
  All all;
  for (HierarchySetup& one : setups) {
    auto made = std::make_shared<HierarchicalCommunicator>(library, driver, one.context, one.whole,
                                                           std::move(one.shape));
    all.push_back({std::move(one), std::move(made)});
  }
  split_all(library, all);
  open_rails(library, all);
  for (UnderWay& one : all) {
    one.made->make_streams();
    tell_what_there_is(one);
  }
  std::vector<std::shared_ptr<HierarchicalCommunicator>> made;
  for (UnderWay& one : all) {
    std::optional<std::string> why = why_not(library, one, verbose);
    if (why && verbose && !why->empty()) log_info(one.setup.who + ": " + *why);
    const bool is_kept = !why && one.made->tune(std::move(one.setup.rounds), verbose);
    made.push_back(is_kept ? one.made : nullptr);
    if (is_kept) continue;
    for (void* part : one.made->release()) library.destroy(part);
  }
  return made;
}

}  // namespace ddl
