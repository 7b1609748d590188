/* The names of HTTP statuses, as clients read them in the status line. */
#include "status_text.h"

#include <criterion/criterion.h>

Test(status_text, a_registered_status_has_its_registered_name)
{
    cr_assert_str_eq(status_text(200), "OK");
    cr_assert_str_eq(status_text(304), "Not Modified");
    cr_assert_str_eq(status_text(413), "Content Too Large");
    cr_assert_str_eq(status_text(429), "Too Many Requests");
    cr_assert_str_eq(status_text(504), "Gateway Timeout");
}

Test(status_text, every_other_status_has_the_name_of_its_class_and_none_is_null)
{
    cr_assert_str_eq(status_text(299), "Success");
    cr_assert_str_eq(status_text(399), "Redirection");
    cr_assert_str_eq(status_text(499), "Client Error");
    cr_assert_str_eq(status_text(599), "Server Error");
    for (int status = -1; status <= 1000; status++)
        cr_assert_gt(strlen(status_text(status)), 0);
}
