// A made-up System for tests of what is decided without processes.
#pragma once

#include <map>

#include "launcher/system.hpp"

namespace ddl {

struct FakeWorld {
  std::map<std::string, std::string> variables, files;
  Strings entries;
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
    world.root = root;
    return world;
  }
};

}  // namespace ddl
