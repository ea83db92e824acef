#include "interpose/load_engine.hpp"

#include <dlfcn.h>

#include <string>

#include "interpose/whole_library.h"

namespace ddl {

const ddl_engine_api* load_engine(const char** why) {
  Dl_info self;
  *why = "it is not known where this library lies";
  if (!dladdr(reinterpret_cast<void*>(&load_engine), &self)) return nullptr;
  std::string path = self.dli_fname;
  path = path.substr(0, path.rfind('/') + 1) + "libddl.so";
  static const std::string cut_short = path + ": the file is cut short";
  if (ddl_is_cut_short(path.c_str())) return *why = cut_short.c_str(), nullptr;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    static const std::string trouble = dlerror();  // its own text goes with the thread
    return *why = trouble.c_str(), nullptr;
  }
  auto engine = reinterpret_cast<const ddl_engine_api* (*)(uint32_t)>(dlsym(library, "ddl_engine"));
  *why = "libddl.so is of another version than the library beside it";
  return engine ? engine(DDL_ENGINE_VERSION) : nullptr;
}

}  // namespace ddl
