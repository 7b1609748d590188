/* The h2o loop inside a loop, for the adapters that sit on its sockets. */
#ifndef WEIR_LOOP_H2O_H
#define WEIR_LOOP_H2O_H

#include "loop.h"

#include <h2o.h>

h2o_loop_t *loop_h2o(struct loop *loop);

#endif
