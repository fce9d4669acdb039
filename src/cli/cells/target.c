/* Create or find the sandbox and context in which cells run. Runs in: the CLI, as its user. */
#include "target.h"

#include "cli/command/cli.h"
#include "cli/output/signals.h"
#include "cli/sandbox/follow.h"

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
static int request(struct cells_target *target, const char *method, json_t *params, const char *what, char **ret,
                   json_t **made)
{
        struct follow follow = {.client = target->client, .waits_for = "starting the interpreter"};
        int code = follow_request(&follow, method, params, made);

        if (*made)
                *ret = strdup(sandbox_text(*made, what));
        return code || *ret ? code : (cli_bad("out of memory"), 1);
}

static int make_sandbox(struct cells_target *target, const struct sandbox_options *options)
{
        json_t *made = NULL, *params = json_object();
        int code;

        sandbox_add_environment(options, params);
        code = request(target, "sandbox.create", params, "sandbox", &target->sandbox, &made);
        target->owns_sandbox = target->sandbox != NULL;
        json_decref(made);
        return code;
}

static int make_context(struct cells_target *target, const char *context, const char *language)
{
        json_t *made = NULL;
        int code = request(target, "context.create",
                           json_pack("{s:s, s:s*, s:s*}", "sandbox", target->sandbox, "context", context, "language",
                                     language),
                           "context", &target->context, &made);

        target->owns_context = target->context && !context;
        target->language = strdup(sandbox_text(made, "language"));
        json_decref(made);
        if (code)
                return code;
        if (!target->language)
                return cli_bad("out of memory"), 1;
        if (language && strcmp(language, target->language) != 0)
                return cli_bad("the context '%s' has the language %s, not %s: name another context, or leave out "
                               "--language",
                               target->context, target->language, language);
        return 0;
}

int cells_target_open(struct cells_target *target, struct daemon_client *client, const struct sandbox_options *options,
                      const char *context, const char *language)
{
        const char *sandbox = options->sandbox;
        int code = 0;

        *target = (struct cells_target){.client = client, .sandbox = sandbox ? strdup(sandbox) : NULL};
        signals_block(&target->signals);
        if (sandbox && (options->image || options->packages))
                code = cli_bad("%s: expected no --sandbox: the sandbox '%s' keeps the %s it was made with",
                               options->image ? "--image" : "--packages", sandbox,
                               options->image ? "image" : "packages");
        else if (!sandbox)
                code = make_sandbox(target, options);
        else if (!target->sandbox)
                code = (cli_bad("out of memory"), 1);
        return code ? code : make_context(target, context, language);
}

int cells_target_close(struct cells_target *target)
{
        int code = 0;

        if (target->owns_sandbox)
                code = sandbox_request(target->client, "sandbox.delete", json_pack("{s:s}", "sandbox", target->sandbox),
                                       NULL);
        else if (target->owns_context)
                code = sandbox_request(target->client, "context.delete",
                                       json_pack("{s:s, s:s}", "sandbox", target->sandbox, "context", target->context),
                                       NULL);
        let_signals_by(&target->signals);
        free(target->sandbox);
        free(target->context);
        free(target->language);
        return code;
}
