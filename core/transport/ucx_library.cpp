#include "core/transport/ucx_library.hpp"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "core/base/error.hpp"

namespace ddl {
namespace {

UcxLibrary load() {
  void* library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) library = dlopen(DDL_UCX_LIBDIR "/libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
  if (!library) library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_LOCAL);
  UcxLibrary found;
  auto find = [&](auto& function, const char* name) {
    function = library ? reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name))
                       : nullptr;
    if (!function)
      throw Error(std::string("UCX cannot be used: ") + dlerror(),
                  "DDL_WIRE asks for it, or a rail is InfiniBand", "install it, or take DDL_WIRE=tcp");
  };
#define DDL_UCX_FUNCTION(name) find(found.name, #name);
  DDL_UCX_FUNCTIONS(DDL_UCX_FUNCTION)
#undef DDL_UCX_FUNCTION
  return found;
}

}  // namespace

const UcxLibrary& ucx_library() {
  static const UcxLibrary library = load();
  return library;
}

}  // namespace ddl
