# Writes OUT, a C file that holds each Lua script of SCRIPTS: struct lua_script, see proxy/lua_scripts.h.
#
# A file whose first line is `--@fragment` is no script: it is what a line `--@include NAME` of a script is replaced by (NAME.lua,
# beside it). The sha1 is that of the expanded text, which is what Redis is given; it can be read in OUT.d/ when a script fails.
set(text "#include \"lua_scripts.h\"\n#include <stddef.h>\n\n")
set(table "const struct lua_script lua_scripts[] = {\n")
foreach(path ${SCRIPTS})
  get_filename_component(name "${path}" NAME_WE)
  get_filename_component(folder "${path}" DIRECTORY)
  file(READ "${path}" source)
  if(source MATCHES "^--@fragment\n")
    continue()
  endif()
  while(source MATCHES "--@include ([a-z_]+)\n") # a fragment may include others
    set(included "${CMAKE_MATCH_1}")
    file(READ "${folder}/${included}.lua" fragment)
    string(REPLACE "--@fragment\n" "" fragment "${fragment}")
    string(REPLACE "--@include ${included}\n" "${fragment}" source "${source}")
  endwhile()
  set(expanded "${OUT}.d/${name}.lua")
  file(WRITE "${expanded}" "${source}")
  file(READ "${expanded}" hex HEX)
  file(SHA1 "${expanded}" sha1)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "static const char ${name}_text[] = {${bytes}0};\n")
  string(APPEND table "    {\"${name}\", ${name}_text, sizeof(${name}_text) - 1, \"${sha1}\"},\n")
endforeach()
string(APPEND table "    {NULL, NULL, 0, NULL},\n};\n")
file(WRITE "${OUT}" "${text}\n${table}")
