# Compile options, and the two functions that turn a folder of src/ into targets.

add_library(inferscale_options INTERFACE)
target_include_directories(inferscale_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(inferscale_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror=return-type
                                                    -Wno-missing-field-initializers>)
# GCC 12 warns of std::string's own code when it inlines `"literal" + string` (its bug 105651), and at -O3 of an
# optional's value that is read behind its own test (its bug 80635); the sanitizers find the real cases.
target_compile_options(inferscale_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict
                                                    -Wno-maybe-uninitialized>)
if(INFERSCALE_WERROR)
  target_compile_options(inferscale_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)  # nvcc knows it otherwise
endif()
if(INFERSCALE_SANITIZE)
  target_compile_options(inferscale_options INTERFACE -fsanitize=${INFERSCALE_SANITIZE} -fno-omit-frame-pointer -g
                                                      -fno-sanitize-recover=all)
  target_link_options(inferscale_options INTERFACE -fsanitize=${INFERSCALE_SANITIZE})
  # ThreadSanitizer does not know fences, of which GCC warns: what ours order is on one thread in the tests.
  if(INFERSCALE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(inferscale_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-tsan>)
  endif()
endif()

# For code whose speed is nobody's concern: a third less to compile than with -O3.
function(inferscale_compile_lightly target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# inferscale_layer(name [EXCLUDE file…] [DEPENDS target…]): static library inferscale_<name> of src/<name>/**/*.cc,
# tests and cuda/ left out. CONFIGURE_DEPENDS: a new file is found without running cmake by hand.
# FOLDER other, ONLY file…: a part of another layer's folder.
function(inferscale_layer name)
  cmake_parse_arguments(arg "" "FOLDER" "DEPENDS;EXCLUDE;ONLY" ${ARGN})
  if(arg_FOLDER)
    list(TRANSFORM arg_ONLY PREPEND ${CMAKE_SOURCE_DIR}/src/${arg_FOLDER}/ OUTPUT_VARIABLE sources)
  else()
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  endif()
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|_test_util\\.cc$|/cuda/")
  foreach(file IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/src/${name}/${file})
  endforeach()
  if(sources)
    add_library(inferscale_${name} STATIC ${sources})
    target_link_libraries(inferscale_${name} PUBLIC inferscale_options ${arg_DEPENDS})
  else()
    add_library(inferscale_${name} INTERFACE)
    target_link_libraries(inferscale_${name} INTERFACE inferscale_options ${arg_DEPENDS})
  endif()
endfunction()

# inferscale_tests(name): <name>_test of src/<name>/**/*_test.cc, and <name>_slow_test (label "slow") of *_slow_test.cc.
# *_test_util.cc goes into both. FOLDER, ONLY, EXCLUDE: as of inferscale_layer.
function(inferscale_tests name)
  cmake_parse_arguments(arg "" "FOLDER" "EXCLUDE;ONLY" ${ARGN})
  set(folder ${name})
  if(arg_FOLDER)
    set(folder ${arg_FOLDER})
    list(TRANSFORM arg_ONLY PREPEND ${CMAKE_SOURCE_DIR}/src/${folder}/ OUTPUT_VARIABLE tests)
  else()
    file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*_test.cc)
  endif()
  foreach(file IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM tests ${CMAKE_SOURCE_DIR}/src/${folder}/${file})
  endforeach()
  file(GLOB_RECURSE utils CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*_test_util.cc)
  list(FILTER tests EXCLUDE REGEX "/cuda/")
  list(FILTER utils EXCLUDE REGEX "/cuda/")
  set(slow ${tests})
  list(FILTER tests EXCLUDE REGEX "_slow_test\\.cc$")
  list(FILTER slow INCLUDE REGEX "_slow_test\\.cc$")
  if(tests)
    inferscale_test_executable(${name}_test ${name} fast "${tests}" "${utils}")
  endif()
  if(slow)
    inferscale_test_executable(${name}_slow_test ${name} slow "${slow}" "${utils}")
  endif()
endfunction()

function(inferscale_test_executable target layer label sources utils)
  add_executable(${target} ${sources} ${utils})
  target_link_libraries(${target} PRIVATE inferscale_${layer} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE INFERSCALE_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data"
                                               INFERSCALE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(label STREQUAL "fast")
    inferscale_compile_lightly(${target})
  endif()
  # ctest starts the costliest tests first: so the fast ones come before the slow ones. Those that run a model are one
  # at a time, since each of them computes on all cores.
  if(NOT label STREQUAL "slow")  # quoted: the caller has a variable of that name
    set(order COST 1000)
  elseif(layer MATCHES "engine|embed")
    set(order COST 1 RUN_SERIAL TRUE)
  else()
    set(order COST 400)  # before the serial ones
  endif()
  set(discover NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 900 ${order} LABELS)
  if(label STREQUAL "fast")
    gtest_discover_tests(${target} TEST_FILTER "-${INFERSCALE_LONG_TESTS}" ${discover} fast)
    gtest_discover_tests(${target} TEST_FILTER "${INFERSCALE_LONG_TESTS}" ${discover} slow)
  else()
    gtest_discover_tests(${target} ${discover} ${label})
  endif()
endfunction()

# Of the unit tests those that take more than about 4 s. Without them all that is labelled "fast" takes under a minute
# on two cores: what one runs before each commit. Unlike other slow tests they use one core, and run beside the others.
set(INFERSCALE_LONG_TESTS
    "MemoryPropertyTest.*:SqlitePageDamageTest.*:SqliteDamageTest.AFlippedByteIsNeverAWrongText:MemoryEraseTest.*:\
SqliteModelTest.*:SqliteCrashTest.*:TopkTest.FindsWhatTheOracleFinds:MemoryThreadsTest.*:SqliteThreadsTest.*:\
PageCheckVfsTest.GivingSumsToAnOlderFileSurvivesAPowerCut")
