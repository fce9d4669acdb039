/* Lines and instructions. Runs in: the CLI, as its user. */
#include "dockerfile.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SPACE " \t"
#define LINK_FLAG "link" /* it has no value */

const char *const docker_names[DOCKER_WORDS] = {
        [DOCKER_FROM] = "FROM",
        [DOCKER_RUN] = "RUN",
        [DOCKER_COPY] = "COPY",
        [DOCKER_ADD] = "ADD",
        [DOCKER_ENV] = "ENV",
        [DOCKER_ARG] = "ARG",
        [DOCKER_WORKDIR] = "WORKDIR",
        [DOCKER_USER] = "USER",
        [DOCKER_CMD] = "CMD",
        [DOCKER_ENTRYPOINT] = "ENTRYPOINT",
        [DOCKER_LABEL] = "LABEL",
        [DOCKER_EXPOSE] = "EXPOSE",
        [DOCKER_SHELL] = "SHELL",
        [DOCKER_VOLUME] = "VOLUME",
        [DOCKER_STOPSIGNAL] = "STOPSIGNAL",
        [DOCKER_HEALTHCHECK] = "HEALTHCHECK",
        [DOCKER_MAINTAINER] = "MAINTAINER",
        [DOCKER_ONBUILD] = "ONBUILD",
};

/* How the words differ. */
static const struct {
        const char *flags[5]; /* names of those that are supported */
        int takes_list;
        int takes_documents; /* "<<WORD" begins one */
        int needs_list;
} rules[DOCKER_WORDS] = {
        [DOCKER_FROM] = {.flags = {"platform"}},
        [DOCKER_RUN] = {.flags = {"mount", "network"}, .takes_list = 1, .takes_documents = 1},
        [DOCKER_COPY] = {.flags = {"from", "chown", "chmod", "link"}, .takes_list = 1, .takes_documents = 1},
        [DOCKER_ADD] = {.flags = {"chown", "chmod", "link"}, .takes_list = 1, .takes_documents = 1},
        [DOCKER_CMD] = {.takes_list = 1},
        [DOCKER_ENTRYPOINT] = {.takes_list = 1},
        [DOCKER_SHELL] = {.takes_list = 1, .needs_list = 1},
        [DOCKER_VOLUME] = {.takes_list = 1},
        [DOCKER_HEALTHCHECK] = {.flags = {"interval", "timeout", "start-period", "start-interval", "retries"}},
};

struct reader {
        const char *at, *end, *name;
        unsigned line; /* the next one */
        int is_top;    /* only comments so far: directives */
        struct buf text;
};

#define refuse(r, line, e, ...) \
        ((void)err_set(e, CLOCHE_E_INVALID_ARGUMENT, __VA_ARGS__), err_wrap(e, "%s:%u", (r)->name, (unsigned)(line)))

/* -- lines ------------------------------------------------------------------------------------------------------ */

/* Cut one line off the text. */
static const char *cut_line(struct reader *r, size_t *ret_size)
{
        const char *begin = r->at, *newline = memchr(begin, '\n', (size_t)(r->end - begin));
        size_t size = (size_t)((newline ? newline : r->end) - begin);

        r->at = newline ? newline + 1 : r->end;
        r->line++;
        while (size > 0 && (begin[size - 1] == '\r' || begin[size - 1] == ' ' || begin[size - 1] == '\t'))
                size--;
        *ret_size = size;
        return begin;
}

static size_t skip_space(const char *text, size_t size)
{
        size_t at = 0;

        while (at < size && (text[at] == ' ' || text[at] == '\t'))
                at++;
        return at;
}

/* "# escape=X" before everything else. */
static int check_directive(const struct reader *r, const char *text, size_t size, struct cloche_err *e)
{
        size_t at = 1 + skip_space(text + 1, size - 1), name = strlen("escape");

        if (!r->is_top || size - at < name || strncasecmp(text + at, "escape", name) != 0)
                return 0;
        at += name;
        at += skip_space(text + at, size - at);
        if (at == size || text[at] != '=')
                return 0;
        at++;
        at += skip_space(text + at, size - at);
        return size - at == 1 && text[at] == '\\'
                       ? 0
                       : refuse(r, r->line - 1, e, "escape=%.*s is not supported: expected a backslash",
                                (int)(size - at), text + at);
}

/* Join the lines of one instruction in r->text, terminated. 1; 0: there is no further one. */
static int next_instruction(struct reader *r, unsigned *ret_line, struct cloche_err *e)
{
        int is_open = 0, is_over = 0;

        r->text.size = 0;
        while (!is_over && r->at < r->end) {
                size_t size, indent;
                const char *line = cut_line(r, &size);

                indent = skip_space(line, size);
                if (indent == size) /* empty: also between continued lines */
                        continue;
                if (line[indent] == '#') {
                        int bad = check_directive(r, line + indent, size - indent, e);

                        if (bad < 0)
                                return bad;
                        continue;
                }
                r->is_top = 0;
                if (!is_open)
                        *ret_line = r->line - 1;
                is_open = 1;
                is_over = line[size - 1] != '\\';
                if (buf_append(&r->text, line, is_over ? size : size - 1) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read %s", r->name);
        }
        if (is_open && buf_append(&r->text, "", 1) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read %s", r->name);
        return is_open;
}

/* -- one instruction -------------------------------------------------------------------------------------------- */

static int find_word(const struct reader *r, unsigned line, const char *text, size_t size, enum docker_word *ret,
                     struct cloche_err *e)
{
        for (size_t i = 0; i < DOCKER_WORDS; i++)
                if (strlen(docker_names[i]) == size && strncasecmp(docker_names[i], text, size) == 0) {
                        *ret = (enum docker_word)i;
                        return 0;
                }
        return refuse(r, line, e,
                      "'%.*s' is no instruction: expected FROM, RUN, COPY, ADD, ENV, ARG, WORKDIR, USER, CMD, "
                      "ENTRYPOINT, LABEL, EXPOSE, SHELL, VOLUME, STOPSIGNAL, HEALTHCHECK or ONBUILD",
                      size > 40 ? 40 : (int)size, text);
}

static int is_supported(enum docker_word word, const char *name, size_t size)
{
        for (size_t i = 0; i < sizeof(rules[0].flags) / sizeof(rules[0].flags[0]); i++) {
                const char *known = rules[word].flags[i];

                if (known && strlen(known) == size && strncmp(known, name, size) == 0)
                        return 1;
        }
        return 0;
}

/* Take flags off the beginning: --NAME=VALUE. */
static int take_flags(const struct reader *r, struct docker_step *step, const char **at, struct cloche_err *e)
{
        step->flags = json_array();
        for (*at += strspn(*at, SPACE); strncmp(*at, "--", 2) == 0; *at += strspn(*at, SPACE)) {
                size_t size = strcspn(*at, SPACE), name = strcspn(*at + 2, "= \t");

                if (!is_supported(step->word, *at + 2, name))
                        return refuse(r, step->line, e, "%s --%.*s is not supported", docker_names[step->word],
                                      name > 40 ? 40 : (int)name, *at + 2);
                if (((*at)[2 + name] != '=' && strncmp(*at + 2, LINK_FLAG, size - 2) != 0) ||
                    json_array_append_new(step->flags, json_stringn(*at + 2, size - 2)) < 0)
                        return refuse(r, step->line, e, "%s --%.*s: expected a value in UTF-8",
                                      docker_names[step->word], (int)name, *at + 2);
                *at += size;
        }
        return 0;
}

/* -- here documents --------------------------------------------------------------------------------------------- */

struct document {
        const char *name;
        size_t size;
        int is_raw, strips_tabs;
};

/* Read <<NAME at the beginning of a word, perhaps after the number of a descriptor. Return the
 * bytes; 0: it is none. */
static size_t read_document(const char *word, struct document *ret)
{
        const char *at = word + strspn(word, "0123456789");
        char quote;

        if (strncmp(at, "<<", 2) != 0)
                return 0;
        at += 2;
        ret->strips_tabs = *at == '-';
        at += ret->strips_tabs;
        quote = *at == '"' || *at == '\'' ? *at++ : '\0';
        ret->is_raw = quote != '\0';
        ret->name = at;
        while (isalnum((unsigned char)*at) || *at == '_')
                at++;
        ret->size = (size_t)(at - ret->name);
        if (ret->size == 0 || (quote && *at++ != quote) || (*at && !strchr(SPACE ";|&<>)", *at)))
                return 0;
        return (size_t)(at - word);
}

int docker_is_document(const char *word)
{
        struct document document;
        size_t size = read_document(word, &document);

        return size > 0 && !word[size];
}

/* The lines until that which is the name alone. They are raw, but for tabs before them. */
static int take_lines(struct reader *r, unsigned line, const struct document *d, json_t *list, struct cloche_err *e)
{
        _cleanup_buf_ struct buf text = BUF_INIT(DOCKERFILE_BYTES_MAX);

        while (r->at < r->end) {
                const char *begin = r->at, *newline = memchr(begin, '\n', (size_t)(r->end - begin));
                size_t size;

                r->at = newline ? newline + 1 : r->end;
                r->line++;
                while (d->strips_tabs && begin < r->at && *begin == '\t')
                        begin++;
                size = (size_t)(r->at - begin);
                if (size - (newline != NULL) == d->size && memcmp(begin, d->name, d->size) == 0)
                        return json_array_append_new(list, json_pack("{s:s%, s:s%, s:b}", "name", d->name, d->size,
                                                                     "text", text.data ? text.data : "", text.size,
                                                                     "isRaw", d->is_raw)) < 0
                                       ? refuse(r, line, e, "the here document '%.*s' is not UTF-8", (int)d->size,
                                                d->name)
                                       : 0;
                if (buf_append(&text, begin, size) < 0)
                        return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read %s", r->name);
        }
        return refuse(r, line, e, "the here document '%.*s' is not closed", d->size > 40 ? 40 : (int)d->size, d->name);
}

static int take_documents(struct reader *r, struct docker_step *step, struct cloche_err *e)
{
        int code = 0;

        for (const char *at = step->text; code == 0 && *at;) {
                struct document document;
                size_t size = read_document(at, &document);

                if (size > 0 && !step->documents)
                        step->documents = json_array();
                if (size > 0)
                        code = take_lines(r, step->line, &document, step->documents, e);
                at += size > 0 ? size : strcspn(at, SPACE);
                at += strspn(at, SPACE);
        }
        return code;
}

const char *docker_flag(const struct docker_step *step, const char *name)
{
        const size_t size = strlen(name);

        for (size_t i = 0; i < json_array_size(step->flags); i++) {
                const char *flag = json_string_value(json_array_get(step->flags, i));

                if (strncmp(flag, name, size) == 0 && (flag[size] == '=' || !flag[size]))
                        return flag + size + (flag[size] == '=');
        }
        return NULL;
}

/* -- one step --------------------------------------------------------------------------------------------------- */

/* Text that begins like a list and is none is a command of the shell, as elsewhere. */
json_t *docker_list(const char *text)
{
        json_t *list = *text == '[' ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
        size_t i = 0;

        while (json_is_string(json_array_get(list, i)))
                i++;
        if (list && (!json_is_array(list) || i != json_array_size(list))) {
                json_decref(list);
                return NULL;
        }
        return list;
}

static void step_done(struct docker_step *step)
{
        free(step->text);
        json_decref(step->list);
        json_decref(step->flags);
        json_decref(step->documents);
        *step = (struct docker_step){0};
}

static int read_trigger(const char *text, const char *name, unsigned line, struct docker_step *ret,
                        struct cloche_err *e);

static int read_step(struct reader *r, unsigned line, struct docker_step *ret, struct cloche_err *e)
{
        const char *at = r->text.data + strspn(r->text.data, SPACE);
        size_t size = strcspn(at, SPACE);
        int bad;

        *ret = (struct docker_step){.line = line};
        bad = find_word(r, line, at, size, &ret->word, e);
        if (bad < 0)
                return bad;
        at += size;
        bad = take_flags(r, ret, &at, e);
        if (bad < 0)
                return bad;
        if (!*at)
                return refuse(r, line, e, "%s needs a value", docker_names[ret->word]);
        ret->text = strdup(at);
        ret->list = rules[ret->word].takes_list ? docker_list(at) : NULL;
        if (!ret->text)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read %s", r->name);
        if (rules[ret->word].needs_list && json_array_size(ret->list) == 0)
                return refuse(r, line, e, "%s: expected a list, such as [\"/bin/bash\", \"-c\"]",
                              docker_names[ret->word]);
        if (ret->word == DOCKER_ONBUILD) {
                struct docker_step trigger = {0};
                int code = read_trigger(ret->text, r->name, line, &trigger, e);

                step_done(&trigger);
                return code;
        }
        return rules[ret->word].takes_documents && !ret->list ? take_documents(r, ret, e) : 0;
}

/* One line that is an instruction of another Dockerfile, for that of ONBUILD. */
static int read_trigger(const char *text, const char *name, unsigned line, struct docker_step *ret,
                        struct cloche_err *e)
{
        struct reader r = {.at = text,
                           .end = text + strlen(text),
                           .name = name,
                           .line = line,
                           .text = BUF_INIT(DOCKERFILE_BYTES_MAX + 1)};
        const char *word = text + strspn(text, SPACE);
        const size_t size = strcspn(word, SPACE);
        int code = size == strlen("ONBUILD") && strncasecmp(word, "ONBUILD", size) == 0
                           ? refuse(&r, line, e, "ONBUILD ONBUILD: it stands once")
                           : 0;

        if (code == 0)
                code = strchr(text, '\n') ? refuse(&r, line, e, "ONBUILD: expected one instruction")
                                          : next_instruction(&r, &(unsigned){0}, e);
        if (code > 0)
                code = read_step(&r, line, ret, e);
        else if (code == 0)
                code = refuse(&r, line, e, "ONBUILD: expected an instruction");
        if (code == 0 && (ret->word == DOCKER_FROM || ret->word == DOCKER_MAINTAINER))
                code = refuse(&r, line, e, "ONBUILD %s is not permitted", docker_names[ret->word]);
        buf_done(&r.text);
        return code;
}

static int check_order(const struct reader *r, const struct dockerfile *file, const struct docker_step *step,
                       int *has_from, struct cloche_err *e)
{
        *has_from |= step->word == DOCKER_FROM;
        if (!*has_from && step->word != DOCKER_ARG)
                return refuse(r, step->line, e, "%s stands before FROM: only ARG may", docker_names[step->word]);
        return file->count <= DOCKERFILE_STEPS_MAX
                       ? 0
                       : refuse(r, step->line, e, "there are more than %d instructions", DOCKERFILE_STEPS_MAX);
}

int dockerfile_read(const char *text, size_t size, const char *name, struct dockerfile *ret, struct cloche_err *e)
{
        struct reader r = {.at = text,
                           .end = text + size,
                           .name = name,
                           .line = 1,
                           .is_top = 1,
                           .text = BUF_INIT(DOCKERFILE_BYTES_MAX + 1)};
        int has_from = 0, more = 0;
        unsigned line = 0;

        *ret = (struct dockerfile){0};
        if (size > DOCKERFILE_BYTES_MAX || memchr(text, '\0', size))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s is no text of at most %u bytes", name,
                               DOCKERFILE_BYTES_MAX);
        while ((more = next_instruction(&r, &line, e)) > 0) {
                if (ARRAY_GROW(ret->steps, ret->count, ret->room) < 0) {
                        more = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read %s", name);
                        break;
                }
                more = read_step(&r, line, &ret->steps[ret->count++], e);
                if (more == 0)
                        more = check_order(&r, ret, &ret->steps[ret->count - 1], &has_from, e);
                if (more < 0)
                        break;
        }
        buf_done(&r.text);
        if (more == 0 && !has_from)
                more = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s has no FROM", name);
        return more;
}

void dockerfile_done(struct dockerfile *file)
{
        for (size_t i = 0; i < file->count; i++)
                step_done(&file->steps[i]);
        free(file->steps);
        *file = (struct dockerfile){0};
}

int dockerfile_insert(struct dockerfile *file, size_t at, const char *text, const char *name, struct cloche_err *e)
{
        const unsigned line = file->steps[at].line;
        struct docker_step step = {0};
        int r = file->count < DOCKERFILE_STEPS_MAX
                        ? read_trigger(text, name, line, &step, e)
                        : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s:%u: there are more than %d instructions", name,
                                  line, DOCKERFILE_STEPS_MAX);

        if (r == 0 && ARRAY_GROW(file->steps, file->count, file->room) < 0)
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read %s", name);
        if (r < 0) {
                step_done(&step);
                return r;
        }
        memmove(&file->steps[at + 2], &file->steps[at + 1], (file->count - at - 1) * sizeof(step));
        file->steps[at + 1] = step;
        file->count++;
        return 0;
}
