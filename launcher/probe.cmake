# ddl-probe: describes the host it runs on.
include("${PROJECT_SOURCE_DIR}/core/bootstrap/pmix_job_facts.cmake")
add_executable(ddl-probe probe_main.cpp)
target_link_libraries(ddl-probe PRIVATE ddl_hwloc ddl_pmix_facts CLI11::CLI11)
target_compile_definitions(ddl-probe PRIVATE DDL_VERSION="${PROJECT_VERSION}")
install(TARGETS ddl-probe RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
ddl_compile_quickly(probe_main.cpp)
