#include "core/bootstrap/pmix_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "core/base/env.hpp"
#include "core/net/socket.hpp"

namespace ddl {
namespace {

constexpr const char* kName = "libpmix.so.2";

struct Library {
  void* handle = nullptr;
  std::string trouble;
};

Library load() {
  if (void* here = dlopen(kName, RTLD_LAZY | RTLD_NOLOAD)) return {here, {}};
  std::string trouble;
  for (const std::string& path :
       pmix_library_paths(foreign_env("OMPI_LIBDIR_LOC"), foreign_env("PMIX_PREFIX"), DDL_PMIX_LIBDIR)) {
    if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return {library, {}};
    trouble = dlerror();
  }
  return {nullptr, trouble};
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace

std::vector<std::string> pmix_library_paths(std::string_view ompi_libdir, std::string_view pmix_prefix,
                                            std::string_view built_with) {
  std::vector<std::string> paths;
  auto look_in = [&](std::string_view folder, const char* inside) {
    if (!folder.empty()) paths.push_back(std::string(folder) + inside + "/" + kName);
  };
  for (const char* inside : {"", "/openmpi"}) look_in(ompi_libdir, inside);
  for (const char* inside : {"/lib", "/lib64"}) look_in(pmix_prefix, inside);
  look_in(built_with, "");
  paths.push_back(kName);
  return paths;
}

const std::string& pmix_trouble() { return library().trouble; }

void* pmix_function(const char* name) { return library().handle ? dlsym(library().handle, name) : nullptr; }

bool pmix_begin(pmix_proc_t& self) {
  auto* const begin = DDL_PMIX(PMIx_Init);
  if (!begin || begin(&self, nullptr, 0) != PMIX_SUCCESS) return false;
  // The same one under names for each release of PMIx.
  for (const char* name : {"PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI2"})
    if (const Endpoint server = pmix_server_of(foreign_env(name)); server.port != 0)
      return send_at_once_to(server), true;
  return true;
}

Endpoint pmix_server_of(const std::string& address) {
  const std::size_t scheme = address.find(";tcp"), host = address.find("://"), colon = address.rfind(':');
  if (scheme == std::string::npos || host == std::string::npos || colon < host + 3) return {};
  std::string name = address.substr(host + 3, colon - host - 3);
  if (name.size() > 2 && name.front() == '[') name = name.substr(1, name.size() - 2);
  const IpAddress parsed = parse_address(name);
  const unsigned long port = std::strtoul(address.c_str() + colon + 1, nullptr, 10);
  if (parsed.family == 0 || port > 65535) return {};
  return {parsed, static_cast<std::uint16_t>(port)};
}

pmix_proc_t pmix_proc(const char* job, pmix_rank_t rank) {
  pmix_proc_t proc{};
  std::strncpy(proc.nspace, job, PMIX_MAX_NSLEN);
  proc.rank = rank;
  return proc;
}

pmix_info_t pmix_info(const char* key, bool value) {
  pmix_info_t info{};
  std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = value;
  return info;
}

pmix_info_t pmix_info(const char* key, int value) {
  pmix_info_t info = pmix_info(key, false);
  info.value.type = PMIX_INT;
  info.value.data.integer = value;
  return info;
}

void pmix_release(pmix_value_t* value) {
  if (value->type == PMIX_BYTE_OBJECT) std::free(value->data.bo.bytes);
  if (value->type == PMIX_STRING) std::free(value->data.string);
  std::free(value);
}

}  // namespace ddl
