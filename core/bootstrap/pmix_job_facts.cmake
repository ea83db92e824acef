# PMIx's view of the job, for ddl-probe alone: the engine has its own, smaller PMIx part.
add_library(ddl_pmix_facts STATIC "${CMAKE_CURRENT_LIST_DIR}/pmix_job_facts.cpp")
target_link_libraries(ddl_pmix_facts PUBLIC ddl_core PRIVATE ddl_pmix)
