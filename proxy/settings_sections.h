/* Settings sections: every part of the configuration and the table of its keys. */
#ifndef WEIR_SETTINGS_SECTIONS_H
#define WEIR_SETTINGS_SECTIONS_H

#include "settings_schema.h"

enum {
    MAX_LISTENS = 64,
    MAX_UPSTREAMS = 256,
    MAX_LIMITS = 256,
    MAX_ROUTES = 1000,
    MAX_ROUTE_LIMITS = 16,
    MAX_TAGS = 16
};

/* settings_root.c */
extern const struct section section_root;
void settings_build(struct draft *draft,
                    const struct node *root); /* all of it, references between the parts included */

/* settings_process.c */
extern const struct section section_listen, section_admin, section_client, section_log, section_headers;
void read_listen(struct draft *draft, const struct node *node, void *settings);
void read_workers(struct draft *draft, const struct node *node, void *settings);
void read_admin(struct draft *draft, const struct node *node, void *settings);
void read_trusted_proxies(struct draft *draft, const struct node *node, void *settings);

/* settings_store.c */
extern const struct section section_store, section_near_cache;
void check_store(struct draft *draft, const struct node *root);

/* settings_upstream.c */
extern const struct section section_upstream, section_server;
void read_upstreams(struct draft *draft, const struct node *node, void *settings);

/* settings_limit.c */
extern const struct section section_limit;
void read_limits(struct draft *draft, const struct node *node, void *settings);

/* settings_route.c, settings_cache.c, settings_cache_key.c */
extern const struct section section_route, section_cache, section_cache_key, section_cache_key_query;
void read_routes(struct draft *draft, const struct node *node, void *settings);
void read_cache(struct draft *draft, const struct node *node, void *route);
/* A list of templates over the variables of draft->pattern, for tags. */
void read_templates(struct draft *draft, const struct node *node, struct template **out, size_t *count);
/* One of them; false where it was complained of, or the pattern was. `may_ask`: parts of the upstream's answer are
 * fine. */
bool read_template(struct draft *draft, const struct node *node, bool may_ask, struct template *out);

/* settings_invalidates.c */
extern const struct section section_invalidates;
void read_invalidates(struct draft *draft, const struct node *node, void *route);

/* settings_route_limits.c */
extern const struct section section_limit_use;
void read_route_limits(struct draft *draft, const struct node *node, void *route);

/* settings_reach.c: would every request that fits `later` already have been taken by `earlier`? Says no where
 * it is not sure. */
bool route_covers(const struct route_rule *earlier, const struct route_rule *later);

/* Words that stand in logs, metrics, header fields and keys of the store: letters, digits, . _ -, at most 64.
 */
#define PLAIN_NAME_RULE "this name cannot be used; allowed are 1 to 64 letters, digits, . _ and -"
bool is_plain_name(const char *name);
bool is_header_name(const char *name);    /* a token of RFC 9110, at most 128 bytes */
bool is_parameter_name(const char *name); /* of a query, as it is once decoded; at most 128 bytes */

#endif
