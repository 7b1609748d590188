/* Admin: the second port: health, metrics, invalidation. Runs on the control thread's loop with a store
 * handle of its own. */
#ifndef WEIR_ADMIN_H
#define WEIR_ADMIN_H

#include "settings.h"
#include "worker.h"

struct admin;

struct admin *admin_start(struct loop *loop, struct commons *commons, struct settings *settings, int fd);
void admin_set_settings(struct admin *admin, struct settings *settings); /* after a reload; holds them */
void admin_set_ready(struct admin *admin, bool is_ready);
/* Invalidations that the store has yet to be told of. */
size_t admin_kept(const struct admin *admin);
/* Closes its connections; turn the loop until this says it may be freed. */
void admin_stop(struct admin *admin);
bool admin_has_ended(const struct admin *admin);
void admin_free(struct admin **admin);

#endif
