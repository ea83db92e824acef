// Structures as bytes, by one table of their fields: a function each_field(value, visit) beside the
// structure, which calls visit(name, member) for each.
//
//   number           = as in memory          structure = its fields, in the order of the table
//   text, list       = count u32, elements
//
// Thread safety: none, values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.hpp"

namespace ddl {

template <class Value>
inline constexpr bool kIsPlain = std::is_arithmetic_v<Value> || std::is_same_v<Value, std::byte>;

class Packer {
 public:
  void operator()(const char*, const auto& value) { put(value); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void add(const void* from, std::size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), begin, begin + bytes);
  }
  template <class Value>
  void put(const Value& value) {
    if constexpr (kIsPlain<Value>) {
      add(&value, sizeof(value));
    } else if constexpr (requires { value.size(); }) {
      put(static_cast<std::uint32_t>(value.size()));
      if constexpr (kIsPlain<typename Value::value_type>)
        add(value.data(), value.size() * sizeof(value[0]));
      else
        for (const auto& element : value) put(element);
    } else {
      each_field(value, *this);
    }
  }

  std::vector<std::byte> bytes_;
};

/// Throws Error naming the field where the bytes are not those of such a structure. Memory grows with the
/// bytes that are there, not with what a count promises.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}
  void operator()(const char* name, auto& value) {
    names_.push_back(name);
    take(value);
    names_.pop_back();
  }
  /// To be called at the end.
  void finish() const {
    if (!rest_.empty()) throw Error(std::to_string(rest_.size()) + " bytes follow the last field");
  }

 private:
  [[noreturn]] void fail(const char* how) const {
    std::string text = "field";
    for (const char* name : names_) text.append(text == "field" ? " " : ".").append(name);
    throw Error(text.append(" ").append(how));
  }
  void get(void* to, std::size_t bytes) {
    if (bytes > rest_.size()) fail("is cut off");
    if (bytes > 0) std::memcpy(to, rest_.data(), bytes);
    rest_ = rest_.subspan(bytes);
  }
  template <class Value>
  void take(Value& value) {
    if constexpr (std::is_same_v<Value, bool>) {
      std::uint8_t truth = 0;
      get(&truth, sizeof(truth));
      if (truth > 1) fail("is neither true nor false");
      value = truth == 1;
    } else if constexpr (kIsPlain<Value>) {
      get(&value, sizeof(value));
    } else if constexpr (requires { value.size(); }) {
      std::uint32_t count = 0;
      take(count);
      value.clear();
      if constexpr (kIsPlain<typename Value::value_type>) {
        if (count > rest_.size() / sizeof(value[0])) fail("is cut off");
        value.resize(count);
        get(value.data(), count * sizeof(value[0]));
      } else {
        while (count-- > 0) take(value.emplace_back());
      }
    } else {
      each_field(value, *this);
    }
  }

  std::span<const std::byte> rest_;
  std::vector<const char*> names_;  // of the field under way, the outermost first
};

}  // namespace ddl
