/* The tools for sandboxes themselves. Runs in: cloched-engine, on its loop, with the rights of the
 * daemon's user. */
#include "daemon/mcp/internal.h"

#include "daemon/images/names.h"
#include "daemon/images/program.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *sandbox_of(const json_t *sandbox)
{
        return json_pack("{s:O, s:O, s:O, s:O*}", "sandbox", json_object_get(sandbox, "sandbox"), "state",
                         json_object_get(sandbox, "state"), "created_at", json_object_get(sandbox, "createdAt"),
                         "ends_at", json_object_get(sandbox, "endsAt"));
}

/* The core makes a new name, or takes this one; name: stolen. */
static void rename_door(struct mcp_exchange *x, char *name)
{
        free(x->door.sandbox);
        x->door.sandbox = name;
}

/* -- one sandbox ------------------------------------------------------------------------------------------------- */

static void on_created(struct mcp_exchange *x, const struct door_reply *reply)
{
        int is_new = json_is_true(json_object_get(reply->result, "created"));
        json_t *structured = sandbox_of(reply->result);

        json_object_set_new(structured, "created", json_boolean(is_new));
        mcp_tool_answer_text(x,
                             json_sprintf("the sandbox %s %s", mcp_text(reply->result, "sandbox"),
                                          is_new ? "is made" : "was there"),
                             structured, 0);
}

static json_t *options_of(const struct mcp_exchange *x)
{
        json_int_t memory_mb = mcp_count(x, "memory_mb", 0), lifetime_s = mcp_count(x, "timeout_s", 0);
        json_t *params = json_pack("{s:O*, s:O*}", "env", json_object_get(x->arguments, "env"), "image",
                                   json_object_get(x->arguments, "image"));

        if (memory_mb)
                json_object_set_new(params, "limits", json_pack("{s:I}", "memoryBytes", memory_mb << 20));
        if (json_object_get(x->arguments, "network"))
                json_object_set(params, "network", json_object_get(x->arguments, "network"));
        if (lifetime_s) {
                json_object_set_new(params, "lifetimeMs", json_integer(lifetime_s * 1000));
                json_object_set_new(params, "endAction", json_string("delete"));
        }
        return params;
}

static void on_image(void *data, const json_t *result, const struct cloche_err *e)
{
        struct mcp_exchange *x = data;
        json_t *params = options_of(x);
        struct cloche_err own = {0};

        x->door.image = NULL;
        if (!e && (!params || image_name_put(params, result, 1) < 0)) {
                err_os(&own, CLOCHE_E_RESOURCE, ENOMEM, "read the image");
                e = &own;
        }
        if (e) {
                json_decref(params);
                mcp_tool_fail(x, e);
        } else {
                mcp_call(x, "sandbox.create", params, NULL, on_created);
        }
}

void mcp_create_sandbox(struct mcp_exchange *x)
{
        json_t *image = json_object_get(x->arguments, "image"), *network = json_object_get(x->arguments, "network");
        struct cloche_err e = {0};

        if (network && x->door.daemon->options.is_mcp_ask && !mcp_network_is_granted(x, network))
                return;

        if (!json_object_get(x->arguments, "sandbox"))
                rename_door(x, NULL);
        if (!image)
                mcp_call(x, "sandbox.create", options_of(x), NULL, on_created);
        else if (images_read(x->door.daemon, "resolve", json_pack("{s:O}", "name", image), on_image, x, &x->door.image,
                             &e) < 0)
                mcp_tool_fail(x, &e);
}

static void on_deleted(struct mcp_exchange *x, const struct door_reply *reply)
{
        (void)reply;
        mcp_tool_answer_text(x, json_sprintf("the sandbox %s is deleted", x->door.sandbox), json_object(), 0);
}

void mcp_delete_sandbox(struct mcp_exchange *x)
{
        mcp_call(x, "sandbox.delete", json_object(), NULL, on_deleted);
}

/* -- several ----------------------------------------------------------------------------------------------------- */

static void on_sandboxes(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *sandboxes = json_array(), *sandbox, *text;
        struct mcp_cut lines;
        size_t i;

        mcp_cut_init(&lines);
        json_array_foreach (json_object_get(reply->result, "sandboxes"), i, sandbox) {
                const char *name = mcp_text(sandbox, "sandbox"), *state = mcp_text(sandbox, "state");

                mcp_cut_add(&lines, name, strlen(name));
                mcp_cut_add(&lines, " ", 1);
                mcp_cut_add(&lines, state, strlen(state));
                mcp_cut_add(&lines, "\n", 1);
                json_array_append_new(sandboxes, sandbox_of(sandbox));
        }
        text = lines.total ? mcp_cut_text(&lines) : json_string("(no sandboxes)");
        mcp_cut_done(&lines);
        mcp_tool_answer_text(x, text, json_pack("{s:o}", "sandboxes", sandboxes), 0);
}

void mcp_list_sandboxes(struct mcp_exchange *x)
{
        rename_door(x, NULL);
        mcp_call(x, "sandbox.list", json_object(), NULL, on_sandboxes);
}

void mcp_fork_sandbox(struct mcp_exchange *x)
{
        mcp_call(x, "sandbox.fork", json_pack("{s:I}", "count", mcp_count(x, "count", 1)), NULL, on_sandboxes);
}

/* -- checkpoints ------------------------------------------------------------------------------------------------- */

static void on_snapshot(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *name = json_object_get(reply->result, "snapshot");

        mcp_tool_answer_text(x,
                             json_sprintf("the files of %s are kept as %s", x->door.sandbox, json_string_value(name)),
                             json_pack("{s:O}", "checkpoint", name), 0);
}

void mcp_checkpoint(struct mcp_exchange *x)
{
        mcp_call(x, "sandbox.snapshot", json_pack("{s:O*}", "snapshot", json_object_get(x->arguments, "checkpoint")),
                 NULL, on_snapshot);
}

/* A sandbox takes the place of the earlier one only when it is complete: if it cannot be made, the
 * earlier one goes on. All of it happens whether the client waits or not. */
#define RENAMES 3 /* others may make a sandbox of the name meanwhile, which is replaced too */

static void fail_rollback(struct mcp_errand *errand, const struct cloche_err *e)
{
        struct mcp_exchange *x = errand->x;

        errand->x = NULL;
        if (x) {
                x->state_done = NULL;
                mcp_tool_fail(x, e);
        }
        if (errand->door.sandbox) /* it was made, and is of no use */
                mcp_errand_call(errand, "sandbox.delete", json_object(), NULL);
        else
                mcp_errand_free(errand);
}

static void swap_names(struct mcp_errand *errand)
{
        char *made = errand->door.sandbox;

        errand->door.sandbox = errand->target;
        errand->target = made;
        errand->door.had_sandbox = 0;
}

static void answer_rollback(struct mcp_errand *errand, const json_t *sandbox)
{
        struct mcp_exchange *x = errand->x;

        if (x) {
                x->state_done = NULL;
                errand->x = NULL;
                mcp_tool_answer_text(x,
                                     json_sprintf("the sandbox %s has the files of %s; its processes and interpreters "
                                                  "have ended",
                                                  mcp_text(sandbox, "sandbox"), mcp_text(x->arguments, "checkpoint")),
                                     sandbox_of(sandbox), 0);
        }
        mcp_errand_free(errand);
}

static void remove_earlier(struct mcp_errand *errand);

static void on_renamed(struct mcp_errand *errand, const struct door_reply *reply)
{
        if (!reply->e)
                answer_rollback(errand, reply->result);
        else if (++errand->tries < RENAMES)
                remove_earlier(errand);
        else
                fail_rollback(errand, reply->e);
}

static void on_removed(struct mcp_errand *errand, const struct door_reply *reply)
{
        swap_names(errand);
        if (reply->e)
                fail_rollback(errand, reply->e);
        else
                mcp_errand_call(errand, "sandbox.rename", json_pack("{s:s}", "name", errand->target), on_renamed);
}

static void remove_earlier(struct mcp_errand *errand)
{
        swap_names(errand);
        mcp_errand_call(errand, "sandbox.delete", json_object(), on_removed);
}

static void on_restored(struct mcp_errand *errand, const struct door_reply *reply)
{
        const char *made = mcp_text(reply->result, "sandbox");
        struct cloche_err e = {0};

        errand->door.sandbox = made ? strdup(made) : NULL;
        if (errand->door.sandbox) {
                remove_earlier(errand);
                return;
        }
        if (!reply->e)
                err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "go back to a checkpoint");
        fail_rollback(errand, reply->e ? reply->e : &e);
}

void mcp_rollback(struct mcp_exchange *x)
{
        struct mcp_errand *errand = mcp_errand_new(&x->door);

        if (errand)
                errand->target = strdup(x->door.sandbox);
        if (!errand || !errand->target) {
                if (errand)
                        mcp_errand_free(errand);
                mcp_refuse(x, MCP_INTERNAL, "out of memory");
                return;
        }
        mcp_errand_answers(errand, x);
        mcp_errand_call(errand, "sandbox.create",
                        json_pack("{s:O}", "snapshot", json_object_get(x->arguments, "checkpoint")), on_restored);
}

/* -- ports ------------------------------------------------------------------------------------------------------- */

static void on_exposed(struct mcp_exchange *x, const struct door_reply *reply)
{
        json_t *url = json_object_get(reply->result, "url");

        mcp_tool_answer_text(x, json_incref(url), json_pack("{s:O}", "url", url), 0);
}

void mcp_expose_port(struct mcp_exchange *x)
{
        if (x->door.daemon->options.preview_host)
                mcp_call(x, "port.expose", json_pack("{s:O}", "port", json_object_get(x->arguments, "port")), NULL,
                         on_exposed);
        else
                mcp_tool_answer_text(x,
                                     json_string("no URL can lead to a port: the daemon was started without "
                                                 "--preview-host"),
                                     NULL, 1);
}
