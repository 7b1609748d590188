/* Listener: the sockets that clients connect to. One per address and worker, so that the kernel spreads
 * connections and no thread shares an accept queue (SO_REUSEPORT). */
#ifndef WEIR_LISTENER_H
#define WEIR_LISTENER_H

#include "settings.h"

/* Binds and listens `copies` times; false with nothing left open and one line to `errors` if it can't, also
 * where another process already listens there. */
bool listener_open(const struct listen_setting *at, int copies, int *fds_out, FILE *errors);

#endif
