/* Fault: how the world can fail us. One list, one mapping to a status; returned, handled and counted. */
#ifndef WEIR_FAULT_H
#define WEIR_FAULT_H

#include <stdbool.h>

enum fault {
    FAULT_NONE,
    FAULT_ORIGIN_REFUSED, /* no connection: refused, unreachable, name unknown */
    FAULT_ORIGIN_CONNECT_TIMEOUT,
    FAULT_ORIGIN_SILENT,    /* no first byte in time, or a pause longer than idle_timeout */
    FAULT_ORIGIN_BROKE,     /* closed or reset before its answer was whole */
    FAULT_ORIGIN_NONSENSE,  /* its answer is not HTTP, or is ambiguous */
    FAULT_ORIGIN_SATURATED, /* max_connections in use and max_pending waiting */
    FAULT_STORE_AWAY,       /* not connected, or the connection broke with the command under way */
    FAULT_STORE_SILENT,     /* no answer in store.timeout */
    FAULT_STORE_NONSENSE,   /* an answer that our scripts never give */
    FAULT_CLIENT_LEFT,
};

bool fault_leaves_doubt(enum fault fault); /* the upstream may have done what it was asked all the same */
bool fault_is_no_answer(enum fault fault); /* the upstream is not there, or as good as */
const char *fault_name(enum fault fault);  /* for logs and metric labels: "origin_refused" */
int fault_status(enum fault fault);        /* the status a client gets; 0: nobody to tell */
const char *fault_code(enum fault fault);  /* the contract's code: "upstream_error", ... */
const char *fault_proxy_error(enum fault fault); /* RFC 9209 section 2.3 error type */

#endif
