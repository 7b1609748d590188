/* Command client: which plan has a caller, and from now on which?
 *
 *   weir client -c FILE [--limit NAME] get|set|del KEY [PLAN]
 *
 * The key is never repeated in what this says.
 */
#include "caller_key.h"
#include "command.h"
#include "errand.h"
#include "settings_complaints.h" /* quote() */
#include "settings_sections.h"   /* is_plain_name() */
#include "store.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum client_verb { CLIENT_GET, CLIENT_SET, CLIENT_DEL };

struct client_call {
    const struct invocation *call;
    struct errand errand;
    enum client_verb verb;
    const struct limit_rule *rule; /* by whose plan_key the caller is known */
    unsigned char principal[PRINCIPAL_BYTES];
    struct plan_name plan; /* to set; or what was found */
    bool is_done, was_there;
    enum fault fault;
};

/* ---- what was asked for ---- */

static bool find_verb(const struct invocation *call, enum client_verb *out)
{
    static const char *const verbs[] = {"get", "set", "del"};

    for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
        if (strcmp(call->words[0], verbs[i]) == 0) {
            *out = (enum client_verb)i;
            return true;
        }
    return false;
}

/* EXIT_DONE, or it was complained. */
static int understand(struct client_call *client)
{
    const struct invocation *call = client->call;
    const char *flaw = NULL, *limit = call->options[0] == NULL ? "" : call->options[0];

    client->rule = limit_with_plans(client->errand.settings, slice_text(limit), &flaw);
    if (client->rule != NULL)
        flaw = caller_of_plan(client->rule, slice_text(call->words[1]), client->principal);
    if (flaw == NULL && client->verb == CLIENT_SET &&
        !plan_is_offered(client->errand.settings, client->rule, slice_text(call->words[2])))
        flaw = "No limit has a plan of this name.";
    if (flaw == NULL)
        return EXIT_DONE;
    errand_complain(&client->errand, "%s", flaw);
    return EXIT_USAGE;
}

/* Whoever wrote it into the store may have written anything. */
static void tell_plan(const struct plan_name *plan, FILE *out)
{
    char name[sizeof(plan->text) + 1] = "";

    memcpy(name, plan->text, plan->len);
    fprintf(out, "%s\n", is_plain_name(name) ? name : quote(name).text);
}

static int tell(struct client_call *client)
{
    struct slice name = plan_name_text(&client->plan);
    FILE *out = client->call->out;

    switch (client->verb) {
    case CLIENT_GET:
        if (name.len > 0)
            tell_plan(&client->plan, out);
        else
            fputs("no plan of its own: the default of each limit\n", out);
        break;
    case CLIENT_SET: fprintf(out, "%.*s, from now on\n", (int)name.len, name.base); break;
    case CLIENT_DEL: fputs(client->was_there ? "no plan from now on\n" : "there was none\n", out); break;
    }
    return EXIT_DONE;
}

/* ---- by the store ---- */

static void on_read(void *arg, enum fault fault, const struct plan_answer *answer)
{
    struct client_call *client = arg;

    client->is_done = true;
    client->fault = fault;
    if (fault == FAULT_NONE)
        client->plan = answer->plan;
}

static void on_changed(void *arg, enum fault fault, bool was_there)
{
    struct client_call *client = arg;

    client->is_done = true;
    client->fault = fault;
    client->was_there = was_there;
}

static int ask_store(struct client_call *client)
{
    struct store *store = client->errand.store;

    if (client->verb == CLIENT_GET)
        store_read_plan(store, client->principal, on_read, client);
    else
        store_write_plan(store, client->principal, &client->plan, on_changed, client);
    errand_wait(&client->errand, &client->is_done);
    if (client->fault == FAULT_NONE)
        return tell(client);
    errand_complain(&client->errand, "the store did not answer as it should: %s", fault_name(client->fault));
    return EXIT_FAILED;
}

/* ---- by the running process ---- */

static void add_escaped(struct text *text, struct slice bytes)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.base[i];

        text_add_char(text, '%');
        text_add_char(text, digits[c >> 4]);
        text_add_char(text, digits[c & 15]);
    }
}

static struct text target_of(const struct client_call *client, char *room, size_t bytes)
{
    struct text text = text_in(room, bytes);

    text_add(&text, SLICE("/api/clients/"));
    add_escaped(&text, slice_text(client->call->words[1]));
    text_add(&text, SLICE("?limit="));
    text_add(&text, slice_text(client->rule->name));
    return text;
}

static int ask_process(struct client_call *client)
{
    static const struct {
        const char *bytes;
        size_t len;
    } methods[] = {{"GET", 3}, {"PUT", 3}, {"DELETE", 6}};
    char target[4096], json[128];
    struct text path = target_of(client, target, sizeof(target)), body = text_in(json, sizeof(json));
    struct errand_answer answer;
    char *plan;
    int code;

    if (!text_fits(&path)) {
        errand_complain(&client->errand, "the key is too long");
        return EXIT_USAGE;
    }
    if (client->verb == CLIENT_SET) { /* a plan's name needs no escapes */
        text_add(&body, SLICE("{\"plan\":\""));
        text_add(&body, plan_name_text(&client->plan));
        text_add(&body, SLICE("\"}"));
    }
    if (!errand_ask_admin(&client->errand, slice_of(methods[client->verb].bytes, methods[client->verb].len),
                          text_slice(&path), text_slice(&body), &answer))
        return EXIT_FAILED;
    plan = errand_text(&answer, "plan");
    if (answer.status != 200)
        code = errand_refused(&client->errand, &answer);
    else {
        client->was_there = errand_flag(&answer, "had_one");
        client->plan = plan_name_of(plan == NULL ? slice_of(NULL, 0) : slice_text(plan));
        code = tell(client);
    }
    free(plan);
    free(answer.body);
    return code;
}

/* ---- the command ---- */

static int carry_out(struct client_call *client)
{
    int code = errand_load(&client->errand, "client", client->call->config_path, client->call->err);

    if (code == EXIT_DONE)
        code = understand(client);
    if (code == EXIT_DONE)
        code = errand_reach(&client->errand);
    if (code == EXIT_DONE)
        code = client->errand.store != NULL ? ask_store(client) : ask_process(client);
    errand_close(&client->errand);
    return code;
}

int command_client(const struct invocation *call)
{
    struct client_call client = {.call = call};

    if (!find_verb(call, &client.verb))
        return refuse_words(call, "what to do is get, set or del");
    if (client.verb == CLIENT_SET && call->word_count < 3)
        return refuse_words(call, "the plan is missing");
    if (client.verb != CLIENT_SET && call->word_count > 2)
        return refuse_words(call, "only set takes a plan");
    if (client.verb == CLIENT_SET)
        client.plan = plan_name_of(slice_text(call->words[2]));
    return carry_out(&client);
}
