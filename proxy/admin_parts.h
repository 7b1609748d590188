/* Admin parts: what the files of the admin port share, and nobody else sees.
 *
 * admin.c        the port, who may ask, and the way to each answer
 * admin_cache.c  invalidation and purging
 * admin_stats.c  figures
 * admin_callers.c  callers' plans, and where they stand with a limit
 */
#ifndef WEIR_ADMIN_PARTS_H
#define WEIR_ADMIN_PARTS_H

#include "admin.h"
#include "front.h"
#include "invalidator.h"

struct json_object;

enum { ADMIN_BODY_MAX_BYTES = 64 << 10 };

struct admin {
    struct loop *loop;
    struct front *front;
    struct store *store;
    struct invalidator *invalidator;
    struct journal *journal;   /* NULL: none */
    struct settings *settings; /* held: those in force */
    char *token;               /* NULL: none needed */
    bool is_ready;
};

struct admin_request { /* in its client's memory */
    struct admin *admin;
    struct client_request *client;
    struct invalidation *invalidation;
    struct caller_request *caller; /* admin_callers.c's; NULL: it is not about a caller */
};

void admin_answer(struct client_request *client, int status, struct slice type, struct slice body);
void admin_refuse(struct client_request *client, int status, const char *code, const char *detail);

/* admin_cache.c: each answers the request, now or later; `body` is what came as JSON. */
void admin_invalidate(struct admin_request *request, struct slice body);
void admin_purge(struct admin_request *request, struct slice body);

void admin_stats(struct admin_request *request); /* admin_stats.c */

/* Is it about a caller? Then it is answered, now or later, whatever its method. */
bool admin_takes_caller(struct admin_request *request, struct slice path);
void admin_leave_caller(struct admin_request *request); /* its client has gone */
bool admin_sent_json(const struct request_head *head);
struct json_object *admin_parse_json(struct slice body); /* NULL: it is not one JSON value */

#endif
