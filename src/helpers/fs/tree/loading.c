/* Choose the host's files that the guest sees.
 * Runs in: cloche-fs, as the mounted directory's owner or the caller, confined. */
#include "loading.h"

#include "base/array.h"
#include "base/err.h"
#include "helpers/fs/rules/glob.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct loading {
        const struct settings *settings;
        struct glob **files, **ways; /* included; directories that may lead to them */
        size_t file_count, way_count, file_room, way_room;
};

static int add(struct glob ***list, size_t *count, size_t *room, const char *pattern, struct cloche_err *e)
{
        if (ARRAY_GROW(*list, *count, *room) < 0)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the patterns");
        return glob_compile(pattern, &(*list)[*count], e) < 0 ? -(int)e->code : ((*count)++, 0);
}

/* The end of the segment at `at`, or NULL if a slash stands inside braces or a group: such a
 * pattern is not split. */
static const char *segment_end(const char *at)
{
        int depth = 0;

        for (; *at && (*at != '/' || depth > 0); at++) {
                if (*at == '\\' && at[1])
                        at++;
                else if (*at == '/')
                        return NULL;
                else if (*at == '{' || *at == '(')
                        depth++;
                else if ((*at == '}' || *at == ')') && depth > 0)
                        depth--;
                if (depth > 0 && at[1] == '/')
                        return NULL;
        }
        return at;
}

/* Add the directories on the way to possible matches: the pattern's prefixes, and everything from a
 * ** or an unsplittable part on. */
static int add_ways(struct loading *loading, const char *pattern, struct cloche_err *e)
{
        char front[GLOB_BYTES_MAX + 8];
        const char *at = pattern, *end = NULL;
        int r = 0;

        while (r == 0 && *pattern != '!' && (end = segment_end(at)) && *end == '/') {
                if (end - at == 2 && memcmp(at, "**", 2) == 0)
                        break;
                snprintf(front, sizeof(front), "%.*s", (int)(end - pattern), pattern);
                if (end > at)
                        r = add(&loading->ways, &loading->way_count, &loading->way_room, front, e);
                at = end + 1;
        }
        if (r < 0 || (end && *end == '\0' && strcmp(at, "**") != 0))
                return r;
        snprintf(front, sizeof(front), "%.*s**", (int)(at - pattern), pattern);
        return add(&loading->ways, &loading->way_count, &loading->way_room, front, e);
}

static int add_include(struct loading *loading, const json_t *given, size_t index, struct cloche_err *e)
{
        const char *pattern = json_string_value(given);
        char below[GLOB_BYTES_MAX + 8];
        int r;

        if (!pattern || !*pattern || strlen(pattern) > GLOB_BYTES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "loading.include[%zu]: expected a pattern of at most %d bytes", index, GLOB_BYTES_MAX);
        r = add(&loading->files, &loading->file_count, &loading->file_room, pattern, e);
        snprintf(below, sizeof(below), "%s/**", pattern);
        if (r == 0 && *pattern != '!')
                r = add(&loading->files, &loading->file_count, &loading->file_room, below, e);
        if (r == 0)
                r = add_ways(loading, pattern, e);
        return r < 0 ? err_wrap(e, "loading.include[%zu]", index) : 0;
}

int loading_new(const struct settings *settings, struct loading **ret, struct cloche_err *e)
{
        struct loading *loading = calloc(1, sizeof(*loading));
        int r = loading ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "read the patterns");

        if (r < 0)
                return r;
        loading->settings = settings;
        if (json_array_size(settings->include) > RULES_MAX)
                r = err_set(e, CLOCHE_E_INVALID_ARGUMENT, "loading.include: there are more than %d", RULES_MAX);
        for (size_t i = 0; r == 0 && settings->loading == LOADING_EXPLICIT && i < json_array_size(settings->include);
             i++)
                r = add_include(loading, json_array_get(settings->include, i), i, e);
        if (r < 0) {
                loading_free(loading);
                return r;
        }
        *ret = loading;
        return 0;
}

void loading_free(struct loading *loading)
{
        if (!loading)
                return;
        for (size_t i = 0; i < loading->file_count; i++)
                glob_free(loading->files[i]);
        for (size_t i = 0; i < loading->way_count; i++)
                glob_free(loading->ways[i]);
        free(loading->files);
        free(loading->ways);
        free(loading);
}

bool loading_needs_stat(const struct loading *loading)
{
        return loading->settings->max_file_bytes || loading->settings->loading == LOADING_EXPLICIT;
}

static bool any(struct glob *const *list, size_t count, const char *path)
{
        for (size_t i = 0; i < count; i++)
                if (glob_matches(list[i], path))
                        return true;
        return false;
}

static bool included(const struct loading *loading, const char *path, const struct stat *st)
{
        if (loading->settings->loading != LOADING_EXPLICIT || !*path)
                return true;
        return any(loading->files, loading->file_count, path) ||
               (S_ISDIR(st->st_mode) && any(loading->ways, loading->way_count, path));
}

bool loading_admits(const struct loading *loading, const char *path, const struct stat *st, const char **ret_why)
{
        uint64_t max = loading->settings->max_file_bytes;

        *ret_why = NULL;
        if (!included(loading, path, st))
                return false;
        if (!max || !S_ISREG(st->st_mode) || (uint64_t)st->st_size <= max)
                return true;
        *ret_why = "larger than maxFileSize";
        return false;
}
