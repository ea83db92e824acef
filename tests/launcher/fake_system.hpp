// A made-up System for tests of what is decided without processes.
#pragma once

#include <algorithm>
#include <map>

#include "launcher/system.hpp"

namespace ddl {

struct FakeWorld {
  std::map<std::string, std::string> variables, files;
  Strings entries, aliases;  // other names of this machine
  bool root = false;

  System view() const {
    System world;
    world.variable = [map = variables](const std::string& name) {
      return map.count(name) ? map.at(name) : "";
    };
    world.file = [map = files](const std::string& name) -> std::optional<std::string> {
      if (map.count(name)) return map.at(name);
      return std::nullopt;
    };
    world.host = "head.cluster";
    world.directory = "/work dir";
    world.entries = entries;
    for (const auto& [name, value] : variables)
      if (name.find("_MCA_") != std::string::npos) world.mca_entries.push_back(name + "=" + value);
    world.mpirun_folders = {"/etc/openmpi", "/opt/mpi/etc"};
    world.is_here = [names = aliases](const std::string& host) {
      return is_own_name(host, "head.cluster") || std::find(names.begin(), names.end(), host) != names.end();
    };
    world.root = root;
    return world;
  }
};

}  // namespace ddl
