# find_package(executorch_c) defines executorch_c::executorch_c (shared) and executorch_c::static.
get_filename_component(_executorch_c_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_executorch_c_prefix "${_executorch_c_lib}/.." ABSOLUTE)

if(NOT TARGET executorch_c::executorch_c)
  add_library(executorch_c::executorch_c SHARED IMPORTED)
  set_target_properties(executorch_c::executorch_c PROPERTIES
    IMPORTED_LOCATION "${_executorch_c_lib}/libexecutorch_c.so"
    IMPORTED_SONAME "libexecutorch_c.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_executorch_c_prefix}/include")
  add_library(executorch_c::static STATIC IMPORTED)
  set_target_properties(executorch_c::static PROPERTIES
    IMPORTED_LOCATION "${_executorch_c_lib}/libexecutorch_c.a"
    INTERFACE_LINK_LIBRARIES "m;pthread"
    INTERFACE_INCLUDE_DIRECTORIES "${_executorch_c_prefix}/include")
endif()
