/* Holdings: what requests hold of limits, from when the store is asked until that is settled there.
 *
 * Who has a holding may be sure of one thing: however he ends, and whatever the store does meanwhile, his units are given back. A
 * holding that ends before the store has answered is settled as soon as it has, or has failed: it may have done it all the same.
 * While its request lives it is renewed three times a lease. What the store did not hear is told again for as long as a lease; then
 * it has ended there by itself. So units are lost to their lease only when the process dies, or the store stays away; and beyond
 * HOLDINGS_MOST_UNTOLD, which bounds what is remembered for a store that is away.
 *
 * All that comes up in a turn is told at once. One for each store that is asked.
 */
#ifndef WEIR_HOLDINGS_H
#define WEIR_HOLDINGS_H

#include "list.h"
#include "site.h"
#include "store.h"

enum { HOLDINGS_MOST_UNTOLD = 65536 };

struct holdings;
struct holding; /* units of one limit, for one request */

struct holdings *holdings_new(struct loop *loop, struct store *store); /* borrows both */
/* What the store has not heard is left to its lease. Nobody may have a holding any more. */
void holdings_free(struct holdings *holdings);
size_t
holdings_untold(const struct holdings *holdings); /* that have ended, and of which the store has not heard */

/* The store answers: what it did not hear before is told now, not after the pause that follows a failure. */
void holdings_resume(struct holdings *holdings);

/* So many tokens that were never handed out; returns the first. */
int64_t holdings_tokens(struct holdings *holdings, int64_t count);

/* The store is being asked about `charge`, a copy of which has its own token for first_hold. Until that is answered the holding is
 * among `asked`. */
struct holding *holding_new(struct holdings *holdings, struct site *site, const struct limit_charge *charge,
                            struct link *asked);
/* The store took it, or did not: then the holding is freed and nulled. */
void holding_answered(struct holding **holding, bool is_taken);
/* Whatever is still among `asked` ends without a charge: those who had it have left, or were told that the store has failed. */
void holdings_end_asked(struct link *asked);

const struct limit_charge *holding_charge(const struct holding *holding);
/* Takes it: its units are given back, and so many (0 or more) are charged. NULL is fine. */
void holding_end(struct holding **holding, int64_t charged);

#endif
