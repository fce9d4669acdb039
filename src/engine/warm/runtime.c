/* Manifests of the runtimes, which are our own files. Runs in: the engine, at its start. */
#include "runtime.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_strings(const json_t *array)
{
        for (size_t i = 0; i < json_array_size(array); i++)
                if (!json_is_string(json_array_get(array, i)))
                        return 0;
        return json_array_size(array) > 0;
}

/* True if a word of the command is a path in the runtime's own folder. */
static int names_folder(const json_t *words)
{
        for (size_t i = 0; i < json_array_size(words); i++)
                if (json_is_string(json_array_get(words, i)) &&
                    strstr(json_string_value(json_array_get(words, i)), "/run/cloche/"))
                        return 1;
        return 0;
}

static int read_manifest(const char *path, struct runtime *ret, struct cloche_err *e)
{
        json_error_t error;
        json_t *manifest = json_load_file(path, JSON_REJECT_DUPLICATES, &error);

        if (!manifest)
                return err_set(e, CLOCHE_E_MISSING_RUNTIME, "%s: %s (line %d)", path, error.text, error.line);
        *ret = (struct runtime){
                .manifest = manifest,
                .name = json_string_value(json_object_get(manifest, "name")),
                .extension = json_string_value(json_object_get(manifest, "extension")),
                .notebook = json_string_value(json_object_get(manifest, "notebook")),
                .agent = json_object_get(manifest, "agent"),
                .script = json_object_get(manifest, "script"),
                .env = json_object_get(manifest, "env"),
                .has_realm = json_is_true(json_object_get(manifest, "realm")),
                .template = json_object_get(manifest, "template"),
                .is_compiled = json_is_true(json_object_get(manifest, "build")),
                .is_translated = json_is_true(json_object_get(manifest, "translated")),
                .has_no_host = json_is_false(json_object_get(manifest, "host")),
                .is_cold_only = json_is_false(json_object_get(manifest, "warm")),
                .script_needs_folder = names_folder(json_object_get(manifest, "script")),
        };
        if (!ret->template)
                ret->template = ret->agent;
        if (ret->name && ret->extension && is_strings(ret->agent) && is_strings(ret->script) &&
            is_strings(ret->template))
                return 0;
        json_decref(manifest);
        return err_set(e, CLOCHE_E_MISSING_RUNTIME, "%s: expected name, extension, agent and script (and template)",
                       path);
}

static int add(struct runtimes *runtimes, const char *directory, const char *name, struct cloche_err *e)
{
        struct runtime runtime, *grown;
        char path[4096], manifest[4200];
        int r;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        snprintf(manifest, sizeof(manifest), "%s/manifest.json", path);
        if (access(manifest, F_OK) < 0)
                return 0;
        r = read_manifest(manifest, &runtime, e);
        if (r < 0)
                return r;
        runtime.directory = strdup(path);
        grown = realloc(runtimes->rows, (runtimes->count + 1) * sizeof(*grown));
        if (grown)
                runtimes->rows = grown;
        runtime.directory_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (!grown || !runtime.directory || runtime.directory_fd < 0) {
                r = err_os(e, CLOCHE_E_RESOURCE, runtime.directory_fd < 0 ? errno : ENOMEM, "load the runtime %s",
                           path);
                json_decref(runtime.manifest);
                free(runtime.directory);
                fd_close(&runtime.directory_fd);
                return r;
        }
        runtimes->rows[runtimes->count++] = runtime;
        return 0;
}

static int by_name(const void *a, const void *b)
{
        return strcmp(((const struct runtime *)a)->name, ((const struct runtime *)b)->name);
}

int runtimes_load(const char *directory, struct runtimes *ret, struct cloche_err *e)
{
        struct runtimes runtimes = {0};
        DIR *dir = opendir(directory);
        int r = 0;

        if (!dir)
                return err_os(e, CLOCHE_E_MISSING_RUNTIME, errno, "open the runtimes in %s", directory);
        for (struct dirent *entry; r == 0 && (entry = readdir(dir));)
                if (entry->d_name[0] != '.')
                        r = add(&runtimes, directory, entry->d_name, e);
        closedir(dir);
        if (r == 0 && runtimes.count == 0)
                r = err_set(e, CLOCHE_E_MISSING_RUNTIME,
                            "%s has no runtimes: name their directory with CLOCHE_RUNTIMES", directory);
        if (r < 0) {
                runtimes_done(&runtimes);
                return r;
        }
        qsort(runtimes.rows, runtimes.count, sizeof(*runtimes.rows), by_name);
        *ret = runtimes;
        return 0;
}

void runtimes_done(struct runtimes *runtimes)
{
        for (size_t i = 0; i < runtimes->count; i++) {
                json_decref(runtimes->rows[i].manifest);
                free(runtimes->rows[i].directory);
                fd_close(&runtimes->rows[i].directory_fd);
        }
        free(runtimes->rows);
        *runtimes = (struct runtimes){0};
}

/* List the usual extension and the language's others. */
static json_t *all_extensions(const struct runtime *runtime)
{
        json_t *all = json_pack("[s]", runtime->extension),
               *others = json_object_get(runtime->manifest, "otherExtensions");

        if (all && others)
                json_array_extend(all, others);
        return all;
}

json_t *runtimes_describe(const struct runtimes *runtimes)
{
        json_t *list = json_array();

        for (size_t i = 0; i < runtimes->count; i++) {
                const struct runtime *runtime = &runtimes->rows[i];
                json_t *aliases = json_object_get(runtime->manifest, "aliases"),
                       *interpreter = json_object_get(runtime->manifest, "interpreter");

                json_array_append_new(list, json_pack("{s:s, s:O, s:s, s:o, s:O, s:b, s:b, s:b}", "name", runtime->name,
                                                      "aliases", aliases ? aliases : json_null(), "extension",
                                                      runtime->extension, "extensions", all_extensions(runtime),
                                                      "interpreter", interpreter ? interpreter : json_null(), "warm",
                                                      !runtime->is_cold_only, "build", runtime->is_compiled, "evaluate",
                                                      runtime->has_realm));
        }
        return list;
}

const char *runtime_argument_error(const struct runtime *runtime, int is_value)
{
        const json_t *names = json_object_get(runtime->manifest, "argumentErrors");
        const char *name = json_string_value(json_object_get(names, is_value ? "value" : "type"));

        return name ? name : is_value ? "ValueError" : "TypeError";
}

const struct cloche_err *runtime_explain(const struct runtime *runtime, const struct cloche_err *e,
                                         struct cloche_err *ret)
{
        if (!e || e->code != CLOCHE_E_SPAWN || (e->os_errno != ENOENT && e->os_errno != ELIBACC))
                return e;
        if (e->os_errno == ELIBACC)
                err_set(ret, CLOCHE_E_MISSING_RUNTIME,
                        "the image cannot run the interpreter for %s: the loader that the program names is missing, as "
                        "in an image without the GNU C library (%.120s)",
                        runtime->name, e->msg);
        else
                err_set(ret, CLOCHE_E_MISSING_RUNTIME, "the image has no interpreter for %s (%.120s)", runtime->name,
                        e->msg);
        return ret;
}

/* Spaces take the place of control characters, those of two bytes (C1) included. */
static void remove_controls(char *text, size_t size)
{
        for (size_t i = 0; i < size; i++) {
                unsigned char byte = (unsigned char)text[i], before = i ? (unsigned char)text[i - 1] : 0;

                if (byte < ' ' || byte == 0x7f)
                        text[i] = ' ';
                else if (before == 0xc2 && byte < 0xa0)
                        text[i - 1] = text[i] = ' ';
        }
}

/* The reason stands in the first line, a stack below it; Python prints its stack above the
 * reason. Returns its size. */
static size_t find_reason(const char **text, size_t size)
{
        static const char python[] = "Traceback (";
        const char *end, *before;

        for (; size > 0 && **text == '\n'; size--)
                ++*text;
        if (size < sizeof(python) || memcmp(*text, python, sizeof(python) - 1) != 0) {
                end = memchr(*text, '\n', size);
                return end ? (size_t)(end - *text) : size;
        }
        while (size > 0 && (*text)[size - 1] == '\n')
                size--;
        before = memrchr(*text, '\n', size);
        end = *text + size;
        *text = before ? before + 1 : *text;
        return (size_t)(end - *text);
}

/* The beginnings of messages of musl's loader. (The GNU one says "error while loading shared
 * libraries".) */
static int is_of_musl(const char *text, size_t size)
{
        static const char *const words[] = {"Error loading shared library ", "Error relocating "};

        for (size_t i = 0; size > 0 && i < sizeof(words) / sizeof(words[0]); i++)
                if (memmem(text, size, words[i], strlen(words[i])))
                        return 1;
        return 0;
}

void runtime_explain_end(const struct runtime *runtime, const char *text, size_t size, struct cloche_err *ret)
{
        _cleanup_buf_ struct buf line = BUF_INIT(4096);

        size = find_reason(&text, size);
        if (utf8_append_valid(&line, text, size < 240 ? size : 240) == 0)
                remove_controls(line.data, line.size);
        else
                buf_done(&line);
        err_set(ret, CLOCHE_E_MISSING_RUNTIME, "the image's interpreter for %s ended before it was ready: %s%s%.*s",
                runtime->name,
                is_of_musl(line.data, line.size) ? "the image's C library is musl, not the GNU one"
                                                 : "its modules or libraries are missing, or the C "
                                                   "library is not the GNU one",
                line.size ? ": " : "", (int)line.size, line.size ? line.data : "");
}

int runtime_is(const struct runtime *runtime, const char *language)
{
        const json_t *aliases = json_object_get(runtime->manifest, "aliases");

        if (strcmp(runtime->name, language) == 0)
                return 1;
        for (size_t i = 0; i < json_array_size(aliases); i++) {
                const char *alias = json_string_value(json_array_get(aliases, i));

                if (alias && strcmp(alias, language) == 0)
                        return 1;
        }
        return 0;
}

int runtimes_find(const struct runtimes *runtimes, const char *language, const struct runtime **ret,
                  struct cloche_err *e)
{
        char known[160] = "";
        size_t size = 0;

        for (size_t i = 0; language && i < runtimes->count; i++)
                if (runtime_is(&runtimes->rows[i], language)) {
                        *ret = &runtimes->rows[i];
                        return 0;
                }
        for (size_t i = 0; i < runtimes->count && size < sizeof(known); i++)
                size += (size_t)snprintf(known + size, sizeof(known) - size, "%s%s", i ? ", " : "",
                                         runtimes->rows[i].name);
        return err_set(e, CLOCHE_E_UNKNOWN_LANGUAGE, "unknown language '%.40s', expected one of: %s",
                       language ? language : "", known);
}
