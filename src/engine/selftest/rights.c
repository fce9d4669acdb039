/* Trials of the rights of set-up code and of contexts that can be forked: cloche-probe plays both,
 * in boxes like theirs.
 *
 *   base ── fork ──▶ prefix: set-up code ── fork ──▶ context ── fork ──▶ a run
 *                                        └─ fork ──▶ a run
 *
 * Each tries in its own box and, on the request to fork its first child, in the box of that
 * child. */
#include "probe.h"

#include "base/err.h"
#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BOXES_MAX 5

/* Boxes, each on an earlier one. */
struct tree {
        cloche_engine *engine;
        struct box boxes[BOXES_MAX];
        size_t count;
        int null_fd, channel_fd; /* borrowed */
};

struct notes {
        struct cloche_right_report *rows;
        enum cloche_right_holder holder;
};

/* Handle a line "right\topen|refused\tthe ways". */
static void note(void *data, char *line)
{
        struct notes *notes = data;
        const char *name = strsep(&line, "\t"), *state = strsep(&line, "\t");

        for (int right = 0; line && right < CLOCHE_RIGHT_COUNT; right++) {
                struct cloche_right_trial *trial = &notes->rows[right].trials[notes->holder];

                if (strcmp(name, notes->rows[right].name) != 0 || trial->seen[0])
                        continue;
                trial->is_open = strcmp(state, "open") == 0;
                snprintf(trial->seen, sizeof(trial->seen), "%s", line);
        }
}

static int add_box(struct tree *tree, uint32_t parent, int is_template, struct box **ret, struct cloche_err *e)
{
        int r = probe_make_box(tree->engine, parent, is_template, &tree->boxes[tree->count], e);

        if (r == 0)
                *ret = &tree->boxes[tree->count++];
        return r;
}

static int start_base(struct tree *tree, struct box **ret, struct cloche_err *e)
{
        int r = add_box(tree, KEEPER_NO_BOX, 1, ret, e);

        if (r < 0)
                return r;
        r = probe_spawn(tree->engine, *ret,
                        (int[]){tree->null_fd, tree->null_fd, tree->null_fd, tree->channel_fd, (*ret)->fork_fd}, 5, e);
        fd_close(&(*ret)->fork_fd);
        return r;
}

/* Fork a child that prints nothing and exits; the request makes a template try the remaining
 * rights. */
static int fork_run(struct tree *tree, const struct box *parent, struct cloche_err *e)
{
        struct box *box;
        int r = add_box(tree, parent->id, 0, &box, e);

        return r < 0 ? r
                     : probe_fork(tree->engine, box,
                                  (int[]){tree->null_fd, tree->null_fd, tree->null_fd, tree->channel_fd}, 4, e);
}

static int fork_template(struct tree *tree, const struct box *parent, int write_fd, struct box **ret,
                         struct cloche_err *e)
{
        int r = add_box(tree, parent->id, 1, ret, e);

        if (r < 0)
                return r;
        r = probe_fork(tree->engine, *ret,
                       (int[]){tree->null_fd, write_fd, tree->null_fd, tree->channel_fd, (*ret)->fork_fd}, 5, e);
        fd_close(&(*ret)->fork_fd);
        return r;
}

static int check_tried(const struct notes *notes, struct cloche_err *e)
{
        static const char *const names[] =
                {[CLOCHE_HOLDER_SET_UP] = "set-up code", [CLOCHE_HOLDER_CONTEXT] = "a context"};
        char missed[160] = "";
        size_t size = 0;

        for (int right = 0; right < CLOCHE_RIGHT_COUNT && size < sizeof(missed); right++)
                if (!notes->rows[right].trials[notes->holder].seen[0])
                        size += (size_t)snprintf(missed + size, sizeof(missed) - size, "%s%s", size ? ", " : "",
                                                 notes->rows[right].name);
        return size == 0 ? 0
                         : err_set(e, CLOCHE_E_STATE, "%s could not try whether it has these rights: %s",
                                   names[notes->holder], missed);
}

/* Start a template on the parent that tries everything. */
static int try_holder(struct tree *tree, const struct box *parent, struct notes *notes, struct box **ret,
                      struct cloche_err *e)
{
        _cleanup_probe_streams_ struct probe_streams streams = PROBE_STREAMS_INIT;
        int r = probe_streams_open(&streams, e);

        if (r == 0)
                r = fork_template(tree, parent, streams.write_fd, ret, e);
        fd_close(&streams.write_fd);
        if (r == 0)
                r = fork_run(tree, *ret, e);
        if (r == 0)
                r = probe_read(streams.read_fd, note, notes, e);
        return r == 0 ? check_tried(notes, e) : r;
}

static int try_both(struct tree *tree, struct cloche_right_report *rows, struct cloche_err *e)
{
        struct notes set_up = {.rows = rows, .holder = CLOCHE_HOLDER_SET_UP},
                     context = {.rows = rows, .holder = CLOCHE_HOLDER_CONTEXT};
        struct box *base, *prefix, *last;
        int r = start_base(tree, &base, e);

        if (r == 0)
                r = try_holder(tree, base, &set_up, &prefix, e);
        return r == 0 ? try_holder(tree, prefix, &context, &last, e) : r;
}

/* Return the first error. */
static int drop_tree(struct tree *tree, int r, struct cloche_err *e)
{
        while (tree->count > 0) {
                int dropped = probe_drop(tree->engine, &tree->boxes[--tree->count], r < 0 ? NULL : e);

                r = r < 0 ? r : dropped;
        }
        return r;
}

#define MAY 1
#define MAY_NOT 0

int cloche_engine_rights(cloche_engine *engine, struct cloche_right_report *ret, struct cloche_err *e)
{
        static const struct cloche_right_report rows[CLOCHE_RIGHT_COUNT] = {
#define CLOCHE_RIGHT(symbol, row_name, set_up, context, row_doc) \
        [CLOCHE_RIGHT_##symbol] =                                \
                {.name = row_name,                               \
                 .doc = row_doc,                                 \
                 .trials = {[CLOCHE_HOLDER_SET_UP] = {.may = set_up}, [CLOCHE_HOLDER_CONTEXT] = {.may = context}}},
#include <cloche/rights.def>
#undef CLOCHE_RIGHT
        };
        _cleanup_fd_ int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC), engine_fd = -EBADF, channel_fd = -EBADF;
        struct tree tree = {.engine = engine, .null_fd = null_fd};
        int pair[2];

        if (null_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, errno, "make a channel");
        engine_fd = pair[0];
        channel_fd = tree.channel_fd = pair[1];
        memcpy(ret, rows, sizeof(rows));
        return drop_tree(&tree, try_both(&tree, ret, e), e);
}
