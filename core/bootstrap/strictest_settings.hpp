// What counts where ranks are given different settings for gradients: the strictest of all, which keeps most
// calls as they are without. Pure: every rank concludes the same.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/gradient_settings.hpp"

namespace ddl {

struct AgreedSettings {
  GradientSettings gradients;
  std::vector<std::string> notes;  // what somebody should hear, once
};

/// `given` by each rank; on one host nothing is sparse, or narrower unless that is to be everywhere.
AgreedSettings strictest(std::span<const GradientSettings> given, bool deterministic, int hosts);

/// "ranks 3, 4 and 7 more"
std::string ranks_text(const std::vector<Rank>& ranks);

}  // namespace ddl
