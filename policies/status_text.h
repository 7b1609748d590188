/* Status text: what is an HTTP status called? RFC 9110 section 15, RFC 6585. */
#ifndef WEIR_STATUS_TEXT_H
#define WEIR_STATUS_TEXT_H

/* Its registered reason phrase; for one that has none, the name of its class. */
const char *status_text(int status);

#endif
