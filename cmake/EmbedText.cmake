# inferscale_embed_text(OUT function=file …): writes OUT, a .cc whose functions return the files' text; again whenever a
# file changes. Bytes, not a string literal: those are limited to 64 KiB.
function(inferscale_embed_text out)
  set(code "#include \"app/demo_data.h\"\n\nnamespace inferscale {\n")
  foreach(pair IN LISTS ARGN)
    string(REPLACE "=" ";" pair "${pair}")
    list(GET pair 0 function)
    list(GET pair 1 file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${text}")
    string(APPEND code "\nstd::string_view ${function}() {\n  static const unsigned char kText[] = {${bytes}};\n"
                       "  return {reinterpret_cast<const char*>(kText), sizeof kText};\n}\n")
  endforeach()
  string(APPEND code "\n}  // namespace inferscale\n")
  file(WRITE ${out}.new "${code}")
  file(COPY_FILE ${out}.new ${out} ONLY_IF_DIFFERENT)
endfunction()
