/* Lua scripts: the texts of lua/ as they were when this was built. The file is generated. */
#ifndef WEIR_LUA_SCRIPTS_H
#define WEIR_LUA_SCRIPTS_H

#include <stddef.h>

struct lua_script {
    const char *name; /* "admit" */
    const char *text;
    size_t len;
    const char *sha1; /* 40 hex digits, what EVALSHA takes */
};

extern const struct lua_script lua_scripts[]; /* ends with name NULL */

#endif
