/* Check: what must be true if our own code is right. Bytes from outside never reach a CHECK. */
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

/* Supplied by the program that links us (proxy/panic.c, or a test): says where, and stops. */
_Noreturn void check_failed(const char *claim, const char *file, int line);

#define CHECK(claim) ((claim) ? (void)0 : check_failed(#claim, __FILE__, __LINE__))

#endif
