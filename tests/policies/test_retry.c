#include "retry.h"

#include <criterion/criterion.h>

Test(retry, methods_are_what_rfc_9110_section_9_2_says)
{
    static const struct {
        const char *method;
        bool is_safe, is_idempotent;
    } rows[] = {
        {"GET", true, true},   {"HEAD", true, true},       {"OPTIONS", true, true}, {"TRACE", true, true},
        {"PUT", false, true},  {"DELETE", false, true},    {"POST", false, false},  {"PATCH", false, false},
        {"get", false, false}, {"PROPFIND", false, false}, {"", false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect_eq(method_is_safe(slice_text(rows[i].method)), rows[i].is_safe, "%s", rows[i].method);
        cr_expect_eq(method_is_idempotent(slice_text(rows[i].method)), rows[i].is_idempotent, "%s",
                     rows[i].method);
    }
}

Test(retry, a_request_is_sent_again_only_where_nothing_can_have_happened_twice)
{
    static const struct {
        const char *why;
        struct retry_facts failed;
        bool want;
    } rows[] = {
        {"a GET that broke before its answer", {SLICE("GET"), false, true, false, false, 0, 1}, true},
        {"its retries are used up", {SLICE("GET"), false, true, false, false, 1, 1}, false},
        {"no retries are wanted", {SLICE("GET"), false, true, false, false, 0, 0}, false},
        {"an answer had begun", {SLICE("GET"), true, true, true, false, 0, 1}, false},
        {"the upstream was slow", {SLICE("GET"), false, true, false, true, 0, 1}, false},
        {"a POST may have been acted upon", {SLICE("POST"), false, true, false, false, 0, 1}, false},
        {"a POST on a reused connection as well", {SLICE("POST"), true, true, false, false, 0, 1}, false},
        {"a POST that never left", {SLICE("POST"), false, false, false, false, 0, 1}, true},
        {"a POST that never left, no retries", {SLICE("POST"), false, false, false, false, 0, 0}, false},
        {"a stale connection costs no retry", {SLICE("GET"), true, true, false, false, 0, 0}, true},
        {"a stale connection before a POST left", {SLICE("POST"), true, false, false, false, 0, 0}, true},
        {"a PUT is idempotent", {SLICE("PUT"), false, true, false, false, 0, 1}, true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(retry_may_send_again(&rows[i].failed), rows[i].want, "%s", rows[i].why);
}
