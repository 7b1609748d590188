/* Limit reports: see store_memory_reports.h. */
#include "store_memory_reports.h"

#include "budget.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { SETS = 1024, WAYS = 4 /* places in which the report of a key may be */ };

void limit_reports_clear(struct limit_reports *reports)
{
    free(reports->places);
    reports->places = NULL;
}

static bool is_of(const struct limit_report *report, const struct limit_charge *charge, uint64_t rule_print)
{
    return report->rule_print == rule_print && report->at_us != 0 &&
           memcmp(report->principal, charge->principal, sizeof(report->principal)) == 0;
}

/* The place of the key's report, else that of the oldest, which it may replace. */
static struct limit_report *place_of(const struct limit_reports *reports, const struct limit_charge *charge,
                                     uint64_t hash, uint64_t rule_print)
{
    struct limit_report *set = reports->places + (size_t)hash % SETS * WAYS, *oldest = set;

    for (size_t i = 0; i < WAYS; i++) {
        if (is_of(&set[i], charge, rule_print))
            return &set[i];
        if (set[i].at_us < oldest->at_us)
            oldest = &set[i];
    }
    return oldest;
}

void limit_reports_note(struct limit_reports *reports, const struct limit_charge *charge, uint64_t hash,
                        uint64_t rule_print, int64_t available, int64_t at_us)
{
    struct limit_report *report;

    if (reports->places == NULL)
        reports->places = must_alloc((size_t)SETS * WAYS * sizeof(*reports->places));
    report = place_of(reports, charge, hash, rule_print);
    memcpy(report->principal, charge->principal, sizeof(report->principal));
    report->rule_print = rule_print;
    report->used = limit_capacity(charge->terms) - available;
    report->at_us = at_us;
}

bool limit_reports_find(const struct limit_reports *reports, const struct limit_charge *charge, uint64_t hash,
                        uint64_t rule_print, struct limit_report *out)
{
    if (reports->places == NULL)
        return false;
    *out = *place_of(reports, charge, hash, rule_print);
    return is_of(out, charge, rule_print);
}
