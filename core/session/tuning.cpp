#include "core/session/tuning.hpp"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/tune/cache_file.hpp"

namespace ddl {
namespace {

// As Linux names it on this architecture; "" where it does not.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (std::size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  return {};
}

// "10.0.0.0/24", or "10.0.0.0/24 at 100 Gbit/s".
std::vector<std::string> rails_in_words(const JobMap& job_map) {
  std::vector<std::string> words = job_map.rails;
  for (std::size_t rail = 0; rail < words.size(); ++rail)
    if (job_map.rail_gbit[rail] > 0) words[rail] += fmt::format(" at {:g} Gbit/s", job_map.rail_gbit[rail]);
  return words;
}

}  // namespace

// Where DDL_OPTIONS are wrong the variables count alone; set_up() says so.
GradientSettings SessionTuning::asked_settings() const {
  try {
    return gradient_settings(with_options(env_));
  } catch (const UsageError&) {
    return gradient_settings(env_);
  }
}

void SessionTuning::describe(EndpointInfo& endpoint) {
  endpoint.options = env_.options;
  endpoint.deterministic = env_.deterministic;
  endpoint.gradients = asked_settings();
  if (me_ != 0) return;
  endpoint.cpu_model = cpu_model();
  CacheText cache = read_cache_file(env_.tune_cache);
  TuningToTell tell = tuning_to_tell(cache.text, {endpoint.cpus.size(), endpoint.cpu_model});
  endpoint.tuning = std::move(tell.text);
  cache_trouble_ = cache.trouble.empty() ? std::move(tell.trouble) : std::move(cache.trouble);
}

// What is wrong with the options or the cache costs their effect, not the job. All ranks read the same.
void SessionTuning::set_up(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) {
  auto warn = [&](const std::string& text) {
    if (me_ == 0) log_warning(text);
  };
  settings_.deterministic = job_map.deterministic;
  settings_.gradients = job_map.gradients;
  try {
    settings_.options = parse_ddl_options(job_map.options, static_cast<Rank>(endpoints.size()));
    if (!settings_.options.dims.empty()) Grid::from_dims(job_map.host_of_rank, settings_.options.dims);
  } catch (const UsageError& error) {
    warn(fmt::format("{}; the plan is chosen from the machine", error.what()));
    settings_.options = {};
  }
  for (const std::string& word : settings_.options.ignored) warn(fmt::format("{} has no effect here", word));
  memory_ = std::make_unique<TuningCache>(machine_name({endpoints[0].cpus.size(), endpoints[0].cpu_model},
                                                       job_map.host_of_rank, endpoints[0].wire,
                                                       rails_in_words(job_map)));
  std::string trouble = cache_trouble_;
  if (!job_map.tuning.empty()) trouble = memory_->read(job_map.tuning);
  if (!trouble.empty()) warn(fmt::format("the tuning cache {} is ignored ({})", env_.tune_cache, trouble));
}

void SessionTuning::save() const {
  if (!memory_ || me_ != 0 || env_.tune_cache.empty() || !memory_->has_news()) return;
  const CacheFileLock alone(env_.tune_cache);
  CacheText old = read_cache_file(env_.tune_cache);
  if (!old.trouble.empty()) return;  // it was said when the job began
  bool is_foreign = !old.text.empty() && !is_tuning(old.text);
  try {
    write_cache_file(env_.tune_cache, memory_->write(old.text), is_foreign ? Old::keep : Old::replace);
    if (is_foreign)
      log_warning(
          fmt::format("the tuning cache {0} is new; what was there is kept as {0}.bad", env_.tune_cache));
  } catch (const Error& error) {
    log_warning(error.what());
  }
}

}  // namespace ddl
