#include "launcher/report_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/engine_use.hpp"
#include "launcher/strings.hpp"

namespace ddl {
namespace {

using nlohmann::json;

std::string head(const json& report) {
  Strings hosts, dims;
  for (const json& host : report["grid"].value("hosts", json::array()))
    hosts.push_back(
        fmt::format("{} x{}", host.value("name", "?"), host.value("ranks", json::array()).size()));
  constexpr std::size_t kMostHosts = 8;
  const std::size_t count = hosts.size();
  if (count > kMostHosts) hosts.resize(kMostHosts), hosts.push_back("...");
  std::string text = fmt::format("{} ranks", report.value("ranks", 0));
  if (count) text += fmt::format(" on {} host{}: {}", count, count > 1 ? "s" : "", join(hosts, ", "));
  text += report.value("engine", false) ? "; with the engine"
                                        : "; without the engine: " + report.value("reason", "");
  if (report.contains("seconds"))
    text += "; " + duration_text(report.value("seconds", 0.0)) + " from MPI_Init on";
  if (!report.value("complete", true)) text += "\nthe job did not come to its end: counts of rank 0 alone";
  return text + "\n";
}

std::string route_row(const std::string& name, const std::string& route, const json& counts, double ranks) {
  const double calls = counts.value("calls", 0.0), seconds = counts.value("seconds", 0.0);
  return fmt::format("{:<28}{:<34}{:>12.6g}{:>12}{:>11}{:>12}\n", name, route, calls / ranks,
                     decimal_bytes(counts.value("bytes", 0.0) / ranks), duration_text(seconds / ranks),
                     calls > 0 && seconds > 0 ? duration_text(seconds / calls) : "-");
}

std::string collectives(const json& report) {
  std::string text = fmt::format("{:<28}{:<34}{:>12}{:>12}{:>11}{:>12}\n", "per rank", "by", "calls", "bytes",
                                 "time", "time a call");
  for (const json& one : report["collectives"]) {
    const double ranks = std::max(1.0, one.value("ranks", 1.0));
    std::string name = one.value("name", "?");
    if (one.contains("engine") && one["engine"].value("calls", 0) > 0) {
      text += route_row(name, "the engine", one["engine"], ranks);
      name.clear();
    }
    for (const json& original : one.value("original", json::array())) {
      text += route_row(name, "original: " + reason_text(original.value("reason", "")), original, ranks);
      name.clear();
    }
  }
  return report["collectives"].empty() ? "no collective was called\n" : text;
}

std::string plans(const json& report) {
  if (report.value("algorithms", json::array()).empty()) return {};
  std::string text = fmt::format("{:<28}{:>13}{:>14}  {}\n", "plans", "bytes up to", "calls, all", "plan");
  for (const json& one : report["algorithms"])
    text += fmt::format("{:<28}{:>13}{:>14}  {}\n", one.value("collective", ""),
                        one.value("bytes_up_to", 0ull), one.value("calls", 0ull), one.value("plan", ""));
  return text;
}

// What DDL_LAZY_BYTES has done.
std::string fused(const json& report) {
  if (report.value("fused", json::array()).empty()) return {};
  std::string text =
      fmt::format("{:<28}{:>12}{:>12}{:>12}  {}\n", "fused, all ranks", "calls", "batches", "bytes", "class");
  for (const json& one : report["fused"])
    text += fmt::format("{:<28}{:>12}{:>12}{:>12}  {}\n", one.value("collective", ""),
                        one.value("calls", 0ull), one.value("batches", 0ull),
                        decimal_bytes(one.value("bytes", 0.0)), one.value("class", ""));
  return text;
}

// What DDL_WIRE_TYPE has saved, by class.
std::string narrower(const json& report) {
  if (report.value("narrowed", json::array()).empty()) return {};
  std::string text = fmt::format("{:<28}{:>12}{:>12}{:>12}  {}\n", "narrower, all ranks", "calls",
                                 "in memory", "sent", "class");
  for (const json& one : report["narrowed"])
    text += fmt::format("{:<28}{:>12}{:>12}{:>12}  {}\n", one.value("collective", ""),
                        one.value("calls", 0ull), decimal_bytes(one.value("bytes_in_memory", 0.0)),
                        decimal_bytes(one.value("bytes_sent", 0.0)), one.value("class", ""));
  return text;
}

// What DDL_SPARSE has left out.
std::string sparse(const json& report) {
  if (report.value("sparse", json::array()).empty()) return {};
  std::string text =
      fmt::format("{:<28}{:>12}{:>12}{:>12}{:>12}\n", "sparse, all ranks", "calls", "bytes", "sent", "kept");
  for (const json& one : report["sparse"])
    text +=
        fmt::format("{:<28}{:>12}{:>12}{:>12}{:>12}\n", one.value("collective", ""), one.value("calls", 0ull),
                    decimal_bytes(one.value("bytes", 0.0)), decimal_bytes(one.value("bytes_sent", 0.0)),
                    decimal_bytes(one.value("bytes_kept", 0.0)));
  return text;
}

// What DDL_WIRE_TYPE has saved on a rail.
std::string narrowed(const json& rail) {
  const double sent = rail.value("bytes_predicted", 0.0), in_memory = rail.value("bytes_in_memory", sent);
  return in_memory > sent ? fmt::format("   of {} in memory", decimal_bytes(in_memory)) : std::string();
}

std::string rails(const json& report) {
  if (report.value("rails", json::array()).empty()) return {};
  std::string text = fmt::format("{:<24}{:>16}{:>16}\n", "rails, all ranks", "sent", "by the plans");
  for (const json& one : report["rails"])
    text += fmt::format("{:<24}{:>16}{:>16}{}\n", one.value("name", ""),
                        decimal_bytes(one.value("bytes_sent", 0.0)),
                        decimal_bytes(one.value("bytes_predicted", 0.0)), narrowed(one));
  return text;
}

std::string memory(const json& report, const char* key, const char* what) {
  return fmt::format("{} of the rank that took most: {}\n", what, decimal_bytes(report.value(key, 0.0)));
}

}  // namespace

std::string report_table(const std::string& report) {
  json read = json::parse(report, nullptr, false);
  if (!read.is_object() || !read.contains("collectives")) return "--- no report was written\n";
  if (!read.contains("grid")) read["grid"] = json::object();
  try {
    return "--- report\n" + head(read) + "\n" + collectives(read) + "\n" + plans(read) + fused(read) +
           narrower(read) + sparse(read) + rails(read) + memory(read, "staging_bytes", "staging memory") +
           (read.value("fusion_bytes", 0.0) > 0 ? memory(read, "fusion_bytes", "memory for fused calls")
                                                : "");
  } catch (const json::exception& error) {
    return fmt::format("--- the report is of another version ({})\n", error.what());
  }
}

}  // namespace ddl
