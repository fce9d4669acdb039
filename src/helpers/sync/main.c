/* cloche-sync: write a box's changes to the host's directory. Runs in: its own process, as the
 * owner of the directory, outside any box.
 *
 *     cloche-sync ROOT_FD CONTENTS_FD CONTROL_FD
 *
 * ROOT_FD is the host's directory. CONTENTS_FD is a directory of numbered files, opened for reading
 * only, or one file with all contents. CONTROL_FD is a stream socket to the engine (README.md); the
 * process exits when it closes. */
#include "answer.h"
#include "settings.h"

#include "base/err.h"
#include "base/fd.h"
#include "jail/caps.h"
#include "jail/filter/landlock.h"
#include "wire/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROOT_FD = 3, CONTENTS_FD, CONTROL_FD, FD_END };

struct sync {
        struct server server;
        struct sync_settings settings;
        struct sync_list list; /* pages received of a request with `more` */
        const char *list_of;
};

/* -- process setup -------------------------------------------------------------------------------------------- */

static int restrict_files(const struct sync_settings *settings, int has_directory, int *ret_abi, struct cloche_err *e)
{
        const struct landlock_place places[] = {{ROOT_FD, LANDLOCK_TREE}, {CONTENTS_FD, 0}};
        int r = landlock_enter(places, has_directory ? 2 : 1, ret_abi, e);

        /* Before ABI 2 Landlock forbids moves between directories. */
        if (r == 0 && *ret_abi < 2)
                return err_set(e, CLOCHE_E_GUARD_MISSING, "landlock: ABI %d of this kernel, expected at least 2",
                               *ret_abi);
        if (r == -CLOCHE_E_GUARD_MISSING && settings->landlock_optional) {
                *ret_abi = 0;
                return 0;
        }
        return r;
}

/* -- requests ------------------------------------------------------------------------------------------------- */

static int handle_configure(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct sync *sync = argument;
        int abi = 0, r = sync_settings_load(params, &sync->settings, e);
        struct stat st;

        if (r == 0 && (fstat(ROOT_FD, &st) < 0 || !S_ISDIR(st.st_mode)))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "ROOT_FD: expected a directory");
        if (r == 0 && (fstat(CONTENTS_FD, &st) < 0 || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "CONTENTS_FD: expected a directory, or one file");
        if (r == 0)
                r = restrict_files(&sync->settings, S_ISDIR(st.st_mode), &abi, e);
        if (r < 0)
                return r;
        ret->result = json_pack("{s:i, s:b}", "landlock", abi, "journal",
                                faccessat(ROOT_FD, STAGE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
        return 0;
}

static int handle_recover(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        static const char *const members[] = {NULL};
        struct recovery recovery = {0};
        int r = settings_check_members(params, members, e);

        (void)argument;
        if (r == 0)
                r = transaction_recover(ROOT_FD, 0, &recovery, e); /* a running sync recovers by itself */
        if (r == 0)
                ret->result = answer_recovery(&recovery);
        recovery_done(&recovery);
        return r;
}

/* Add a page of changes. 1: the list is complete; 0: more pages follow. */
static int take_page(struct sync *sync, const char *method, const json_t *params, struct cloche_err *e)
{
        static const char *const members[] = {"changes", "decisions", "more", NULL};
        const json_t *more = json_object_get(params, "more");
        int r = settings_check_members(params, members, e);

        if (r == 0 && more && !json_is_boolean(more))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "more: expected true or false");
        if (r == 0 && json_is_true(more) && json_object_get(params, "decisions"))
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "decisions: expected with the last page only");
        if (r == 0 && sync->list_of && sync->list_of != method)
                r = err_set(e, CLOCHE_E_STATE, "%s: pages of %s have come before", method, sync->list_of);
        if (r == 0)
                r = list_add(&sync->list, json_object_get(params, "changes"), e);
        if (r == 0 && json_is_true(more)) {
                sync->list_of = method;
                return 0;
        }
        sync->list_of = NULL;
        if (r == 0)
                r = list_close(&sync->list, e);
        if (r < 0)
                list_done(&sync->list);
        return r < 0 ? r : 1;
}

static bool is_cancelled(void *argument)
{
        return server_is_cancelled(argument);
}

static void send_progress(struct server *server, const struct transaction *t)
{
        size_t total = 0, done = 0;

        for (uint32_t i = 0; i < t->plan->list->count; i++)
                total += answer_has_progress(t->plan, i);
        for (uint32_t i = 0; i < t->plan->list->count; i++)
                if (answer_has_progress(t->plan, i))
                        (void)server_notify(server, "progress", answer_progress(t, i, ++done, total));
}

static int plan_only(struct sync *sync, struct plan *plan, json_t **ret, struct cloche_err *e)
{
        int r = plan_evaluate(plan, e);

        (void)sync;
        if (r == 0)
                *ret = answer_plan(plan);
        return r;
}

static int plan_and_apply(struct sync *sync, struct plan *plan, json_t **ret, struct cloche_err *e)
{
        struct transaction t = {
                .plan = plan,
                .root_fd = ROOT_FD,
                .contents_fd = CONTENTS_FD,
                .is_cancelled = is_cancelled,
                .argument = &sync->server,
        };
        int r = transaction_run(&t, e);

        if (r == 0) {
                send_progress(&sync->server, &t);
                *ret = answer_apply(&t);
        }
        transaction_done(&t);
        return r;
}

static int with_plan(struct sync *sync, const json_t *decisions, json_t **ret, struct cloche_err *e,
                     int (*work)(struct sync *sync, struct plan *plan, json_t **ret, struct cloche_err *e))
{
        const struct sync_settings *s = &sync->settings;
        struct recovery recovery = {0};
        struct plan plan = {0};
        int r = transaction_recover(ROOT_FD, STAGE_PATIENCE_MS, &recovery, e);

        if (r == 0)
                r = plan_init(&plan, &sync->list, s->rules, ROOT_FD, s->policy, s->on_error, s->links_inside, e);
        if (r == 0)
                r = plan_decide(&plan, decisions, e);
        if (r == 0)
                r = work(sync, &plan, ret, e);
        if (r == 0 && recovery.state != RECOVERY_NONE)
                json_object_set_new(*ret, "recovered", answer_recovery(&recovery));
        plan_done(&plan);
        recovery_done(&recovery);
        list_done(&sync->list);
        return r;
}

static int handle_plan(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct sync *sync = argument;
        int r = take_page(sync, "plan", params, e);

        if (r <= 0) {
                ret->result = r < 0 ? NULL : json_pack("{s:I}", "received", (json_int_t)sync->list.count);
                return r;
        }
        return with_plan(sync, json_object_get(params, "decisions"), &ret->result, e, plan_only);
}

static int handle_apply(void *argument, const json_t *params, struct server_reply *ret, struct cloche_err *e)
{
        struct sync *sync = argument;
        int r = take_page(sync, "apply", params, e);

        if (r <= 0) {
                ret->result = r < 0 ? NULL : json_pack("{s:I}", "received", (json_int_t)sync->list.count);
                return r;
        }
        return with_plan(sync, json_object_get(params, "decisions"), &ret->result, e, plan_and_apply);
}

static const struct server_method methods[] = {
        {"configure", SERVER_OPENS, handle_configure},
        {"recover", SERVER_AFTER, handle_recover},
        {"plan", SERVER_AFTER, handle_plan},
        {"apply", SERVER_AFTER, handle_apply},
        {NULL, SERVER_ALWAYS, NULL},
};

int main(int argc, char **argv)
{
        static struct sync sync;
        const struct server_options options = {
                .methods = methods,
                .argument = &sync,
                .request_bytes_max = FRAME_JSON_BYTES_MAX,
                .reply_bytes_max = FRAME_BYTES_MAX,
                .notify_bytes_max = FRAME_BYTES_MAX,
                .batch_bytes = 256u << 10,
        };

        if (argc != 4 || fd_arrange(argv + 1, FD_END - ROOT_FD, ROOT_FD) < 0) {
                fprintf(stderr, "usage: cloche-sync ROOT_FD CONTENTS_FD CONTROL_FD\n");
                return 2;
        }
        if (caps_give_up() < 0) {
                perror("cloche-sync: drop privilege");
                return 1;
        }
        signal(SIGPIPE, SIG_IGN);
        umask(0);
        server_init(&sync.server, CONTROL_FD, &options);
        server_run(&sync.server);
        server_done(&sync.server);
        list_done(&sync.list);
        sync_settings_done(&sync.settings);
        return 0;
}
