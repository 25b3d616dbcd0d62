# What depends on the machine: linking one static file, and the CPU that the program was compiled for.

# Static linking (preset portable). Debian has no archives of fmt, spdlog and Highway: the first two are then used as
# headers, and Highway is compiled for the one level of -march, which needs nothing of its library.
if(INFERSCALE_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(OPENSSL_USE_STATIC_LIBS ON)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(INFERSCALE_FMT fmt::fmt-header-only)
  # Not spdlog::spdlog_header_only: Debian's links fmt's shared library.
  add_library(inferscale_spdlog_headers INTERFACE)
  target_compile_definitions(inferscale_spdlog_headers INTERFACE SPDLOG_FMT_EXTERNAL)
  set(INFERSCALE_SPDLOG inferscale_spdlog_headers)
  set(HWY_LIBRARY "")
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
else()
  set(INFERSCALE_FMT fmt::fmt)
  set(INFERSCALE_SPDLOG spdlog::spdlog)
  find_library(HWY_LIBRARY hwy REQUIRED)
endif()

# inferscale_cpu_check(): tells src/app/cpu_check.cc which features llama.cpp was compiled for (our own code chooses at
# run time, or has the same -march), and compiles it for the oldest x86-64: it must run where nothing else of ours can.
function(inferscale_cpu_check)
  set(features "")
  cmake_path(SET list_file NORMALIZE ${llama_DIR}/../../../share/inferscale/cpu-features.txt)
  if(EXISTS ${list_file})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list_file})
    file(STRINGS ${list_file} features LIMIT_COUNT 1)
  endif()
  set_source_files_properties(src/app/cpu_check.cc PROPERTIES
                              COMPILE_DEFINITIONS "INFERSCALE_CPU_FEATURES=\"${features}\"")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set_source_files_properties(src/app/cpu_check.cc PROPERTIES COMPILE_OPTIONS "-march=x86-64;-mtune=generic")
  endif()
endfunction()
