/* cloche top: sandboxes and their use, live. It looks only at lists, which wake no sandbox.
 * Runs in: the CLI, as its user. */
#include "rows.h"
#include "screen.h"

#include "base/clock.h"
#include "cli/options/options.h"
#include "cli/output/columns.h"
#include "cli/output/print.h"
#include "cli/output/signals.h"
#include "cli/output/style.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_NS UINT64_C(1000000000)
#define NAME_BYTES 80
#define KEYS_MAX 64
#define HELP "q quit  c m d p n a u s sort  r reverse  up down choose  Enter look into it"
#define HELP_IN "q quit  Esc back"

enum asked { ASKED_NOTHING, ASKED_LIST, ASKED_PROCESSES, ASKED_CONTEXTS };

struct top {
        struct daemon_client client;
        struct screen screen;
        const struct top_order *order;
        int is_reversed, has_colours;
        json_t *before, *rows, *processes, *contexts; /* rows: NULL until the first answer */
        uint64_t answered_ns, next_ns;
        enum asked asked;
        json_int_t id;
        char chosen[NAME_BYTES]; /* the sandbox; "": none yet */
        int is_looking, is_stale;
        char seen[NAME_BYTES]; /* the use of the chosen sandbox that its lists show; "": they were not asked for */
        int is_seen_next;      /* the next list tells of it: our own requests were a use, too */
        char message[256];     /* instead of the help; "": none */
        int is_over, code;
        struct cloche_err e; /* printed after the screen was left */
};

/* -- snapshots ------------------------------------------------------------------------------------------------ */

static json_t *list_params(void)
{
        return json_pack("{s:b}", "sample", 1);
}

/* Leave only the named sandbox. */
static int keep_only(json_t *rows, const char *name)
{
        for (size_t i = json_array_size(rows); name && i > 0; i--)
                if (strcmp(sandbox_text(json_array_get(rows, i - 1), "sandbox"), name) != 0)
                        json_array_remove(rows, i - 1);
        if (!name || json_array_size(rows) > 0)
                return 0;
        return cli_bad("there is no sandbox \"%s\" (cloche sandbox ls lists them)", name);
}

/* Take the rows now; 0, or an exit code. */
static int take_rows(struct top *t, json_t **ret)
{
        json_t *answer = NULL;
        int code = sandbox_request(&t->client, "sandbox.list", list_params(), &answer);
        uint64_t now_ns = clock_now_ns();

        if (code)
                return code;
        *ret = top_rows(answer, t->before, t->answered_ns ? now_ns - t->answered_ns : 0);
        t->answered_ns = now_ns;
        top_sort(*ret, t->order, t->is_reversed);
        json_decref(answer);
        return 0;
}

static void print_rows_of(const struct cli_request *request, json_t *rows)
{
        char time[CLOCK_TEXT_SIZE];
        json_t *line;

        if (!request->json) {
                TABLE_PRINT(top_columns, rows, 0);
                return;
        }
        line = json_pack("{s:s, s:O}", "time", clock_text_now(time), "sandboxes", rows);
        sandbox_print_json(line);
        json_decref(line);
}

/* The processor's share needs two looks. A line of JSON each second, unless one is wanted. */
static int print_snapshots(const struct cli_request *request, struct top *t)
{
        int is_once = request->sandbox.is_once || !request->json, code;
        json_t *rows = NULL;

        code = take_rows(t, &rows);
        do {
                json_decref(rows);
                rows = NULL;
                if (code == 0)
                        (void)poll(NULL, 0, (int)(INTERVAL_NS / 1000000));
                if (code == 0)
                        code = take_rows(t, &rows);
                if (code == 0)
                        code = keep_only(rows, request->positional[0]);
                if (code == 0)
                        print_rows_of(request, rows);
        } while (code == 0 && !is_once);
        json_decref(rows);
        return code;
}

/* -- drawing -------------------------------------------------------------------------------------------------- */

static void draw_line(struct top *t, FILE *out, const char *text, enum style style)
{
        fputs(style_begin(style, t->has_colours), out);
        (void)table_write_cut(out, text, t->screen.cols);
        fprintf(out, "%s" SCREEN_END_OF_LINE "\n", style_end(style, t->has_colours));
}

static size_t place_of(const struct top *t)
{
        for (size_t i = 0; i < json_array_size(t->rows); i++)
                if (strcmp(sandbox_text(json_array_get(t->rows, i), "sandbox"), t->chosen) == 0)
                        return i;
        return SIZE_MAX;
}

static struct table_look look_of(const struct top *t, size_t lines)
{
        return (struct table_look){.has_colours = t->has_colours,
                                   .width = t->screen.cols,
                                   .end_of_line = SCREEN_END_OF_LINE,
                                   .count = lines,
                                   .chosen = SIZE_MAX};
}

/* The help is the last line, and has no newline, which would scroll. */
static void draw_end(struct top *t, FILE *out, const char *help)
{
        char *text = NULL;
        size_t size = 0;
        FILE *escaped = open_memstream(&text, &size);

        print_name(escaped, t->message[0] ? t->message : help);
        if (fclose(escaped) != 0)
                abort(); /* out of memory */
        (void)table_write_cut(out, text, t->screen.cols);
        fputs("\033[K", out);
        free(text);
}

static void draw_summary(struct top *t, FILE *out)
{
        char text[120];
        size_t running = 0, i;
        const json_t *row;

        json_array_foreach (t->rows, i, row)
                running += strcmp(sandbox_text(row, "state"), "running") == 0;
        snprintf(text, sizeof(text), "%zu sandboxes, %zu running%s", json_array_size(t->rows), running,
                 t->is_stale ? "; the daemon does not answer" : "");
        draw_line(t, out, text, STYLE_NONE);
}

static void draw_list(struct top *t, FILE *out)
{
        size_t lines = t->screen.rows > 3 ? t->screen.rows - 3 : 1, place = place_of(t);
        struct table_look look = look_of(t, lines);

        draw_summary(t, out);
        look.sorted = t->order->heading;
        look.chosen = place;
        look.from = place != SIZE_MAX && place >= lines ? place - lines + 1 : 0;
        if (json_array_size(t->rows) > 0)
                table_write(out, top_columns, TOP_COLUMNS, t->rows, &look);
        draw_end(t, out, HELP);
}

static void draw_part(struct top *t, FILE *out, const struct table_column *columns, size_t count, const json_t *rows,
                      const char *none, size_t lines)
{
        struct table_look look = look_of(t, lines);

        if (json_array_size(rows) == 0)
                draw_line(t, out, none, STYLE_PAST);
        else
                table_write(out, columns, count, rows, &look);
}

/* The sandbox's own row, its processes and its contexts, each with half of the screen. */
static void draw_inside(struct top *t, FILE *out)
{
        size_t lines = t->screen.rows > 8 ? (t->screen.rows - 7) / 2 : 1;
        json_t *own = json_pack("[O*]", json_array_get(t->rows, place_of(t)));

        draw_part(t, out, top_columns, TOP_COLUMNS, own, "", 1);
        draw_line(t, out, "", STYLE_NONE);
        draw_part(t, out, columns_of_processes, COLUMNS_OF_PROCESSES, t->processes, "no processes", lines);
        draw_line(t, out, "", STYLE_NONE);
        draw_part(t, out, columns_of_contexts, COLUMNS_OF_CONTEXTS, t->contexts, "no contexts", lines);
        draw_end(t, out, HELP_IN);
        json_decref(own);
}

static void draw(struct top *t)
{
        FILE *out = t->rows ? screen_begin(&t->screen) : NULL;

        if (!out)
                return;
        (t->is_looking ? draw_inside : draw_list)(t, out);
        screen_finish(&t->screen);
}

/* -- keys ----------------------------------------------------------------------------------------------------- */

static void choose(struct top *t, size_t place)
{
        const json_t *row = json_array_get(t->rows, place);

        if (row)
                snprintf(t->chosen, sizeof(t->chosen), "%s", sandbox_text(row, "sandbox"));
}

static void move(struct top *t, int by)
{
        size_t place = place_of(t), count = json_array_size(t->rows);

        if (place == SIZE_MAX)
                choose(t, 0);
        else if (by > 0 ? place + 1 < count : place > 0)
                choose(t, by > 0 ? place + 1 : place - 1);
}

static void look_into(struct top *t, int is_looking)
{
        if (is_looking && place_of(t) == SIZE_MAX)
                return;
        t->is_looking = is_looking;
        json_decref(t->processes);
        json_decref(t->contexts);
        t->processes = t->contexts = NULL;
        t->seen[0] = '\0';
        t->is_seen_next = 0;
        t->next_ns = 0; /* ask at once */
}

static void sort_by(struct top *t, int key)
{
        const struct top_order *order = top_order_of_key(key);

        if (key == 'r')
                t->is_reversed = !t->is_reversed;
        else if (order)
                t->order = order;
        top_sort(t->rows, t->order, t->is_reversed);
}

static void press(struct top *t, int key)
{
        t->message[0] = '\0';
        if (key == 'q')
                t->is_over = 1;
        else if (!t->rows)
                return;
        else if (t->is_looking && key != SCREEN_BACK)
                return;
        else if (t->is_looking)
                look_into(t, 0);
        else if (key == SCREEN_ENTER)
                look_into(t, 1);
        else if (key == SCREEN_UP || key == SCREEN_DOWN)
                move(t, key == SCREEN_UP ? -1 : 1);
        else
                sort_by(t, key);
}

/* -- the daemon ----------------------------------------------------------------------------------------------- */

static int ask(struct top *t, enum asked asked)
{
        static const char *const methods[] = {
                [ASKED_LIST] = "sandbox.list",
                [ASKED_PROCESSES] = "process.list",
                [ASKED_CONTEXTS] = "context.list",
        };
        json_t *params = asked == ASKED_LIST ? list_params() : json_pack("{s:s}", "sandbox", t->chosen);

        t->asked = asked;
        return daemon_request(&t->client, methods[asked], params, NULL, 0, &t->id, &t->e);
}

static void take_list(struct top *t, const json_t *answer)
{
        uint64_t now_ns = clock_now_ns();

        json_decref(t->rows);
        t->rows = top_rows(answer, t->before, t->answered_ns ? now_ns - t->answered_ns : 0);
        t->answered_ns = now_ns;
        top_sort(t->rows, t->order, t->is_reversed);
        if (!t->chosen[0])
                choose(t, 0);
        if (t->is_looking && place_of(t) == SIZE_MAX) {
                snprintf(t->message, sizeof(t->message), "there is no sandbox %s any more", t->chosen);
                look_into(t, 0);
        }
}

static void take_part(json_t **part, const json_t *answer, const char *name)
{
        json_decref(*part);
        *part = json_incref(json_object_get(answer, name));
}

/* Each request is a use of the sandbox, which would then never be idle. So its lists are asked for
 * again only after a use that is not ours. */
static int is_used_anew(struct top *t)
{
        const json_t *row = json_array_get(t->rows, place_of(t));
        char now[NAME_BYTES];
        int is_new;

        snprintf(now, sizeof(now), "%s %lld %lld", sandbox_text(row, "lastUsedAt"),
                 (long long)json_integer_value(json_object_get(row, "processes")),
                 (long long)json_integer_value(json_object_get(row, "contexts")));
        is_new = !t->is_seen_next && strcmp(now, t->seen) != 0;
        t->is_seen_next = 0;
        memcpy(t->seen, now, sizeof(now));
        return is_new;
}

/* A list of a sandbox that does not exist would make it: only one that the list before had is
 * asked. */
static int take_answer(struct top *t, const json_t *answer)
{
        enum asked asked = t->asked;

        t->asked = ASKED_NOTHING;
        t->is_stale = 0;
        if (asked == ASKED_LIST)
                take_list(t, answer);
        if (asked == ASKED_LIST && t->is_looking && is_used_anew(t))
                return ask(t, ASKED_PROCESSES);
        if (asked == ASKED_PROCESSES && t->is_looking) {
                take_part(&t->processes, answer, "processes");
                return ask(t, ASKED_CONTEXTS);
        }
        if (asked == ASKED_CONTEXTS && t->is_looking) {
                take_part(&t->contexts, answer, "contexts");
                t->is_seen_next = 1;
        }
        draw(t);
        return 0;
}

static int take_message(struct top *t, struct daemon_message *message)
{
        json_t *answer = NULL;
        int r = 0;

        if (message->id != t->id || message->kind == DAEMON_EVENT)
                return 0;
        if (message->kind == DAEMON_FAILURE) {
                snprintf(t->message, sizeof(t->message), "%s", message->e.msg);
                t->asked = ASKED_NOTHING;
                draw(t);
                return 0;
        }
        r = daemon_text_form(message, &answer, &t->e);
        if (r == 0)
                r = take_answer(t, answer);
        json_decref(answer);
        return r;
}

static int take_messages(struct top *t)
{
        struct daemon_message message = {0};
        int r;

        while ((r = daemon_next(&t->client, &message, &t->e)) > 0) {
                r = take_message(t, &message);
                daemon_message_done(&message);
                if (r < 0)
                        return r;
        }
        return r;
}

/* -- the loop ------------------------------------------------------------------------------------------------- */

static void take_keys(struct top *t)
{
        int keys[KEYS_MAX], count = screen_keys(keys, KEYS_MAX);

        if (count < 0)
                t->is_over = 1;
        for (int i = 0; i < count && !t->is_over; i++)
                press(t, keys[i]);
        draw(t);
}

static void take_signal(struct top *t)
{
        int number = screen_signal(&t->screen);

        if (number) {
                signals_note(number);
                t->is_over = 1;
                t->code = SIGNALS_CANCELLED;
        }
        draw(t);
}

/* Ask again when it is time. A daemon that has not answered in that time is reported, not asked. */
static int tick(struct top *t)
{
        uint64_t now_ns = clock_now_ns();

        if (now_ns < t->next_ns)
                return 0;
        t->next_ns = now_ns + INTERVAL_NS;
        if (t->asked == ASKED_NOTHING)
                return ask(t, ASKED_LIST);
        t->is_stale = 1;
        draw(t);
        return 0;
}

static int turn(struct top *t)
{
        uint64_t now_ns = clock_now_ns();
        int wait_ms = now_ns >= t->next_ns ? 0 : (int)((t->next_ns - now_ns) / 1000000) + 1;
        struct pollfd fds[] = {
                {.fd = STDIN_FILENO, .events = POLLIN},
                {.fd = t->screen.signal_fd, .events = POLLIN},
                {.fd = t->client.fd, .events = daemon_poll_events(&t->client)},
                {.fd = output_queue_fd(&t->screen.out), .events = POLLOUT},
        };
        int r = 0;

        if (poll(fds, 4, wait_ms) < 0)
                return errno == EINTR ? 0 : -errno;
        if (fds[3].revents && output_queue_write(&t->screen.out) < 0)
                t->is_over = 1;
        if (fds[1].revents)
                take_signal(t);
        if (fds[0].revents)
                take_keys(t);
        if (fds[2].revents)
                r = daemon_move(&t->client, fds[2].revents, &t->e);
        if (r == 0)
                r = take_messages(t);
        return r < 0 ? r : tick(t);
}

static int show(const struct cli_request *request, struct top *t)
{
        int code = request->positional[0] ? sandbox_require(&t->client, request->positional[0]) : 0, r = 0;

        if (code)
                return code;
        snprintf(t->chosen, sizeof(t->chosen), "%s", request->positional[0] ? request->positional[0] : "");
        t->is_looking = t->chosen[0] != '\0';
        code = screen_open(&t->screen);
        while (code == 0 && r == 0 && !t->is_over)
                r = turn(t);
        screen_close(&t->screen);
        if (r < 0)
                return t->e.code ? sandbox_fail(&t->e) : cli_bad("the terminal: %s", strerror(-r));
        return code ? code : t->code;
}

static int run(struct cli_request *request)
{
        struct top t = {.before = json_object(), .is_reversed = request->sandbox.is_reverse};
        const char *kind = getenv("TERM"), *order = request->sandbox.order ? request->sandbox.order : "cpu";
        int is_live = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0 &&
                      !request->sandbox.is_once && !request->json,
            code;

        t.order = top_order_of_name(order); /* one of the option's words */
        code = sandbox_open(request, &t.client);
        if (code)
                return code;
        t.has_colours = style_is_on(stdout);
        code = is_live ? show(request, &t) : print_snapshots(request, &t);
        daemon_close(&t.client);
        json_decref(t.before);
        json_decref(t.rows);
        json_decref(t.processes);
        json_decref(t.contexts);
        return code;
}

const struct cli_handler command_top = {
        .run = run,
        .positional_max = 1,
};
