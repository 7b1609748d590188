/* Problem: see problem.h. */
#include "problem.h"
#include "status_text.h"
#include "text.h"

static const char *type_of(int status)
{
    return status == 503 ? "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
                         : "about:blank";
}

size_t problem_body(int status, const char *code, const char *detail, char *out, size_t room)
{
    struct text text = text_in(out, room);

    text_add(&text, SLICE("{\"type\":\""));
    text_add(&text, slice_text(type_of(status)));
    text_add(&text, SLICE("\",\"title\":\""));
    text_add(&text, slice_text(status_text(status)));
    text_add(&text, SLICE("\",\"status\":"));
    text_add_int(&text, status);
    text_add(&text, SLICE(",\"detail\":\""));
    text_add(&text, slice_text(detail));
    text_add(&text, SLICE("\",\"code\":\""));
    text_add(&text, slice_text(code));
    text_add(&text, SLICE("\"}"));
    return text_fits(&text) ? text.len : 0;
}
