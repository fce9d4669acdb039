/* The options for code, arguments and environment. Runs in: the command line, as its user. */
#include "members.h"
#include "options.h"

#include "base/env.h"
#include "base/err.h"
#include "base/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE_BYTES_MAX (64u << 20)

/* -- texts ---------------------------------------------------------------------------------------------------- */

struct text {
        char *data; /* terminated */
        size_t size;
};

static int read_all(int fd, const char *name, struct text *ret)
{
        size_t room = 0;

        for (;;) {
                ssize_t n;

                if (room - ret->size < 2) {
                        char *grown;

                        room = room ? room * 2 : 65536;
                        grown = realloc(ret->data, room);
                        if (!grown)
                                return cli_bad("out of memory");
                        ret->data = grown;
                }
                n = read(fd, ret->data + ret->size, room - ret->size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return cli_bad("cannot read '%s': %s", name, strerror(errno));
                if (n == 0)
                        break;
                ret->size += (size_t)n;
                if (ret->size > CODE_BYTES_MAX)
                        return cli_bad("'%s' has more than %u bytes", name, CODE_BYTES_MAX);
        }
        ret->data[ret->size] = '\0';
        return 0;
}

static int read_path(const char *option, const char *path, struct text *ret)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC), bad;

        if (fd < 0)
                return cli_bad("%s%scannot read '%s': %s", option, *option ? ": " : "", path, strerror(errno));
        bad = read_all(fd, path, ret);
        close(fd);
        return bad;
}

/* Standard input can be read once: for the code or one option's value. */
static int read_stdin(struct cli_request *r, const char *by, struct text *ret)
{
        if (r->stdin_is_for)
                return cli_bad("%s: standard input is already used by %s", by, r->stdin_is_for);
        r->stdin_is_for = by;
        return read_all(STDIN_FILENO, "standard input", ret);
}

/* -- values --------------------------------------------------------------------------------------------------- */

int options_keep_text(struct cli_request *request, char *text)
{
        if (request->text_count == CLI_TEXTS_MAX) {
                free(text);
                return cli_bad("more than %d values are read from files", CLI_TEXTS_MAX);
        }
        request->texts[request->text_count++] = text;
        return 0;
}

/* "@FILE" names a file with the value, "-" is standard input. No JSON value begins so, except a
 * negative number, where a digit follows. */
static int set_value(struct cli_request *r, const char *option, const char *v, const char **ret)
{
        struct text text = {0};
        int bad;

        if (*ret)
                return cli_bad("%s: given twice; put all arguments into one value", option);
        if (v[0] != '@' && strcmp(v, "-") != 0) {
                *ret = v;
                return 0;
        }
        bad = v[0] == '@' ? read_path(option, v + 1, &text) : read_stdin(r, option, &text);
        if (bad == 0 && strlen(text.data) != text.size)
                bad = cli_bad("%s: '%s' contains a NUL character", option, v);
        if (bad) {
                free(text.data);
                return bad;
        }
        *ret = text.data;
        return options_keep_text(r, text.data);
}

#define VALUE_SETTER(member)                                           \
        int options_set_##member(struct cli_request *r, const char *v) \
        {                                                              \
                return set_value(r, "--" #member, v, &r->run.member);  \
        }

VALUE_SETTER(args)
VALUE_SETTER(kwargs)
VALUE_SETTER(schema)
VALUE_SETTER(build)

/* A name alone passes the variable's present value. */
int options_set_env(struct cli_request *r, const char *v)
{
        const char *value = strchr(v, '=') ? NULL : getenv(v);
        char *entry = NULL;

        if (v[0] == '=' || !*v)
                return cli_bad("--env: '%s' is neither NAME nor NAME=VALUE", v);
        if (env_name_size(v) != strcspn(v, "="))
                return cli_bad("--env: \"%.*s\" is not a valid name of a variable, expected [A-Za-z_][A-Za-z0-9_]*",
                               (int)strcspn(v, "="), v);
        if (!strchr(v, '=') && !value)
                return cli_bad("--env: the variable %s is not set here (%s=VALUE sets it)", v, v);
        if (r->run.env_count == CLI_ENV_MAX)
                return cli_bad("--env: given more than %d times", CLI_ENV_MAX);
        if (asprintf(&entry, "%s%s%s", v, value ? "=" : "", value ? value : "") < 0)
                return cli_bad("out of memory");
        r->env[r->run.env_count++] = entry;
        return 0;
}

/* -- code ----------------------------------------------------------------------------------------------------- */

static int first_code(struct cli_request *r)
{
        return r->have_code++ ? cli_bad("code was given twice: use one of FILE, -c, -f and -") : 0;
}

static int take_code(struct cli_request *r, int bad, struct text *text)
{
        r->code = text->data;
        r->code_size = text->size;
        return bad;
}

int options_set_code(struct cli_request *r, const char *v)
{
        struct text text = {.size = strlen(v)};
        int bad = first_code(r);

        if (bad)
                return bad;
        text.data = strdup(v);
        return take_code(r, text.data ? 0 : cli_bad("out of memory"), &text);
}

static int read_code_file(struct cli_request *r, const char *option, const char *path)
{
        const char *slash = strrchr(path, '/');
        struct text text = {0};
        int bad = first_code(r);

        if (bad)
                return bad;
        r->run.filename = slash ? slash + 1 : path;
        bad = read_path(option, path, &text);
        return take_code(r, bad, &text);
}

int options_set_code_file(struct cli_request *r, const char *v)
{
        return read_code_file(r, "-f", v);
}

int options_set_code_stdin(struct cli_request *r, const char *v)
{
        struct text text = {0};
        int bad = first_code(r);

        (void)v;
        r->is_code_stdin = 1;
        if (bad == 0)
                bad = take_code(r, read_stdin(r, "-", &text), &text);
        return bad;
}

/* -- words ---------------------------------------------------------------------------------------------------- */

static int is_among(const json_t *texts, const char *text)
{
        const json_t *one;
        size_t i;

        json_array_foreach (texts, i, one)
                if (strcmp(json_string_value(one), text) == 0)
                        return 1;
        return 0;
}

static int is_named(const json_t *language, const char *word)
{
        return strcmp(json_string_value(json_object_get(language, "name")), word) == 0 ||
               is_among(json_object_get(language, "aliases"), word);
}

/* True if `word` is a language. Otherwise *ret_of_file is the language of a file of that name,
 * NULL: none. */
static int find_language(const json_t *languages, const char *word, const json_t **ret_of_file)
{
        const char *dot = strrchr(word, '.');
        const json_t *language;
        size_t i;

        *ret_of_file = NULL;
        json_array_foreach (languages, i, language) {
                if (is_named(language, word))
                        return 1;
                if (dot && is_among(json_object_get(language, "extensions"), dot))
                        *ret_of_file = language;
        }
        return 0;
}

static int load_languages(struct cli_request *r, struct cloche_err *e)
{
        char *text = NULL;
        int code = r->languages ? 0 : cloche_languages(&r->engine, &text, e);

        if (code < 0 || r->languages)
                return code;
        r->languages = json_loads(text, 0, NULL);
        free(text);
        return r->languages ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "list the languages");
}

int options_is_language(const char *word)
{
        struct cli_request room = {0};
        const json_t *of_file;
        struct cloche_err e = {0};
        int is_one = load_languages(&room, &e) == 0 && find_language(room.languages, word, &of_file);

        json_decref(room.languages);
        return is_one;
}

int options_is_code_word(const char *word)
{
        struct cli_request room = {0};
        const json_t *of_file = NULL;
        struct cloche_err e = {0};
        int is_one = load_languages(&room, &e) == 0 && (find_language(room.languages, word, &of_file) || of_file);

        json_decref(room.languages);
        return is_one;
}

static const char *suggest_language(const json_t *languages, const char *word, char ret[SUGGEST_TEXT_BYTES])
{
        struct suggest s = suggest_for(word, strlen(word));
        const json_t *language;
        size_t i;

        json_array_foreach (languages, i, language) {
                const char *name = json_string_value(json_object_get(language, "name"));

                suggest_candidate(&s, name, strlen(name));
        }
        return suggest_text(&s, ret);
}

int options_refuse(struct cli_request *r, const struct cloche_err *e)
{
        struct cloche_err ignored;
        char meant[SUGGEST_TEXT_BYTES], text[MEMBERS_TEXT_BYTES];

        if (cloche_code_fault(e->code) != CLOCHE_FAULT_CALLER)
                return cli_fail(e);
        if (e->code != CLOCHE_E_UNKNOWN_LANGUAGE || !r->run.language || load_languages(r, &ignored) < 0)
                return cli_bad("%s", members_of_run(r, e->msg, text));
        return cli_bad("%s%s", e->msg, suggest_language(r->languages, r->run.language, meant));
}

static void drop_word(struct cli_request *r, int at)
{
        r->positional_count--;
        memmove(&r->positional[at], &r->positional[at + 1],
                (size_t)(r->positional_count - at) * sizeof(r->positional[0]));
        r->positional[r->positional_count] = NULL;
}

int options_take_code_word(struct cli_request *r, int at)
{
        const json_t *of_file;
        char meant[SUGGEST_TEXT_BYTES];
        struct cloche_err e = {0};
        int bad;

        if (r->have_code || r->positional_count <= at)
                return 0;
        if (load_languages(r, &e) < 0)
                return cli_fail(&e);
        if (find_language(r->languages, r->positional[at], &of_file)) {
                if (r->positional_count <= at + 1)
                        return 0;
                bad = read_code_file(r, "", r->positional[at + 1]);
                drop_word(r, at + 1);
        } else if (of_file) {
                bad = read_code_file(r, "", r->positional[at]);
                r->positional[at] = json_string_value(json_object_get(of_file, "name"));
        } else {
                bad = cli_bad("'%s' is neither a language nor a file with the extension of one (cloche languages "
                              "lists them)%s",
                              r->positional[at], suggest_language(r->languages, r->positional[at], meant));
        }
        return bad;
}
