/* Tasks (io.modelcontextprotocol/tasks): a call of a tool that runs for long is answered by a task,
 * and goes on; the client asks for its result later. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define EXTENSION "io.modelcontextprotocol/tasks"
#define LONG_NS UINT64_C(10000000000) /* a call that runs longer becomes a task */
#define TTL_MS 7200000                /* of a task, from its beginning; a tool runs for at most half of it */
#define POLL_MS 1000
#define TASKS_MAX 64               /* of a caller: the next calls are answered when they end */
#define OUTCOMES_BYTES (32u << 20) /* of all tasks of a caller; the oldest are forgotten */

enum status { WORKING, COMPLETED, FAILED, CANCELLED };

struct mcp_task {
        TAILQ_ENTRY(mcp_task) link;
        struct mcp *mcp;
        int64_t principal;
        char id[MCP_SESSION_SIZE];
        struct mcp_exchange *x; /* NULL: it has ended */
        enum status status;
        json_t *outcome; /* result or error, as a member of the message */
        size_t outcome_bytes;
        json_t *created, *updated;
        uint64_t end_ns; /* of its time */
};

static void task_free(struct mcp_task *task)
{
        TAILQ_REMOVE(&task->mcp->tasks, task, link);
        if (task->x)
                mcp_exchange_free(task->x);
        json_decref(task->outcome);
        json_decref(task->created);
        json_decref(task->updated);
        free(task);
}

void mcp_tasks_free(struct mcp *mcp)
{
        while (!TAILQ_EMPTY(&mcp->tasks))
                task_free(TAILQ_FIRST(&mcp->tasks));
}

static json_t *now_text(void)
{
        char text[CLOCK_TEXT_SIZE] = "";
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        (void)clock_write_utc(text, now);
        return json_string(text);
}

static void end(struct mcp_task *task, enum status status)
{
        struct mcp_exchange *x = task->x;

        task->status = status;
        task->x = NULL;
        json_decref(task->updated);
        task->updated = now_text();
        mcp_exchange_free(x);
}

/* The newest one stays, whatever it has. */
static void forget_outcomes(const struct mcp_task *newest)
{
        struct mcp_task *task, *before;
        size_t bytes = newest->outcome_bytes;

        for (task = TAILQ_LAST(&newest->mcp->tasks, mcp_tasks); task; task = before) {
                before = TAILQ_PREV(task, mcp_tasks, link);
                if (task == newest || task->x || task->principal != newest->principal)
                        continue;
                bytes += task->outcome_bytes;
                if (bytes > OUTCOMES_BYTES)
                        task_free(task);
        }
}

/* -- the carrier ------------------------------------------------------------------------------------------------- */

static void answer(struct mcp_exchange *x, unsigned status, json_t *message)
{
        struct mcp_task *task = x->carried;
        json_t *result = json_object_get(message, "result"), *error = json_object_get(message, "error");

        (void)status;
        json_object_del(result, "resultType");
        task->outcome = result ? json_pack("{s:O}", "result", result) : json_pack("{s:O*}", "error", error);
        json_decref(message);
        task->outcome_bytes = json_dumpb(task->outcome, NULL, 0, JSON_COMPACT);
        end(task, result ? COMPLETED : FAILED);
        forget_outcomes(task);
}

static int notify(struct mcp_exchange *x, json_t *message)
{
        (void)x;
        json_decref(message);
        return 0;
}

/* -- the beginning ----------------------------------------------------------------------------------------------- */

static int is_capable(const struct mcp_exchange *x)
{
        return x->is_modern &&
               json_is_object(json_object_get(json_object_get(mcp_capabilities(x), "extensions"), EXTENSION));
}

/* Tasks whose time is over are forgotten. */
static size_t count_of(const struct mcp_exchange *x)
{
        struct mcp_task *task, *next;
        uint64_t now_ns = clock_now_ns();
        size_t count = 0;

        for (task = TAILQ_FIRST(&x->door.daemon->mcp->tasks); task; task = next) {
                next = TAILQ_NEXT(task, link);
                if (now_ns >= task->end_ns)
                        task_free(task);
                else
                        count += task->principal == x->door.principal;
        }
        return count;
}

static json_t *describe(const struct mcp_task *task)
{
        static const char *const statuses[] = {"working", "completed", "failed", "cancelled"};

        return json_pack("{s:s, s:s, s:O, s:O, s:i, s:i}", "taskId", task->id, "status", statuses[task->status],
                         "createdAt", task->created, "lastUpdatedAt", task->updated, "ttlMs", TTL_MS, "pollIntervalMs",
                         POLL_MS);
}

/* The message stays, with the task as its carrier; a stand-in of it takes the answer. */
void mcp_task_begin(struct mcp_exchange *x)
{
        static const struct mcp_carrier carrier = {.answer = answer, .notify = notify};
        struct mcp_task *task = count_of(x) < TASKS_MAX ? calloc(1, sizeof(*task)) : NULL;
        struct mcp_exchange *stand_in =
                task ? mcp_exchange_new(x->door.daemon, x->carrier, x->carried, x->door.principal) : NULL;
        json_t *result;

        if (!stand_in) {
                free(task);
                return;
        }
        *task = (struct mcp_task){.mcp = x->door.daemon->mcp,
                                  .principal = x->door.principal,
                                  .x = x,
                                  .created = now_text(),
                                  .updated = now_text(),
                                  .end_ns = clock_now_ns() + UINT64_C(1000000) * TTL_MS};
        mcp_random_id(task->id);
        TAILQ_INSERT_TAIL(&task->mcp->tasks, task, link);
        stand_in->message = json_incref(x->message);
        stand_in->id = x->id;
        stand_in->is_modern = 1;
        stand_in->method = x->method;
        x->carrier->adopt(stand_in);
        x->carrier = &carrier;
        x->carried = task;
        /* These are of the request that brought it, which ends now. */
        x->connection = 0;
        x->session = NULL;
        x->tools = NULL;
        x->sandbox = "default";
        x->progress_token = NULL;
        result = describe(task);
        json_object_set_new(result, "resultType", json_string("task"));
        mcp_answer(stand_in, result);
}

void mcp_task_expect(struct mcp_exchange *x)
{
        if (!is_capable(x))
                return;
        x->task_ns = clock_now_ns() + LONG_NS;
        mcp_watch_clock(x->door.daemon->mcp);
}

json_t *mcp_task_extension(void)
{
        return json_pack("{s:{}}", EXTENSION);
}

/* -- methods ----------------------------------------------------------------------------------------------------- */

/* NULL: the request is refused. */
static struct mcp_task *find(struct mcp_exchange *x)
{
        const char *id = mcp_text(x->params, "taskId");
        struct mcp_task *task;

        if (!is_capable(x)) {
                mcp_refuse_with(x, 400, MCP_NO_CAPABILITY,
                                json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", EXTENSION),
                                "the client must have the extension " EXTENSION " for this request");
                return NULL;
        }
        (void)count_of(x);
        TAILQ_FOREACH (task, &x->door.daemon->mcp->tasks, link)
                if (id && strcmp(task->id, id) == 0 && task->principal == x->door.principal)
                        return task;
        mcp_refuse(x, MCP_BAD_PARAMS, "there is no such task");
        return NULL;
}

void mcp_on_task_get(struct mcp_exchange *x)
{
        const struct mcp_task *task = find(x);
        json_t *result;

        if (!task)
                return;
        result = describe(task);
        json_object_update(result, task->outcome);
        mcp_answer(x, result);
}

/* No tool asks once it is a task. */
void mcp_on_task_update(struct mcp_exchange *x)
{
        if (find(x))
                mcp_answer(x, json_object());
}

void mcp_on_task_cancel(struct mcp_exchange *x)
{
        struct mcp_task *task = find(x);

        if (!task)
                return;
        if (task->x)
                end(task, CANCELLED);
        mcp_answer(x, json_object());
}
