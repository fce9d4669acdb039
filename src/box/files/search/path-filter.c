/* Runs in: a job of cloche-files, within a box, with its user's rights. */
#include "path-filter.h"

#include "base/err.h"
#include "box/files/tree/path.h"
#include "helpers/fs/rules/glob.h"

#include <string.h>

struct path_filter_glob {
        struct glob *glob;
        int is_of_names;
};

static void list_done(struct path_filter_list *list)
{
        for (size_t i = 0; i < list->count; i++)
                glob_free(list->globs[i].glob);
        free(list->globs);
        *list = (struct path_filter_list){0};
}

void path_filter_done(struct path_filter *s)
{
        list_done(&s->include);
        list_done(&s->exclude);
}

/* "build/" equals "build"; "/build" and "./build" match at the top only. */
static int add(struct path_filter_list *list, const char *pattern, struct cloche_err *e)
{
        struct path_filter_glob *glob = &list->globs[list->count];
        _cleanup_text_ char *plain = strdup(pattern);
        const char *from = plain;
        size_t size;
        int r;

        if (!plain)
                return request_no_memory(e);
        size = strlen(plain);
        if (size > 1 && plain[size - 1] == '/' && plain[size - 2] != '\\')
                plain[size - 1] = '\0';
        glob->is_of_names = strchr(plain, '/') == NULL;
        from += strncmp(from, "./", 2) == 0 ? 1 : 0;
        while (*from == '/' && from[1])
                from++;
        r = glob_compile(from, &glob->glob, e);
        list->count += r == 0;
        return r;
}

static int read_list(struct path_filter_list *list, const json_t *given, const char *name, struct cloche_err *e)
{
        const json_t *item;
        size_t i;
        int r = 0;

        if (json_array_size(given) > PATH_FILTER_GLOBS_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "\"%s\" has %zu globs, at most %d are accepted", name,
                               json_array_size(given), PATH_FILTER_GLOBS_MAX);
        list->is_given = 1;
        list->globs = calloc(json_array_size(given) + 1, sizeof(*list->globs));
        if (!list->globs)
                return request_no_memory(e);
        json_array_foreach ((json_t *)given, i, item)
                if (r == 0 && (r = add(list, json_string_value(item), e)) < 0)
                        err_wrap(e, "\"%s\"[%zu]", name, i);
        return r;
}

static int read_absent(struct path_filter_list *list, const char *const *absent, struct cloche_err *e)
{
        size_t count = 0;
        int r = 0;

        while (absent && absent[count])
                count++;
        list->globs = calloc(count + 1, sizeof(*list->globs));
        if (!list->globs)
                return request_no_memory(e);
        for (size_t i = 0; r == 0 && i < count; i++)
                r = add(list, absent[i], e);
        return r;
}

int path_filter_open(struct path_filter *s, const struct files_request *q, const char *const *absent,
                     struct cloche_err *e)
{
        const json_t *include = json_object_get(q->params, "include"), *exclude = json_object_get(q->params, "exclude");
        int r = include ? read_list(&s->include, include, "include", e) : 0;

        if (r < 0)
                return r;
        return exclude ? read_list(&s->exclude, exclude, "exclude", e) : read_absent(&s->exclude, absent, e);
}

static int matches(const struct path_filter_list *list, const char *path)
{
        for (size_t i = 0; i < list->count; i++)
                if (glob_matches(list->globs[i].glob, list->globs[i].is_of_names ? path_name(path) : path))
                        return 1;
        return 0;
}

int path_filter_excludes(const struct path_filter *s, const char *path)
{
        return matches(&s->exclude, path);
}

int path_filter_includes(const struct path_filter *s, const char *path)
{
        return !s->include.is_given || s->include.count == 0 || matches(&s->include, path);
}
