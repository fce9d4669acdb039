/* cloche image: the store of images. Runs in: the CLI, as its user; cloche-image does the work. */
#include "cli/options/options.h"
#include "cli/output/print.h"
#include "cli/output/table.h"
#include "cli/run/image-store.h"
#include "cli/sandbox/sandbox-options.h"

#include "base/fd.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define NAME_BYTES 160

static const char *text_of(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text ? text : "";
}

static long long count_of(const json_t *object, const char *name)
{
        return (long long)json_integer_value(json_object_get(object, name));
}

static json_t *named(const char *name)
{
        return json_pack("{s:s}", "name", name);
}

/* Send a request to the store here, or to the daemon for its own; answers are the same. */
static int request_either(const struct cli_request *request, const char *method, json_t *params, json_t **ret)
{
        static const struct {
                const char *method, *operation;
        } rows[] = {
                {"list", "image.list"},     {"inspect", "image.get"}, {"remove", "image.delete"},
                {"verify", "image.verify"}, {"prune", "image.prune"},
        };
        json_t *name = json_object_get(params, "name");
        size_t i = 0;

        if (!request->of_daemon && !request->sandbox.socket)
                return image_store_request(request, method, params, -1, ret);
        if (request->engine.images_dir) {
                json_decref(params);
                return cli_bad("--images and %s exclude each other: a daemon's store is that of cloched --images",
                               request->of_daemon ? "--daemon" : "--socket");
        }
        params = params ? params : json_object();
        if (name)
                json_object_set(params, "image", name);
        json_object_del(params, "name");
        json_object_del(params, "own"); /* a daemon does not measure: that reads all trees */
        while (strcmp(rows[i].method, method) != 0)
                i++;
        return sandbox_request_once(request, rows[i].operation, params, ret);
}

/* -- import --------------------------------------------------------------------------------------------------- */

struct source {
        char path[PATH_BYTES], name[NAME_BYTES];
        const char *tag; /* NULL: none */
        int fd;
};

/* A colon belongs to the path if there is such a file. */
static int open_source(const char *word, struct source *ret)
{
        char *colon;
        int reason;

        if (strcmp(word, "-") == 0) {
                ret->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
                snprintf(ret->path, sizeof(ret->path), "standard input");
                return ret->fd < 0 ? cli_bad("cannot read standard input: %s", strerror(errno)) : 0;
        }
        if (snprintf(ret->path, sizeof(ret->path), "%s", word) >= (int)sizeof(ret->path))
                return cli_bad("the path of the source is too long");
        ret->fd = open(ret->path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
        reason = errno;
        colon = strrchr(ret->path, ':');
        if (ret->fd < 0 && reason == ENOENT && colon && colon > ret->path) {
                *colon = '\0';
                ret->tag = colon + 1;
                ret->fd = open(ret->path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
        }
        if (ret->fd >= 0)
                return 0;
        if (strncmp(word, "docker://", 9) == 0 || strncmp(word, "docker.io/", 10) == 0)
                return cli_bad("images of registries are fetched by another program first: skopeo copy %s%s "
                               "oci-archive:image.tar",
                               strncmp(word, "docker://", 9) == 0 ? "" : "docker://", word);
        return cli_bad("cannot open '%s': %s", word, strerror(reason));
}

/* The file's name without its endings: "tools.tar.zst" is "tools". */
static int name_after(struct source *source)
{
        static const char *const endings[] = {".gz", ".tgz", ".zst", ".xz", ".bz2", ".tar", ".oci"};
        char path[PATH_BYTES], *base;
        size_t size;

        if (strcmp(source->path, "standard input") == 0)
                return cli_bad("expected a name for the image of standard input (usage: cloche image import - NAME)");
        snprintf(path, sizeof(path), "%s", source->path);
        for (size = strlen(path); size > 1 && path[size - 1] == '/';)
                path[--size] = '\0';
        base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
                size = strlen(base);
                if (size > strlen(endings[i]) && strcmp(base + size - strlen(endings[i]), endings[i]) == 0)
                        base[size - strlen(endings[i])] = '\0';
        }
        for (char *at = base; *at; at++)
                *at = (char)tolower((unsigned char)*at);
        snprintf(source->name, sizeof(source->name), "%.100s%s%.40s", base, source->tag ? ":" : "",
                 source->tag ? source->tag : "");
        return 0;
}

static void print_dropped(const json_t *dropped)
{
        static const struct {
                const char *name, *words;
        } rows[] = {
                {"devices", "devices"},
                {"pipes", "pipes and sockets"},
                {"setid", "set-user-id and set-group-id bits"},
                {"capabilities", "file capabilities"},
                {"attributes", "extended attributes"},
        };
        const char *before = "cloche: left out of the image: ";

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (count_of(dropped, rows[i].name) > 0) {
                        fprintf(stderr, "%s%lld %s", before, count_of(dropped, rows[i].name), rows[i].words);
                        before = ", ";
                }
        if (strcmp(before, ", ") == 0)
                fputc('\n', stderr);
        if (count_of(dropped, "owners") > 0)
                fprintf(stderr,
                        "cloche: %lld files of other users belong to root in the image: the store of an ordinary user "
                        "keeps no owners\n",
                        count_of(dropped, "owners"));
}

/* They contain texts of the image. */
void image_print_notes(const json_t *notes)
{
        for (size_t i = 0; i < json_array_size(notes); i++) {
                fprintf(stderr, "cloche: ");
                print_name(stderr, json_string_value(json_array_get(notes, i)));
                fputc('\n', stderr);
        }
}

void image_print_import(const struct cli_request *request, const json_t *answer)
{
        if (request->json) {
                sandbox_print_json(answer);
                return;
        }
        print_dropped(json_object_get(answer, "dropped"));
        image_print_notes(json_object_get(answer, "notes"));
        printf("%s\n", text_of(answer, "name"));
}

static int import(struct cli_request *request)
{
        struct source source = {.fd = -EBADF};
        json_t *answer = NULL;
        int code = open_source(request->positional[0], &source);

        if (code == 0 && request->positional_count < 2)
                code = name_after(&source);
        if (code == 0)
                code = image_store_request(request, "import",
                                           json_pack("{s:s, s:s?, s:s}", "source", source.path, "tag", source.tag,
                                                     "name",
                                                     request->positional_count < 2 ? source.name
                                                                                   : request->positional[1]),
                                           source.fd, &answer);
        fd_close(&source.fd);
        if (code)
                return code;
        image_print_import(request, answer);
        json_decref(answer);
        return 0;
}

/* -- lists ---------------------------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
        {"IMAGE", CELL_NAME, "name", 16, NULL},      {"TREE", CELL_NAME, "tree", 19, NULL},
        {"SIZE", CELL_BYTES, "size", 0, NULL},       {"OWN", CELL_BYTES, "ownSize", 0, NULL},
        {"ENTRIES", CELL_COUNT, "entries", 0, NULL}, {"IMPORTED", CELL_TIME, "importedAt", 0, NULL},
        {"USED", CELL_TIME, "lastUsedAt", 0, NULL},
};

/* A row for each name. */
static json_t *rows_of(const json_t *images)
{
        json_t *rows = json_array();
        const json_t *image;
        size_t n;

        json_array_foreach (images, n, image) {
                const json_t *names = json_object_get(image, "names");

                for (size_t i = 0; i < json_array_size(names) || i == 0; i++) {
                        const char *name = json_string_value(json_array_get(names, i));
                        json_t *row = json_copy((json_t *)image);

                        json_object_set_new(row, "name", json_string(name ? name : "(no name)"));
                        json_array_append_new(rows, row);
                }
        }
        return rows;
}

/* Take those without a name out. Return their number. */
static size_t hide_nameless(json_t *images)
{
        size_t hidden = 0;

        for (size_t i = json_array_size(images); i > 0; i--)
                if (json_array_size(json_object_get(json_array_get(images, i - 1), "names")) == 0) {
                        json_array_remove(images, i - 1);
                        hidden++;
                }
        return hidden;
}

static int list(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = request_either(request, "list", json_pack("{s:b}", "own", 1), &answer);
        size_t hidden = code || request->all_images ? 0 : hide_nameless(json_object_get(answer, "images"));

        if (code == 0) {
                json_t *rows = request->json ? json_incref(json_object_get(answer, "images"))
                                             : rows_of(json_object_get(answer, "images"));

                TABLE_PRINT(columns, rows, request->json);
                json_decref(rows);
        }
        if (hidden > 0 && !request->json)
                fprintf(stderr,
                        "cloche: %zu without a name, most of them steps of builds: --all lists them, cloche image "
                        "prune "
                        "removes them\n",
                        hidden);
        json_decref(answer);
        return code;
}

/* Values come from the image. */
static void print_value(const char *name, const json_t *value)
{
        char *text;

        if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value)))
                return;
        if (json_is_array(value)) {
                for (size_t i = 0; i < json_array_size(value); i++)
                        print_value(name, json_array_get(value, i));
                return;
        }
        printf("%-14s ", name);
        text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_SORT_KEYS);
        print_name(stdout, text ? text : json_string_value(value));
        printf("\n");
        free(text);
}

static void print_runs_as(const json_t *user)
{
        json_t *text = json_sprintf("%s (%lld:%lld), home %s", text_of(user, "name"),
                                    (long long)json_integer_value(json_object_get(user, "uid")),
                                    (long long)json_integer_value(json_object_get(user, "gid")), text_of(user, "home"));

        if (user)
                print_value("runsAs", text);
        json_decref(text);
}

static void print_image(const json_t *image)
{
        static const char *const members[] = {"names",        "id",      "tree",      "os",
                                              "architecture", "created", "createdBy", "importedAt",
                                              "lastUsedAt",   "size",    "entries",   "layers"},
                                 *const config[] = {"env",         "workingDir",   "user",   "entrypoint",
                                                    "cmd",         "exposedPorts", "labels", "volumes",
                                                    "healthcheck", "stopSignal",   "shell",  "onBuild"},
                                 *const startup[] = {"start", "ready", "readyMs"};
        const json_t *source = json_object_get(image, "source");

        for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
                print_value(members[i], json_object_get(image, members[i]));
        print_value("source", json_object_get(source, "kind"));
        print_value("digest", json_object_get(source, "digest"));
        for (size_t i = 0; i < sizeof(config) / sizeof(config[0]); i++)
                print_value(config[i], json_object_get(json_object_get(image, "config"), config[i]));
        print_runs_as(json_object_get(image, "runsAs"));
        for (size_t i = 0; i < sizeof(startup) / sizeof(startup[0]); i++)
                print_value(startup[i], json_object_get(json_object_get(image, "startup"), startup[i]));
        print_value("note", json_object_get(image, "notes"));
}

static int inspect(struct cli_request *request)
{
        json_t *answer = NULL;
        int code = request_either(request, "inspect", named(request->positional[0]), &answer);

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        else if (code == 0)
                print_image(answer);
        json_decref(answer);
        return code;
}

/* -- changes -------------------------------------------------------------------------------------------------- */

static int rm(struct cli_request *request)
{
        int code = 0;

        for (int i = 0; i < request->positional_count; i++) {
                json_t *answer = NULL;
                int bad = request_either(request, "remove", named(request->positional[i]), &answer);

                json_decref(answer);
                code = bad ? bad : code;
        }
        return code;
}

static void print_change(const json_t *change)
{
        const char *was = json_string_value(json_object_get(change, "was")),
                   *is = json_string_value(json_object_get(change, "is"));

        print_name(stdout, text_of(change, "path"));
        printf(": %s", text_of(change, "change"));
        if (was && is) {
                printf(" was ");
                print_name(stdout, was);
                printf(", is ");
                print_name(stdout, is);
        }
        printf("\n");
}

static int verify(struct cli_request *request)
{
        json_t *answer = NULL;
        const json_t *changes;
        int code = request_either(request, "verify", named(request->positional[0]), &answer), is_whole;

        if (code)
                return code;
        is_whole = json_is_true(json_object_get(answer, "isWhole"));
        changes = json_object_get(answer, "changes");
        if (request->json)
                sandbox_print_json(answer);
        for (size_t i = 0; !request->json && i < json_array_size(changes); i++)
                print_change(json_array_get(changes, i));
        if (!is_whole)
                cli_bad("the image '%s' is not as it was imported: %lld differences (remove it and import it again)",
                        request->positional[0], count_of(answer, "changeCount"));
        json_decref(answer);
        return is_whole ? 0 : 1;
}

static int prune(struct cli_request *request)
{
        json_t *answer = NULL;
        json_t *params = json_object();
        int code;

        if (request->keep_bytes != UINT64_MAX)
                json_object_set_new(params, "keepBytes", json_integer((json_int_t)request->keep_bytes));
        code = request_either(request, "prune", params, &answer);

        if (code == 0 && request->json)
                sandbox_print_json(answer);
        else if (code == 0)
                printf("removed %lld images, %lld trees, %lld unfinished imports; %lld in use\n",
                       count_of(answer, "images"), count_of(answer, "trees"), count_of(answer, "leftovers"),
                       count_of(answer, "inUse"));
        json_decref(answer);
        return code;
}

/* -- interpreters --------------------------------------------------------------------------------------------- */

static void print_interpreter(const json_t *row)
{
        printf("%-12s ready, %s\n", text_of(row, "language"),
               json_is_true(json_object_get(row, "isNew")) ? "started" : "was so before");
}

static int warm(struct cli_request *request)
{
        json_t *languages = json_array(), *answer = NULL;
        int code;

        for (int i = 1; i < request->positional_count; i++)
                json_array_append_new(languages, json_string(request->positional[i]));
        code = sandbox_request_once(request, "image.warm",
                                    json_pack("{s:s, s:o}", "image", request->positional[0], "languages", languages),
                                    &answer);
        if (code == 0 && request->json)
                sandbox_print_json(answer);
        else if (code == 0)
                print_rows(json_object_get(answer, "interpreters"), 0, print_interpreter);
        json_decref(answer);
        return code;
}

/* -- export --------------------------------------------------------------------------------------------------- */

/* An existing file is replaced once the new one is whole. */
static int export_file(struct cli_request *request, const char *path, json_t **ret)
{
        char beside[PATH_BYTES];
        _cleanup_fd_ int fd = -EBADF;
        int code;

        if (snprintf(beside, sizeof(beside), "%s.part", path) >= (int)sizeof(beside))
                return cli_bad("the path of the file is too long");
        fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0)
                return cli_bad("cannot write '%s': %s", beside, strerror(errno));
        code = image_store_request(request, "export", named(request->positional[0]), fd, ret);
        if (code == 0 && rename(beside, path) < 0)
                code = (cli_bad("cannot write '%s': %s", path, strerror(errno)), 1);
        if (code)
                unlink(beside);
        return code;
}

static int export(struct cli_request *request)
{
        const char *path = request->positional[1];
        int is_standard = strcmp(path, "-") == 0, code;
        json_t *answer = NULL;

        if (is_standard && isatty(STDOUT_FILENO))
                return cli_bad("standard output is a terminal: name a file");
        code = is_standard
                       ? image_store_request(request, "export", named(request->positional[0]), STDOUT_FILENO, &answer)
                       : export_file(request, path, &answer);
        if (code == 0 && request->json && !is_standard)
                sandbox_print_json(answer);
        json_decref(answer);
        return code;
}

const struct cli_handler command_image_import = {
        .run = import,
        .expected = "a source",
        .positional_min = 1,
        .positional_max = 2,
};

const struct cli_handler command_image_ls = {
        .run = list,
};

const struct cli_handler command_image_inspect = {
        .run = inspect,
        .expected = "an image",
        .positional_min = 1,
        .positional_max = 1,
};

const struct cli_handler command_image_rm = {
        .run = rm,
        .expected = "an image",
        .positional_min = 1,
        .positional_max = CLI_WORDS_MAX,
};

const struct cli_handler command_image_verify = {
        .run = verify,
        .expected = "an image",
        .positional_min = 1,
        .positional_max = 1,
};

const struct cli_handler command_image_prune = {
        .run = prune,
};

const struct cli_handler command_image_warm = {
        .run = warm,
        .expected = "an image and a language",
        .positional_min = 2,
        .positional_max = CLI_WORDS_MAX,
};

const struct cli_handler command_image_export = {
        .run = export,
        .expected = "an image and a file",
        .positional_min = 2,
        .positional_max = 2,
};
