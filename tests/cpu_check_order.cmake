execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error)
if(NOT status EQUAL 78 OR NOT output STREQUAL "" OR NOT error MATCHES "lacks: no_such_feature\n")
  message(FATAL_ERROR "status ${status}, stdout '${output}', stderr '${error}'")
endif()
