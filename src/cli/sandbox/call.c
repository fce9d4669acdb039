/* A call in a daemon. Runs in: the CLI, as its user. */
#include "call.h"
#include "prefix.h"

#include "cli/options/members.h"
#include "cli/output/progress.h"
#include "wire/json.h"
#include "wire/value.h"

#include <string.h>

/* Options that an engine of this command needs; a daemon has its own. */
static int check_options(const struct cli_request *request)
{
        const struct {
                const char *option, *instead;
                int is_given;
        } rows[] = {
                {"--mount", "cloche sandbox create --mount shows directories to a sandbox",
                 request->mounts.object != NULL},
                {"--optional", "the daemon's own options decide", request->engine.optional_guards != 0},
                {"--core-scheduling", "the daemon's own options decide", request->engine.core_scheduling},
                {"--host-port", "the daemon's own --host-port decides", request->sandbox.host_ports != NULL},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (rows[i].is_given)
                        return cli_bad("%s is not for a call with --socket: %s", rows[i].option, rows[i].instead);
        if (request->sandbox.image && strchr(request->sandbox.image, '/'))
                return cli_bad("--image: '%s' is a path: with --socket a call names an image of the daemon's store "
                               "(cloche image ls --daemon)",
                               request->sandbox.image);
        return 0;
}

/* Set a member to JSON text of an option, whose values are in text form. 0, or the exit code. */
static int set_value(json_t *params, const char *name, const char *text, struct buf *attachments)
{
        json_t *value = NULL, *sent = NULL;
        struct cloche_err e = {0};
        int r;

        if (!text)
                return 0;
        r = json_load_text(text, strlen(text), &value, &e);
        if (r == 0)
                r = value_text_to_frame(value, attachments, &sent, &e);
        if (r == 0)
                json_object_set_new(params, name, sent);
        json_decref(value);
        return r < 0 ? cli_bad("--%s: %s", name, e.msg) : 0;
}

static int set_values(json_t *params, const struct cli_request *request, struct buf *attachments)
{
        const struct {
                const char *name, *text;
        } rows[] = {
                {"args", request->run.args},
                {"kwargs", request->run.kwargs},
                {"schema", request->run.schema},
                {"build", request->run.build},
        };
        int code = 0;

        for (size_t i = 0; code == 0 && i < sizeof(rows) / sizeof(rows[0]); i++)
                code = set_value(params, rows[i].name, rows[i].text, attachments);
        return code;
}

static json_t *params_of(const struct cli_request *request, json_t *prefix, struct buf *attachments)
{
        const struct cloche_run_options *run = &request->run;
        size_t size = run->code_size ? run->code_size : strlen(run->code);

        return json_pack("{s:s, s:o, s:s*, s:s*, s:o*, s:o*, s:o, s:o*, s:s*, s:o*}", "language", run->language, "code",
                         prefix_bytes(run->code, size, attachments), "filename", run->filename, "function",
                         run->function, "env", sandbox_env(request), "limits", sandbox_limits(request), "files",
                         prefix_files(run->files, run->file_count, attachments), "network", sandbox_network(request),
                         "image", prefix ? NULL : request->sandbox.image, "prefix", prefix);
}

static int call(struct daemon_client *c, const struct cli_request *request, json_t **ret)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(FRAME_BYTES_MAX);
        char text[MEMBERS_TEXT_BYTES];
        json_t *prefix = NULL, *params;
        struct daemon_message message = {0};
        struct cloche_err e = {0};
        int code = request->prefix ? sandbox_prefix_of_call(c, request, &prefix) : 0, r;

        if (code)
                return code;
        params = params_of(request, prefix, &attachments);
        if (!params)
                return cli_bad("the code and files cannot be sent to the daemon: they are larger than a message of %u "
                               "bytes, cannot be read, or a name is not UTF-8",
                               FRAME_BYTES_MAX);
        code = set_values(params, request, &attachments);
        if (code) {
                json_decref(params);
                return code;
        }
        progress_start("waiting for the call");
        r = daemon_call(c, "call", params, attachments.data, attachments.size, &message, &e);
        progress_end();
        if (r == 0)
                r = daemon_text_form(&message, ret, &e);
        daemon_message_done(&message);
        if (r == 0)
                return 0;
        cli_bad("%s", members_of_run(request, e.msg, text));
        return cloche_code_fault(e.code) == CLOCHE_FAULT_CALLER ? CLI_BAD_INPUT : 1;
}

int daemon_call_function(const struct cli_request *request, json_t **ret)
{
        struct daemon_client client;
        int code = check_options(request);

        if (code == 0)
                code = sandbox_check_network(request);
        if (code == 0)
                code = sandbox_open(request, &client);
        if (code)
                return code;
        code = call(&client, request, ret);
        daemon_close(&client);
        return code;
}
