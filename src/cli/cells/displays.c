/* Displays of a cell: text is printed, other forms are saved as files.
 * Runs in: the CLI, as its user. */
#include "displays.h"

#include "base/fd.h"
#include "cli/command/cli.h"
#include "cli/output/print.h"
#include "cli/sandbox/sandbox-options.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX 100000

static const struct form {
        const char *mime, *extension;
        int is_picture;
} forms[] = {
        {"image/png", "png", 1},   {"image/jpeg", "jpg", 1},    {"image/gif", "gif", 1},
        {"image/webp", "webp", 1}, {"image/svg+xml", "svg", 1}, {"application/pdf", "pdf", 1},
        {"text/html", "html", 0},  {"text/markdown", "md", 0},  {"text/latex", "tex", 0},
};

/* -- files ---------------------------------------------------------------------------------------------------- */

/* 0, or a line was printed. */
static int find_directory(struct displays *d)
{
        const char *temporary = getenv("TMPDIR");

        if (d->directory && *d->made_up)
                return 0;
        if (d->directory)
                return mkdir(d->directory, 0777) < 0 && errno != EEXIST
                               ? cli_bad("cannot make '%s': %s", d->directory, strerror(errno))
                               : 0;
        snprintf(d->made_up, sizeof(d->made_up), "%s/cloche-displays-XXXXXX",
                 temporary && *temporary ? temporary : "/tmp");
        d->directory = mkdtemp(d->made_up);
        return d->directory ? 0 : cli_bad("cannot make '%s': %s", d->made_up, strerror(errno));
}

/* Create a file with the next free number; existing files are never overwritten. */
static int open_file(struct displays *d, const char *extension, char path[4200])
{
        int fd;

        do {
                snprintf(path, 4200, "%s/display-%u.%s", d->directory, ++d->last, extension);
                fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        } while (fd < 0 && errno == EEXIST && d->last < FILES_MAX);
        return fd;
}

static int save(struct displays *d, const struct daemon_message *message, const json_t *value, const struct form *form,
                FILE *text_out)
{
        struct cloche_err e = {0};
        _cleanup_fd_ int fd = -EBADF;
        char path[4200];
        const void *data;
        size_t size;
        int r;

        if (daemon_bytes(message, value, form->mime, &data, &size, &e) < 0)
                return sandbox_fail(&e);
        r = find_directory(d);
        if (r)
                return r;
        fd = open_file(d, form->extension, path);
        r = fd < 0 ? -errno : fd_write_full(fd, data, size);
        if (r < 0)
                return cli_bad("cannot write '%s': %s", path, strerror(-r)), 1;
        fprintf(text_out, "%s: %s\n", form->mime, path);
        return 0;
}

static const struct form *find_form(const char *mime)
{
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
                if (strcmp(forms[i].mime, mime) == 0)
                        return &forms[i];
        return NULL;
}

/* -- all forms of a display ----------------------------------------------------------------------------------- */

static int is_saved(const struct displays *d, const struct form *form)
{
        return form && (d->saves == DISPLAYS_ALL || (d->saves == DISPLAYS_PICTURES && form->is_picture));
}

/* JSON accompanies other forms for programs, so it is not reported. */
static int is_named(const struct displays *d, const char *mime)
{
        return strcmp(mime, "text/plain") != 0 && !strstr(mime, "json") && d->saves == DISPLAYS_NAMED;
}

static void print_named(const struct displays *d, const json_t *data, FILE *text_out)
{
        const char *mime, *before = "[";
        json_t *value;

        json_object_foreach ((json_t *)data, mime, value)
                if (is_named(d, mime)) {
                        fputs(before, text_out);
                        print_name(text_out, mime);
                        before = ", ";
                }
        if (*before == ',')
                fputs("]\n", text_out);
}

static void print_stored(const struct displays *d, const json_t *stored, FILE *text_out)
{
        if (!json_is_object(stored))
                return;
        print_name(text_out, sandbox_text(stored, "mime"));
        fprintf(text_out, ": %lld bytes in %s:", (long long)json_integer_value(json_object_get(stored, "bytes")),
                d->sandbox);
        print_path(text_out, json_object_get(stored, "path"));
        fputc('\n', text_out);
}

static int print_display(struct displays *d, const struct daemon_message *message, FILE *text_out)
{
        const json_t *data = json_object_get(message->body, "data"), *text = json_object_get(data, "text/plain");
        const char *mime;
        json_t *value;
        int code = 0;

        if (json_is_string(text)) {
                print_bytes(text_out, json_string_value(text), json_string_length(text), PRINT_TEXT);
                fputc('\n', text_out);
        }
        print_named(d, data, text_out);
        json_object_foreach ((json_t *)data, mime, value) {
                const struct form *form = find_form(mime);

                if (code == 0 && is_saved(d, form))
                        code = save(d, message, value, form, text_out);
        }
        print_stored(d, json_object_get(json_object_get(message->body, "metadata"), "stored"), text_out);
        return code;
}

int displays_show(struct displays *d, const struct daemon_message *message, struct output_queue *out)
{
        char *text = NULL;
        size_t size = 0;
        FILE *text_out = open_memstream(&text, &size);
        int code;

        /* Begin a new line after any output. */
        if (text_out && out->last && out->last != '\n')
                fputc('\n', text_out);
        code = text_out ? print_display(d, message, text_out) : 1;
        if (!text_out || fclose(text_out) != 0 || output_queue_put(out, STDOUT_FILENO, text, size) < 0)
                code = code ? code : (cli_bad("no memory for a display"), 1);
        free(text);
        return code;
}
