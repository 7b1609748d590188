/* Settings limit key: whose requests are counted together? */
#ifndef WEIR_SETTINGS_LIMIT_KEY_H
#define WEIR_SETTINGS_LIMIT_KEY_H

#include "settings_schema.h"

#define LIMIT_KEY_ONE_FORM "header:NAME, query:NAME, cookie:NAME, path:NAME, ip, host, route, global"
#define LIMIT_KEY_FORMS LIMIT_KEY_ONE_FORM ", or a list of them"

void read_limit_key(struct draft *draft, const struct node *node, void *limit); /* a row's reader */

/* Does the route being read (draft->pattern) have what the limit, named at `node`, counts by? */
void check_limit_key(struct draft *draft, const struct node *node, const struct limit_rule *rule);

#endif
