#include "target.h"

#include "cli/command/cli.h"
#include "cli/output/signals.h"
#include "cli/sandbox/follow.h"
#include "cli/sandbox/sandbox-options.h"

#include <stdlib.h>
#include <string.h>

/* Clean-up is complete: discard pending signals. */
static void let_signals_by(const sigset_t *before)
{
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
        sigprocmask(SIG_SETMASK, before, NULL);
}

/* A cancelled creation may have succeeded; the answer's name allows its deletion. */
static int ask(struct place *place, const char *method, json_t *params, const char *what, char **ret, json_t **made)
{
        struct follow follow = {.client = place->client, .waits_for = "starting the interpreter"};
        int code = follow_request(&follow, method, params, made);

        if (*made)
                *ret = strdup(sandbox_text(*made, what));
        return code || *ret ? code : (cli_bad("out of memory"), 1);
}

static int make_sandbox(struct place *place)
{
        json_t *made = NULL;
        int code = ask(place, "sandbox.create", json_object(), "sandbox", &place->sandbox, &made);

        place->owns_sandbox = place->sandbox != NULL;
        json_decref(made);
        return code;
}

static int make_context(struct place *place, const char *context, const char *language)
{
        json_t *made = NULL;
        int code =
                ask(place, "context.create",
                    json_pack("{s:s, s:s*, s:s*}", "sandbox", place->sandbox, "context", context, "language", language),
                    "context", &place->context, &made);

        place->owns_context = place->context && !context;
        place->language = strdup(sandbox_text(made, "language"));
        json_decref(made);
        if (code)
                return code;
        if (!place->language)
                return cli_bad("out of memory"), 1;
        if (language && strcmp(language, place->language) != 0)
                return cli_bad("the context '%s' is of language %s, not %s", place->context, place->language, language);
        return 0;
}

int place_open(struct place *place, struct daemon_client *client, const char *sandbox, const char *context,
               const char *language)
{
        int code = 0;

        *place = (struct place){.client = client, .sandbox = sandbox ? strdup(sandbox) : NULL};
        signals_block(&place->signals);
        if (!sandbox)
                code = make_sandbox(place);
        else if (!place->sandbox)
                code = (cli_bad("out of memory"), 1);
        return code ? code : make_context(place, context, language);
}

int place_close(struct place *place)
{
        int code = 0;

        if (place->owns_sandbox)
                code = sandbox_ask(place->client, "sandbox.delete", json_pack("{s:s}", "sandbox", place->sandbox),
                                   NULL);
        else if (place->owns_context)
                code = sandbox_ask(place->client, "context.delete",
                                   json_pack("{s:s, s:s}", "sandbox", place->sandbox, "context", place->context), NULL);
        let_signals_by(&place->signals);
        free(place->sandbox);
        free(place->context);
        free(place->language);
        return code;
}
