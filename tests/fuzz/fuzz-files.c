/* Requests to cloche-files: a method, a line; its parameters as JSON, a line; then lines of a path, and perhaps behind
 * a tab a link's target. */
#include "box/files/archive/member.h"
#include "box/files/params.h"
#include "box/files/search/path-filter.h"
#include "box/files/tree/path.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How deep below the top each step of the target leads; out is out. */
static int leads_out(const char *path, const char *target)
{
        int depth = 0;

        for (const char *at = path; (at = strchr(at, '/')); at++)
                depth++;
        if (*target == '/')
                return 1;
        for (const char *at = target; *at;) {
                size_t size = strcspn(at, "/");

                if (size == 2 && strncmp(at, "..", 2) == 0)
                        depth--;
                else if (size && !(size == 1 && *at == '.'))
                        depth++;
                if (depth < 0)
                        return 1;
                at += size + (at[size] == '/');
        }
        return 0;
}

static void check_member(char *line)
{
        char path[MEMBER_PATH_MAX + 1], *target = line, *given = strsep(&target, "\t");

        if (member_path(given, path, NULL) < 0)
                return;
        if (*path == '/' || strstr(path, "//") || leads_out("", path) || strlen(path) > strlen(given))
                abort();
        if (target && member_check_link(path, target, NULL) == 0 && leads_out(path, target))
                abort();
}

static void check_path(const char *given)
{
        char *path = NULL;

        if (path_absolute("/workspace", given, &path, NULL) == 0 &&
            (*path != '/' || strstr(path, "//") || strlen(path) > PATH_BYTES_MAX))
                abort();
        free(path);
}

static void match_lines(const struct path_filter *filter, const char *lines)
{
        char *copy = lines ? strdup(lines) : NULL, *rest = copy, *line;

        while (rest && (line = strsep(&rest, "\n")))
                if (path_filter_excludes(filter, line) < 0 || path_filter_includes(filter, line) < 0)
                        abort();
        free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = calloc(1, size + 1), *rest = text, *method, *line;
        json_t *params;

        if (!text)
                return 0;
        memcpy(text, data, size);
        method = strsep(&rest, "\n");
        line = rest ? strsep(&rest, "\n") : method;
        params = json_loads(line, 0, NULL);
        if (params && params_check(method, params, 64, NULL) == 0) {
                struct files_request q = {.params = params};
                struct path_filter filter = {0};

                if (path_filter_open(&filter, &q, NULL, NULL) == 0)
                        match_lines(&filter, rest);
                path_filter_done(&filter);
        }
        json_decref(params);
        while (rest && (line = strsep(&rest, "\n"))) {
                check_path(line);
                check_member(line);
        }
        free(text);
        return 0;
}
