/* cloche mcp: pass messages of the Model Context Protocol between standard input and output and a
 * daemon, which handles them. Runs in: the CLI, as its user. */
#include "cli/options/options.h"
#include "cli/output/output-queue.h"
#include "cli/sandbox/daemon-locate.h"
#include "cli/sandbox/daemon-private.h"
#include "connect.h"
#include "lines.h"

#include "base/clock.h"
#include "base/err.h"
#include "wire/json.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define WAITING_BYTES (16u << 20)   /* of our output, over which no more is read */
#define END_NS UINT64_C(2000000000) /* for requests that are under way when the input ends */
#define PARSE_ERROR (-32700)
#define INVALID_REQUEST (-32600)
#define INTERNAL_ERROR (-32603)

struct open_request {
        TAILQ_ENTRY(open_request) link;
        json_int_t number; /* to the daemon */
        json_t *id;        /* of the client; NULL: a notification */
};

struct bridge {
        const struct cli_request *request;
        struct daemon_client client;
        struct daemon_private daemon;
        int is_connected, is_private;
        char state_dir[PATH_MAX]; /* of the private daemon; "": none yet */
        TAILQ_HEAD(, open_request) open;
        struct lines lines;
        struct output_queue out;
        json_int_t listener; /* the request whose events answer none of the client's */
        json_t *tools;       /* names; NULL: all */
        uint64_t end_ns;     /* of the requests that are under way; 0: the input goes on */
};

/* -- the daemon -------------------------------------------------------------------------------------------------- */

/* Checkpoints of a private daemon. It empties the directory at its end. */
static int make_state(struct bridge *b, struct cloche_err *e)
{
        const char *parent = getenv("TMPDIR");

        if (b->state_dir[0])
                return 0;
        snprintf(b->state_dir, sizeof(b->state_dir), "%s/cloche-mcp-XXXXXX",
                 parent && *parent == '/' && strlen(parent) < PATH_MAX - 32 ? parent : "/tmp");
        if (mkdtemp(b->state_dir))
                return 0;
        b->state_dir[0] = '\0';
        return err_os(e, CLOCHE_E_RESOURCE, errno, "make a directory for checkpoints");
}

/* The directory of a daemon that was killed is not empty, and stays: another one has nothing of
 * it. */
static void leave_state(struct bridge *b)
{
        if (b->state_dir[0])
                (void)rmdir(b->state_dir);
        b->state_dir[0] = '\0';
}

static int open_private(struct bridge *b, struct cloche_err *e)
{
        const char *network = b->request->mcp.network, *image = b->request->mcp.image;
        const char *words[13] = {"--profile",   "user",       "--mcp-ask",    "--temporary-state",
                                 "--state-dir", b->state_dir, "--save-every", "0"};
        size_t count = 8;

        if (make_state(b, e) < 0)
                return -CLOCHE_E_RESOURCE;

        if (network) {
                words[count++] = "--network";
                words[count++] = network;
        }
        if (image) {
                words[count++] = "--image";
                words[count++] = image;
        }
        b->is_private = 1;
        return daemon_private_start(words, &b->daemon, &b->client, e);
}

static int open_named(struct bridge *b, struct cloche_err *e)
{
        char path[DAEMON_SOCKET_BYTES];
        int r = daemon_locate(b->request->sandbox.socket, LOCATE_ONLY, path, e);

        if (r == 0)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there is no daemon at that socket");
        return r < 0 ? r : daemon_open(path, 0, &b->client, e);
}

static int wants_private(const struct cli_request *request)
{
        return request->mcp.network || request->mcp.image;
}

/* An option wins over CLOCHE_SOCKET. */
static int is_named(const struct cli_request *request)
{
        return request->mcp.connect || request->sandbox.socket || (!wants_private(request) && daemon_is_named(NULL));
}

static int connect_daemon(struct bridge *b, struct cloche_err *e)
{
        int r = b->request->mcp.connect ? mcp_connect(b->request->mcp.connect, &b->client, e)
                : is_named(b->request)  ? open_named(b, e)
                                        : open_private(b, e);

        b->is_connected = r >= 0;
        return r < 0 ? r : daemon_request(&b->client, "mcp", json_object(), NULL, 0, &b->listener, e);
}

static void disconnect(struct bridge *b)
{
        if (!b->is_connected)
                return;
        b->is_connected = 0;
        if (b->is_private)
                daemon_private_stop(&b->daemon, &b->client);
        else
                daemon_close(&b->client);
}

/* -- output ------------------------------------------------------------------------------------------------------ */

static int put_line(struct bridge *b, const char *text, size_t size)
{
        return output_queue_put(&b->out, STDOUT_FILENO, text, size) < 0 ||
                               output_queue_put(&b->out, STDOUT_FILENO, "\n", 1) < 0
                       ? -ENOMEM
                       : 0;
}

/* id: borrowed, NULL: of no request. */
static int put_error(struct bridge *b, const json_t *id, int code, const char *message)
{
        json_t *error = json_pack("{s:s, s:O*, s:{s:i, s:o}}", "jsonrpc", "2.0", "id", id, "error", "code", code,
                                  "message", json_valid_text(message, strlen(message)));
        char *text = json_dump_text(error, JSON_COMPACT);
        int r = text ? put_line(b, text, strlen(text)) : -ENOMEM;

        free(text);
        json_decref(error);
        return r;
}

/* -- requests ---------------------------------------------------------------------------------------------------- */

static void open_request_free(struct bridge *b, struct open_request *open)
{
        TAILQ_REMOVE(&b->open, open, link);
        json_decref(open->id);
        free(open);
}

static struct open_request *find_open(const struct bridge *b, json_int_t number)
{
        struct open_request *open;

        TAILQ_FOREACH (open, &b->open, link)
                if (open->number == number)
                        return open;
        return NULL;
}

/* The daemon has ended: each request that is under way gets an error, and the next message another
 * daemon. */
static int lose(struct bridge *b, const struct cloche_err *e)
{
        struct open_request *open;
        char text[1200];
        int r = 0;

        disconnect(b);
        leave_state(b);
        snprintf(text, sizeof(text), "%s; %s", e->msg,
                 b->is_private ? "its sandboxes are gone, and the next request starts another"
                               : "the next request connects again");
        while ((open = TAILQ_FIRST(&b->open))) {
                if (open->id && r == 0)
                        r = put_error(b, open->id, INTERNAL_ERROR, text);
                open_request_free(b, open);
        }
        return r;
}

static int send_message(struct bridge *b, const char *line, size_t size, struct open_request *open,
                        struct cloche_err *e)
{
        const struct cli_request *q = b->request;
        int r = b->is_connected ? 0 : connect_daemon(b, e);

        return r < 0 ? r
                     : daemon_request(&b->client, "mcp",
                                      json_pack("{s:o, s:s*, s:O*, s:b}", "message", json_stringn(line, size),
                                                "sandbox", q->sandbox.sandbox, "tools", b->tools, "readOnly",
                                                q->mcp.is_read_only),
                                      NULL, 0, &open->number, e);
}

/* 0, or -ENOMEM. A message that is no JSON is not sent. */
static int take_line(struct bridge *b, const char *line, size_t size)
{
        struct open_request *open;
        struct cloche_err e = {0};
        json_t *message = NULL;
        int r;

        if (size == 0)
                return 0;
        if (json_load_text(line, size, &message, &e) < 0)
                return put_error(b, NULL, PARSE_ERROR, e.msg);
        open = calloc(1, sizeof(*open));
        if (!open) {
                json_decref(message);
                return -ENOMEM;
        }
        if (json_object_get(message, "method"))
                open->id = json_incref(json_object_get(message, "id"));
        json_decref(message);
        TAILQ_INSERT_TAIL(&b->open, open, link);
        if (send_message(b, line, size, open, &e) == 0)
                return 0;
        r = open->id ? put_error(b, open->id, INTERNAL_ERROR, e.msg) : 0;
        open_request_free(b, open);
        return r;
}

static int take_lines(struct bridge *b)
{
        const char *line;
        size_t size;
        int r = lines_read(&b->lines, STDIN_FILENO), got;

        while (r == 0 && (got = lines_next(&b->lines, &line, &size)) != 0)
                r = got > 0 ? take_line(b, line, size)
                            : put_error(b, NULL, INVALID_REQUEST, "the message has more than 64 MiB");
        if (r < 0 || b->lines.is_over)
                b->end_ns = clock_now_ns() + END_NS;
        return r;
}

/* -- answers ----------------------------------------------------------------------------------------------------- */

static int take_message(struct bridge *b, const struct daemon_message *m)
{
        struct open_request *open = find_open(b, m->id);
        const json_t *text = json_object_get(m->body, "message");
        int r = 0;

        if (json_is_string(text))
                r = put_line(b, json_string_value(text), json_string_length(text));
        else if (m->kind == DAEMON_FAILURE && open && open->id)
                r = put_error(b, open->id, INTERNAL_ERROR, m->e.msg);
        if (m->kind != DAEMON_EVENT && open)
                open_request_free(b, open);
        return r;
}

static int take_messages(struct bridge *b)
{
        struct daemon_message message = {0};
        struct cloche_err e = {0};
        int r, put = 0;

        while (put == 0 && b->is_connected && (r = daemon_next(&b->client, &message, &e)) != 0) {
                put = r < 0 ? lose(b, &e) : take_message(b, &message);
                if (r > 0)
                        daemon_message_done(&message);
        }
        return put;
}

/* -- the loop ---------------------------------------------------------------------------------------------------- */

static int is_over(const struct bridge *b)
{
        return b->out.failed ||
               (b->end_ns && ((TAILQ_EMPTY(&b->open) && b->out.waiting_bytes == 0) || clock_now_ns() >= b->end_ns));
}

static int wait_ms(const struct bridge *b)
{
        uint64_t now_ns = clock_now_ns();

        if (!b->end_ns)
                return -1;
        return now_ns >= b->end_ns ? 0 : (int)((b->end_ns - now_ns) / 1000000) + 1;
}

/* Messages wait in the daemon, which has bounds for them, while the client reads none. */
static short events_of(const struct bridge *b, int is_full)
{
        short events = b->is_connected ? daemon_poll_events(&b->client) : 0;

        return is_full ? (short)(events & ~POLLIN) : events;
}

static int turn(struct bridge *b)
{
        int is_full = b->out.waiting_bytes >= WAITING_BYTES;
        struct pollfd fds[] = {
                {.fd = b->end_ns || is_full ? -1 : STDIN_FILENO, .events = POLLIN},
                {.fd = b->is_connected ? b->client.fd : -1, .events = events_of(b, is_full)},
                {.fd = output_queue_fd(&b->out), .events = POLLOUT},
        };
        struct cloche_err e = {0};
        int r = 0;

        if (poll(fds, 3, wait_ms(b)) < 0)
                return errno == EINTR ? 0 : -errno;
        if (fds[2].revents)
                (void)output_queue_write(&b->out);
        if (fds[1].revents && daemon_move(&b->client, fds[1].revents, &e) < 0)
                r = lose(b, &e);
        if (r == 0 && fds[0].revents)
                r = take_lines(b);
        return r < 0 ? r : take_messages(b);
}

static json_t *names_of(const char *list)
{
        json_t *names = list ? json_array() : NULL;

        while (list && *list) {
                size_t size = strcspn(list, ",");

                json_array_append_new(names, json_stringn(list, size));
                list += size + (list[size] == ',');
        }
        return names;
}

static int run(struct cli_request *request)
{
        struct bridge b = {.request = request, .tools = names_of(request->mcp.tools)};
        struct cloche_err e = {0};
        int r;

        TAILQ_INIT(&b.open);
        lines_init(&b.lines);
        output_queue_init(&b.out);
        signal(SIGPIPE, SIG_IGN);
        if ((request->mcp.connect || request->sandbox.socket) && wants_private(request))
                return cli_bad("--network and --image are those of a private daemon: expected no --socket and no "
                               "--connect");
        if (request->mcp.connect && request->sandbox.socket)
                return cli_bad("--connect and --socket exclude each other");
        r = connect_daemon(&b, &e);
        if (r < 0) {
                leave_state(&b);
                return cli_fail(&e);
        }
        while (r == 0 && !is_over(&b))
                r = turn(&b);
        if (r < 0)
                cli_bad("standard input or output: %s", strerror(-r));
        disconnect(&b);
        leave_state(&b);
        while (!TAILQ_EMPTY(&b.open))
                open_request_free(&b, TAILQ_FIRST(&b.open));
        lines_done(&b.lines);
        output_queue_done(&b.out);
        json_decref(b.tools);
        return r < 0;
}

const struct cli_handler command_mcp = {.run = run};
