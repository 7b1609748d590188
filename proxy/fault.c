/* Fault: see fault.h. No switch here has a default: a new fault must be given a status before it compiles. */
#include "fault.h"
#include "check.h"

#include <stddef.h>

const char *fault_name(enum fault fault)
{
    switch (fault) {
    case FAULT_NONE: return "none";
    case FAULT_ORIGIN_REFUSED: return "origin_refused";
    case FAULT_ORIGIN_CONNECT_TIMEOUT: return "origin_connect_timeout";
    case FAULT_ORIGIN_SILENT: return "origin_silent";
    case FAULT_ORIGIN_BROKE: return "origin_broke";
    case FAULT_ORIGIN_NONSENSE: return "origin_nonsense";
    case FAULT_ORIGIN_SATURATED: return "origin_saturated";
    case FAULT_STORE_AWAY: return "store_away";
    case FAULT_STORE_SILENT: return "store_silent";
    case FAULT_STORE_NONSENSE: return "store_nonsense";
    case FAULT_CLIENT_LEFT: return "client_left";
    }
    CHECK(!"a fault is one of its own values");
    return NULL;
}

bool fault_leaves_doubt(enum fault fault)
{
    switch (fault) {
    case FAULT_ORIGIN_SILENT:
    case FAULT_ORIGIN_BROKE:
    case FAULT_ORIGIN_NONSENSE: return true;
    case FAULT_NONE:
    case FAULT_ORIGIN_REFUSED:
    case FAULT_ORIGIN_CONNECT_TIMEOUT:
    case FAULT_ORIGIN_SATURATED:
    case FAULT_STORE_AWAY:
    case FAULT_STORE_SILENT:
    case FAULT_STORE_NONSENSE:
    case FAULT_CLIENT_LEFT: return false;
    }
    CHECK(!"a fault is one of its own values");
    return true;
}

bool fault_is_no_answer(enum fault fault)
{
    switch (fault) {
    case FAULT_ORIGIN_REFUSED:
    case FAULT_ORIGIN_CONNECT_TIMEOUT:
    case FAULT_ORIGIN_SILENT:
    case FAULT_ORIGIN_BROKE: return true;
    case FAULT_NONE:
    case FAULT_ORIGIN_NONSENSE:
    case FAULT_ORIGIN_SATURATED:
    case FAULT_STORE_AWAY:
    case FAULT_STORE_SILENT:
    case FAULT_STORE_NONSENSE:
    case FAULT_CLIENT_LEFT: return false;
    }
    CHECK(!"a fault is one of its own values");
    return false;
}

int fault_status(enum fault fault)
{
    switch (fault) {
    case FAULT_NONE: return 200;
    case FAULT_ORIGIN_REFUSED: return 502;
    case FAULT_ORIGIN_CONNECT_TIMEOUT: return 504;
    case FAULT_ORIGIN_SILENT: return 504;
    case FAULT_ORIGIN_BROKE: return 502;
    case FAULT_ORIGIN_NONSENSE: return 502;
    case FAULT_ORIGIN_SATURATED: return 503;
    case FAULT_STORE_AWAY: return 503;
    case FAULT_STORE_SILENT: return 503;
    case FAULT_STORE_NONSENSE: return 503;
    case FAULT_CLIENT_LEFT: return 0;
    }
    CHECK(!"a fault is one of its own values");
    return 500;
}

const char *fault_code(enum fault fault)
{
    switch (fault) {
    case FAULT_NONE: return "none";
    case FAULT_ORIGIN_REFUSED:
    case FAULT_ORIGIN_BROKE:
    case FAULT_ORIGIN_NONSENSE: return "upstream_error";
    case FAULT_ORIGIN_CONNECT_TIMEOUT:
    case FAULT_ORIGIN_SILENT: return "upstream_timeout";
    case FAULT_ORIGIN_SATURATED: return "upstream_saturated";
    case FAULT_STORE_AWAY:
    case FAULT_STORE_SILENT:
    case FAULT_STORE_NONSENSE: return "limiter_unavailable";
    case FAULT_CLIENT_LEFT: return "client_left";
    }
    CHECK(!"a fault is one of its own values");
    return NULL;
}

const char *fault_proxy_error(enum fault fault)
{
    switch (fault) {
    case FAULT_NONE: return "none";
    case FAULT_ORIGIN_REFUSED: return "connection_refused";
    case FAULT_ORIGIN_CONNECT_TIMEOUT: return "connection_timeout";
    case FAULT_ORIGIN_SILENT: return "http_response_timeout";
    case FAULT_ORIGIN_BROKE: return "http_response_incomplete";
    case FAULT_ORIGIN_NONSENSE: return "http_protocol_error";
    case FAULT_ORIGIN_SATURATED: return "connection_limit_reached";
    case FAULT_STORE_AWAY:
    case FAULT_STORE_SILENT:
    case FAULT_STORE_NONSENSE: return "proxy_internal_error";
    case FAULT_CLIENT_LEFT: return "none";
    }
    CHECK(!"a fault is one of its own values");
    return NULL;
}
