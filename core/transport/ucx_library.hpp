// UCX's functions, loaded when the first transport over it is opened: few jobs need them, and a process that
// has loaded one UCX has none left for an MPI library that comes later with another.
#pragma once

#include <ucp/api/ucp.h>

namespace ddl {

#define DDL_UCX_FUNCTIONS(each)                                                                           \
  each(ucp_am_data_release) each(ucp_am_send_nbx) each(ucp_cleanup) each(ucp_config_modify)               \
      each(ucp_config_read) each(ucp_config_release) each(ucp_ep_close_nbx) each(ucp_ep_create)           \
          each(ucp_ep_flush_nbx) each(ucp_init_version) each(ucp_request_check_status)                    \
              each(ucp_request_free) each(ucp_worker_create) each(ucp_worker_destroy)                     \
                  each(ucp_worker_get_address) each(ucp_worker_progress) each(ucp_worker_release_address) \
                      each(ucp_worker_set_am_recv_handler) each(ucs_status_string)

struct UcxLibrary {
#define DDL_UCX_FUNCTION(name) decltype(&::name) name = nullptr;
  DDL_UCX_FUNCTIONS(DDL_UCX_FUNCTION)
#undef DDL_UCX_FUNCTION
};

/// The one of this process: that which is there, else the one this was built with. Throws Error.
const UcxLibrary& ucx_library();

}  // namespace ddl
