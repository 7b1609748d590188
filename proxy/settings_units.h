/* Settings units: what quantity does a text such as 250ms, 8MiB or 20/s stand for?
 *
 * Whole numbers with a unit, no signs, no fractions, no blanks. Every reader refuses what does not fit its
 * result; none changes *out then. Nought may be written without a unit.
 */
#ifndef WEIR_SETTINGS_UNITS_H
#define WEIR_SETTINGS_UNITS_H

#include <stdbool.h>
#include <stdint.h>

bool read_count(const char *text, int64_t *out);          /* 0 to 2^63-1 */
bool read_duration_ms(const char *text, int64_t *out_ms); /* ms s m h d */
bool read_size(const char *text, int64_t *out_bytes);     /* B KiB MiB GiB, KB MB GB (powers of 1000) */
bool read_truth(const char *text, bool *out);             /* true false, and YAML 1.1's yes no on off */

struct rate {
    int64_t units;
    int64_t window_us;
};
bool read_rate(const char *text, struct rate *out); /* N/s N/m N/h N/d, or N/DURATION; neither part nought */

struct amount {
    char text[32];
};
struct amount show_duration(int64_t ms); /* in the largest unit that divides it: "2s", "1500ms" */
struct amount show_size(int64_t bytes);  /* likewise: "64MiB" */

#endif
