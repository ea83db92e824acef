// One PMIx_Get, which never waits longer than a timeout: without one PMIx 4 may wait for ever.
#pragma once

#include <pmix.h>

#include <utility>

namespace ddl {

/// The value of a key, to be released by the caller; null unless the status is PMIX_SUCCESS. `how`:
/// PMIX_OPTIONAL asks only what is known here, PMIX_IMMEDIATE the servers too.
inline std::pair<pmix_status_t, pmix_value_t*> pmix_get(const pmix_proc_t& whose, const char* key,
                                                        const char* how, int timeout_s) {
  bool yes = true;
  pmix_info_t info[2];
  PMIX_INFO_LOAD(&info[0], how, &yes, PMIX_BOOL);
  PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout_s, PMIX_INT);
  pmix_value_t* value = nullptr;
  pmix_status_t status = PMIx_Get(&whose, key, info, 2, &value);
  PMIX_INFO_DESTRUCT(&info[0]);
  PMIX_INFO_DESTRUCT(&info[1]);
  return {status, status == PMIX_SUCCESS ? value : nullptr};
}

}  // namespace ddl
