# The CUDA part: src/<layer>/cuda/, one library inferscale_cuda above the store, and its tests. The rest of the build is
# complete without it.
#
# INFERSCALE_CUDA: AUTO (on where nvcc is found), ON (an error without it) or OFF.
# INFERSCALE_CUDA_ARCHITECTURES: 90 (H100, H200); "80;90;100;120" for A100, H100, B200 and desktop Blackwell.
set(INFERSCALE_CUDA AUTO CACHE STRING "AUTO, ON or OFF")
set_property(CACHE INFERSCALE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(INFERSCALE_CUDA_ARCHITECTURES 90 CACHE STRING "Compute capabilities to compile for")

set(INFERSCALE_WITH_CUDA OFF)
if(NOT INFERSCALE_CUDA STREQUAL "OFF" AND NOT INFERSCALE_SANITIZE AND NOT INFERSCALE_STATIC)
  include(CheckLanguage)
  set(CMAKE_CUDA_ARCHITECTURES ${INFERSCALE_CUDA_ARCHITECTURES})
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(INFERSCALE_WITH_CUDA ON)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc 13's
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
  elseif(INFERSCALE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "INFERSCALE_CUDA is ON, but there is no nvcc")
  endif()
endif()

# inferscale_cuda_layer(): inferscale_cuda of src/*/cuda/*.cu and *.cc.
function(inferscale_cuda_layer)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/*.cu ${CMAKE_SOURCE_DIR}/src/*/cuda/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|_test_util\\.cc$")
  add_library(inferscale_cuda STATIC ${sources})
  # The static runtime: the product needs a driver on the user's machine, and nothing else.
  target_link_libraries(inferscale_cuda PUBLIC inferscale_store CUDA::cudart_static)
  # -lineinfo costs nothing at run time and lets profilers name the line.
  target_compile_options(inferscale_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
endfunction()

# inferscale_cuda_tests(): cuda_test of src/*/cuda/*_test.cc. It says so and skips where there is no device.
function(inferscale_cuda_tests)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/*_test.cc)
  file(GLOB utils CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/*_test_util.cc
                                    ${CMAKE_SOURCE_DIR}/src/kernels/kv_*_test_util.cc
                                    ${CMAKE_SOURCE_DIR}/src/kernels/topk_*_test_util.cc)
  inferscale_test_executable(cuda_test cuda fast "${tests}" "${utils}")
endfunction()

# inferscale_link_ggml_cuda(): a llama.cpp with CUDA names what its archive needs only when it is linked statically to
# cuBLAS too, half a gigabyte.
function(inferscale_link_ggml_cuda)
  if(TARGET ggml::ggml-cuda)
    find_package(CUDAToolkit REQUIRED)
    target_link_libraries(ggml::ggml-cuda INTERFACE CUDA::cudart_static CUDA::cublas)
  endif()
endfunction()
