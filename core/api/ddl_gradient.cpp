// ddl.h: gradients that are sent in part.
#include "core/api/c_types.hpp"
#include "core/api/ddl_handles.hpp"

using namespace ddl::api;

namespace {

ddl::Residual memory_of(const ddl_gradient_options& options) {
  try {
    return {options.count, ddl::from_c(options.type), options.momentum};
  } catch (const std::bad_alloc&) {
    throw NoMemory(fmt::format("there is no memory for a gradient of {} elements", options.count));
  }
}

}  // namespace

extern "C" {

ddl_status ddl_gradient_create(ddl_group* given, const ddl_gradient_options* options,
                               ddl_gradient** gradient) {
  if (gradient) *gradient = nullptr;
  return call_on(given, [&](ddl_group& group) {
    check(gradient, "the pointer to the gradient is NULL", "it becomes the gradient");
    check(options, "the options are NULL", "they say how many elements there are");
    const auto known = known_fields(options, DDL_GRADIENT_OPTIONS, "ddl_gradient_options");
    check(known.type == DDL_FLOAT32 || known.type == DDL_FLOAT64, "the gradient is of another type",
          "DDL_FLOAT32 and DDL_FLOAT64 can be sent in part");
    constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
    check(known.count > 0 && known.count <= kMost,
          "the gradient has no elements, or more than any memory holds", "count says how many");
    check(known.share > 0 && known.share <= 1, "share is not more than 0 and at most 1",
          "it is the part of the chunks that travels");
    check(known.momentum >= 0 && known.momentum < 1, "momentum is not at least 0 and less than 1", "0: none");
    ddl::SparseSettings settings;
    settings.share = known.share;
    settings.warm_up = known.warm_up;
    auto made = std::make_unique<ddl_gradient>();
    made->group = group.serial;
    made->count = known.count;
    made->type = known.type;
    made->sparse = group.communicator->make_gradient(memory_of(known), settings);
    *gradient = made.release();
  });
}

ddl_status ddl_gradient_free(ddl_gradient* gradient) {
  delete gradient;
  return DDL_SUCCESS;
}

}  // extern "C"
