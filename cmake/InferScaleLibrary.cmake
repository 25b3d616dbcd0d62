# The C interface: inferscale_capi of src/capi/, and the shared library of it and of the layers below, which exports
# inferscale_* and nothing else (docs/c_abi.md). Its tests.
inferscale_layer(capi DEPENDS inferscale_store)
target_compile_definitions(inferscale_capi PRIVATE INFERSCALE_VERSION="${PROJECT_VERSION}")
set(library_layers base core kernels store capi)
if(INFERSCALE_WITH_CUDA)
  target_link_libraries(inferscale_capi PUBLIC inferscale_cuda)
  target_compile_definitions(inferscale_capi PRIVATE INFERSCALE_WITH_CUDA)
  list(APPEND library_layers cuda)
endif()
# Hidden: calls between our own functions stay direct although the code is position independent.
list(TRANSFORM library_layers PREPEND inferscale_)
set_target_properties(${library_layers} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                                   VISIBILITY_INLINES_HIDDEN ON)

# The major version of the ABI is in the file's name.
file(STRINGS ${CMAKE_SOURCE_DIR}/include/inferscale/inferscale.h abi REGEX "define INFERSCALE_ABI_(MAJOR|MINOR) ")
string(REGEX MATCHALL "[0-9]+" abi "${abi}")
list(GET abi 0 abi_major)
list(JOIN abi "." abi_version)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/inferscale/inferscale.h)

if(NOT INFERSCALE_STATIC)
  add_library(inferscale_shared SHARED $<TARGET_OBJECTS:inferscale_capi>)
  target_link_libraries(inferscale_shared PRIVATE inferscale_options inferscale_store)
  if(INFERSCALE_WITH_CUDA)
    target_link_libraries(inferscale_shared PRIVATE inferscale_cuda)
  endif()
  # as-needed: of the libraries of all layers, only those whose code is called. $ORIGIN: they may lie beside it.
  set(version_script ${CMAKE_SOURCE_DIR}/cmake/libinferscale.map)
  target_link_options(inferscale_shared PRIVATE -Wl,--version-script=${version_script} -Wl,--as-needed)
  set_target_properties(inferscale_shared PROPERTIES
    OUTPUT_NAME inferscale VERSION ${abi_version} SOVERSION ${abi_major} LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} BUILD_RPATH "$ORIGIN" LINK_DEPENDS ${version_script})
endif()

# inferscale_library_tests(): what capi_test and cuda_test take from other folders.
function(inferscale_library_tests)
  file(GLOB kernel_utils CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/kv_case*_test_util.cc
                                           ${CMAKE_SOURCE_DIR}/src/kernels/topk_*_test_util.cc)
  target_sources(capi_test PRIVATE ${kernel_utils})
  if(INFERSCALE_WITH_CUDA)
    target_sources(cuda_test PRIVATE ${CMAKE_SOURCE_DIR}/src/capi/abi_case_test_util.cc)
    target_link_libraries(cuda_test PRIVATE inferscale_capi)
  endif()
endfunction()
