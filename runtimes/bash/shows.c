/* The builtins with which a cell shows something and asks: `display` and `input`. Processes that the cell forks may
 * call them too. */
#include "bash-agent.h"
#include "display.h"

#include "base/fd.h"
#include "wire/json.h"
#include "wire/value.h"

#include <fcntl.h>
#include <poll.h>
#include <quit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#define FOLDER_OF_LARGE "/tmp/.cloche-display"
#define CHUNK ((size_t)65536)
#define PATH_SIZE 128
#define LOOK_MS 100

static struct agent *agent; /* NULL before `open` */

/* -- content --------------------------------------------------------------------------------------------------- */

/* A word is the content where that is text, and the option says which; else it is a file. */
static int is_content(const struct display *d)
{
        return d->argument && strcmp(d->argument, "-") != 0 && d->kind.mime && strcmp(d->kind.option, "type") != 0 &&
               d->kind.form != BYTES;
}

static int open_source(struct display *d)
{
        const struct kind *kind;
        int fd;

        if (!d->argument || strcmp(d->argument, "-") == 0)
                return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
        kind = d->kind.mime ? &d->kind : kind_of_file(d->argument);
        if (!kind) {
                builtin_error("%s: its ending tells no kind; say --type MIME", d->argument);
                return -EBADF;
        }
        d->kind = *kind;
        fd = open(d->argument, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                builtin_error("%s: %s", d->argument, strerror(errno));
        return fd;
}

/* The cell has ended, or is to end. */
static int gives_up(void)
{
        return !cell_may_tell() || ISINTERRUPT;
}

/* At most size bytes; what was read, or -1 after a message. A signal may come just before the shell would wait, so it
 * looks now and then. */
static ssize_t read_some(int fd, void *data, size_t size)
{
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        ssize_t n;

        while (poll(&polled, 1, LOOK_MS) <= 0)
                if (gives_up())
                        return -1;
        do
                n = read(fd, data, size);
        while (n < 0 && errno == EINTR && !gives_up());
        if (n < 0 && !gives_up())
                builtin_error("what is to be displayed: %s", strerror(errno));
        return n;
}

/* Up to its maximum, which is one byte more than may be sent. */
static int read_content(int fd, struct buf *content)
{
        while (content->size < content->max) {
                size_t size = content->max - content->size < CHUNK ? content->max - content->size : CHUNK;
                char *at = buf_reserve(content, size);
                ssize_t n;

                if (!at) {
                        builtin_error("no memory for what is to be displayed");
                        return -1;
                }
                n = read_some(fd, at, size);
                if (n < 0)
                        return -1;
                content->size += (size_t)n;
                if (n == 0)
                        break;
        }
        return 0;
}

/* -- what is too large ----------------------------------------------------------------------------------------- */

static int create_stored(const struct kind *kind, char path[PATH_SIZE])
{
        unsigned long long number = 0;
        int fd;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                return -1;
        mkdir(FOLDER_OF_LARGE, 0777);
        snprintf(path, PATH_SIZE, FOLDER_OF_LARGE "/%016llx.%s", number,
                 kind->ending         ? kind->ending
                 : kind->form == JSON ? "json"
                                      : "bin");
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0)
                builtin_error("%s: %s", path, strerror(errno));
        return fd;
}

/* What was read, and the rest behind it. Its size, or -1 after a message. */
static ssize_t copy_whole(int from_fd, int to_fd, const struct buf *begun)
{
        ssize_t n = (ssize_t)begun->size, total = 0;
        const char *data = begun->data;
        char chunk[CHUNK];

        while (n > 0) {
                int r = fd_write_full(to_fd, data, (size_t)n);

                if (r < 0) {
                        builtin_error("what is too large to be sent: %s", strerror(-r));
                        return -1;
                }
                total += n;
                n = from_fd < 0 ? 0 : read_some(from_fd, chunk, sizeof(chunk));
                data = chunk;
        }
        return n < 0 ? -1 : total;
}

static json_t *store(const struct kind *kind, int fd, const struct buf *begun, json_t *metadata)
{
        char path[PATH_SIZE], text[256];
        _cleanup_fd_ int to_fd = create_stored(kind, path);
        ssize_t size = to_fd < 0 ? -1 : copy_whole(fd, to_fd, begun);

        if (size < 0) {
                if (to_fd >= 0)
                        unlink(path);
                return NULL;
        }
        snprintf(text, sizeof(text), "<%s of %zd bytes>", kind->mime, size);
        json_object_set_new(metadata, "stored",
                            json_pack("{s:s, s:s, s:I}", "mime", kind->mime, "path", path, "bytes", (json_int_t)size));
        return json_pack("{s:s}", "text/plain", text);
}

/* -- on the wire ----------------------------------------------------------------------------------------------- */

static json_t *json_content(const struct buf *content, struct buf *attachments)
{
        struct cloche_err e = {.msg = "no memory"};
        json_t *json = NULL, *value = NULL;

        if (json_load_human(content->data ? content->data : "", content->size, &json, &e) < 0 ||
            value_text_to_frame(json, attachments, &value, &e) < 0) {
                builtin_error("what is to be displayed is not JSON: %s", e.msg);
                value = NULL;
        }
        json_decref(json);
        return value;
}

static json_t *bytes_content(const struct buf *content, struct buf *attachments)
{
        if (buf_append(attachments, content->data, content->size) < 0)
                return NULL;
        return json_pack("{s:s, s:i, s:I}", "$", "bytes", "at", 0, "n", (json_int_t)content->size);
}

static json_t *data_of(const struct kind *kind, const struct buf *content, struct buf *attachments)
{
        json_t *value = kind->form == JSON   ? json_content(content, attachments)
                        : kind->form == TEXT ? agent_text(content->data ? content->data : "", content->size)
                                             : bytes_content(content, attachments);

        return value ? json_pack("{s:o}", kind->mime, value) : NULL;
}

/* The cell goes on when the host has heard: what it prints next must not be heard before. */
static int tell(const char *method, json_t *params, const struct buf *attachments)
{
        const struct agent_host_request question = {.method = method,
                                                    .params = params,
                                                    .attachments = attachments ? attachments->data : NULL,
                                                    .attachments_size = attachments ? attachments->size : 0,
                                                    .gives_up = gives_up};
        int r = params ? agent_send_request(agent, &question, NULL) : -1;

        if (r < 0)
                builtin_error("the host is gone");
        return r == 0 ? EXECUTION_SUCCESS : EXECUTION_FAILURE;
}

static int send_display(const struct display *d, int fd, const struct buf *content)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(cell_store_bytes() + 1);
        json_t *metadata = json_object(), *params, *data;

        data = content->size > cell_store_bytes() ? store(&d->kind, fd, content, metadata)
                                                  : data_of(&d->kind, content, &attachments);
        if (!data) {
                json_decref(metadata);
                return EXECUTION_FAILURE;
        }
        params = json_pack("{s:o, s:o, s:b}", "data", data, "metadata", metadata, "isResult", 0);
        if (d->id)
                json_object_set_new(params, "displayId", agent_text(d->id, strlen(d->id)));
        if (d->is_update)
                json_object_set_new(params, "isUpdate", json_true());
        return tell("display", params, &attachments);
}

static int show(struct display *d)
{
        _cleanup_buf_ struct buf content = BUF_INIT(cell_store_bytes() + 1);
        _cleanup_fd_ int fd = -EBADF;

        if (is_content(d)) {
                const struct buf word = {.data = (char *)d->argument, .size = strlen(d->argument)};

                return send_display(d, -EBADF, &word);
        }
        fd = open_source(d);
        if (fd < 0)
                return EXECUTION_FAILURE;
        if (!d->kind.mime)
                d->kind = *kind_of_option("text");
        if (read_content(fd, &content) < 0)
                return EXECUTION_FAILURE;
        return send_display(d, fd, &content);
}

/* -- the builtins ---------------------------------------------------------------------------------------------- */

/* Whether a cell runs, which is the only one who is heard. */
static int may_tell(void)
{
        fflush(stdout);
        if (agent && cell_may_tell())
                return 1;
        builtin_error("only a running cell can do that");
        return 0;
}

static int display(WORD_LIST *words)
{
        struct display d = {0};

        if (display_read_words(words, &d) < 0)
                return EX_USAGE;
        if (!may_tell())
                return EXECUTION_FAILURE;
        if (d.is_clear)
                return tell("clear", json_pack("{s:b}", "wait", d.waits), NULL);
        return show(&d);
}

static int print_answer(const struct agent_answer *answer)
{
        const char *message = json_string_value(json_object_get(answer->error, "message"));

        if (json_is_string(answer->value)) {
                fwrite(json_string_value(answer->value), 1, json_string_length(answer->value), stdout);
                putchar('\n');
                return sh_chkwrite(EXECUTION_SUCCESS);
        }
        builtin_error("%s", answer->error ? (message ? message : "there is no input") : "the answer is not text");
        return EXECUTION_FAILURE;
}

static int input(WORD_LIST *words)
{
        const int is_password = words && strcmp(words->word->word, "-s") == 0;
        struct agent_host_request question = {.method = "input", .gives_up = gives_up};
        struct agent_answer answer;
        const char *prompt;
        int r, status;

        words = is_password ? words->next : words;
        prompt = words ? words->word->word : "";
        if (words && words->next) {
                builtin_error("one prompt, not more");
                return EX_USAGE;
        }
        if (!may_tell())
                return EXECUTION_FAILURE;
        question.params =
                json_pack("{s:o, s:b}", "prompt", agent_text(prompt, strlen(prompt)), "password", is_password);
        r = agent_send_request(agent, &question, &answer);
        if (r < 0)
                builtin_error("the host is gone");
        if (r != 0)
                return EXECUTION_FAILURE;
        status = print_answer(&answer);
        agent_answer_done(&answer);
        return status;
}

void shows_start(struct agent *a)
{
        static char *const about_display[] =
                {"Show something in the notebook.",
                 "",
                 "FILE is shown as its ending says, or as --type MIME. The content of --html, --markdown, --latex, "
                 "--svg,",
                 "--json, --chart, --javascript and --text is TEXT, of --png, --jpeg, --gif and --pdf FILE; without "
                 "either, and for -,",
                 "it is standard input. --id gives the display a name, by which a later one replaces it with --update.",
                 "--clear has what the cell has displayed go, with --wait when the next display comes.",
                 NULL};
        static char *const about_input[] = {"Ask for a line, and print it. -s: what is typed is not shown.", NULL};

        agent = a;
        add_builtin("display", display, about_display,
                    "display [--type MIME | --KIND] [--id ID [--update]] [FILE | TEXT] | --clear [--wait]");
        add_builtin("input", input, about_input, "input [-s] [PROMPT]");
}
