// What a process asks its PMIx server and tells the others by it. No get waits longer than a timeout: without
// one PMIx 4 may wait for ever. A key is put once and never again: the second value may not be seen.
#pragma once

#include <pmix.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/bootstrap/pmix_library.hpp"

namespace ddl {

/// The value of a key, to be released by the caller; null unless the status is PMIX_SUCCESS. `how`:
/// PMIX_OPTIONAL asks only what is known here, PMIX_IMMEDIATE the servers too; null waits for it.
inline std::pair<pmix_status_t, pmix_value_t*> pmix_get(const pmix_proc_t& whose, const char* key,
                                                        const char* how, int timeout_s) {
  const pmix_info_t info[] = {pmix_info(PMIX_TIMEOUT, timeout_s), pmix_info(how ? how : PMIX_OPTIONAL, true)};
  pmix_value_t* value = nullptr;
  pmix_status_t status = DDL_PMIX(PMIx_Get)(&whose, key, info, how ? 2 : 1, &value);
  return {status, status == PMIX_SUCCESS ? value : nullptr};
}

/// A number about the whole job, as PMIX_JOB_SIZE; nothing where it is not known.
inline std::optional<std::uint32_t> pmix_job_number(const pmix_proc_t& self, const char* key, int timeout_s) {
  const pmix_proc_t job = pmix_proc(self.nspace, PMIX_RANK_WILDCARD);
  pmix_value_t* value = pmix_get(job, key, PMIX_OPTIONAL, timeout_s).second;
  if (!value) return std::nullopt;
  std::optional<std::uint32_t> result;
  if (value->type == PMIX_UINT32) result = value->data.uint32;
  pmix_release(value);
  return result;
}

/// Tells all others, who ask for that key of this rank. Throws Error.
inline void pmix_publish(const char* key, std::span<const std::byte> bytes) {
  std::vector<char> copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  pmix_value_t value{};
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo = {copy.data(), copy.size()};  // PMIx takes a copy
  pmix_status_t status = DDL_PMIX(PMIx_Put)(PMIX_GLOBAL, key, &value);
  if (status == PMIX_SUCCESS) status = DDL_PMIX(PMIx_Commit)();
  if (status != PMIX_SUCCESS)
    throw Error(std::string("PMIx cannot publish: ") + DDL_PMIX(PMIx_Error_string)(status));
}

/// Of a value that somebody has published; it is released.
inline std::optional<std::vector<std::byte>> pmix_take_bytes(pmix_value_t* value) {
  std::optional<std::vector<std::byte>> bytes;
  if (value->type == PMIX_BYTE_OBJECT) {
    const auto* begin = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
    bytes.emplace(begin, begin + value->data.bo.size);
  }
  pmix_release(value);
  return bytes;
}

}  // namespace ddl
