/* The requests to cloche-files: parameters by the rows of spec/sandbox.def, globs of include and exclude. */
#include "box/files/params.h"
#include "box/files/search/path-filter.h"
#include "tap.h"

#include <string.h>

static void params(const char *method, const char *text, const char *refusal)
{
        json_t *value = json_loads(text, 0, NULL);
        struct cloche_err e = {0};
        int r = params_check(method, value, 4, &e);

        if (refusal)
                CHECK(r < 0 && strstr(e.msg, refusal), "%s %s is refused: %s", method, text, e.msg);
        else
                CHECK(r == 0, "%s %s is taken %s", method, text, e.msg);
        json_decref(value);
}

static void test_params(void)
{
        params("file.read", "{\"path\": \"a\"}", NULL);
        params("file.read", "{\"path\": \"a\", \"offset\": 0, \"limit\": 9007199254740991}", NULL);
        params("file.read", "{}", "file.read needs \"path\"");
        params("file.read", "{\"path\": 1}", "\"path\" of file.read must be a string without NUL");
        params("file.read", "{\"path\": \"a\", \"offset\": -1}", "\"offset\"");
        params("file.read", "{\"path\": \"a\", \"offset\": 1.5}", "\"offset\"");
        params("file.read", "{\"path\": \"a\", \"mode\": 1}", "file.read has no \"mode\"");
        params("file.read", "[]", "must be an object");
        params("file.reads", "{}", "there is no method");
        params("file.write", "{\"path\": \"a\", \"content\": \"b\"}", NULL);
        params("file.write", "{\"path\": \"a\", \"content\": {\"$\": \"bytes\", \"at\": 0, \"n\": 4}}", NULL);
        params("file.write", "{\"path\": \"a\", \"content\": {\"$\": \"bytes\", \"at\": 1, \"n\": 4}}", "");
        params("file.write", "{\"path\": \"a\", \"content\": {\"$\": \"undefined\"}}", "must be a string or bytes");
        params("file.write", "{\"path\": \"a\", \"content\": 1}", "must be a string or bytes");
        params("file.search", "{\"path\": \"a\", \"include\": [\"*.c\"], \"ignoreCase\": true}", NULL);
        params("file.search", "{\"path\": \"a\", \"include\": [1]}", "array of strings");
        params("file.search", "{\"path\": \"a\", \"include\": \"*.c\"}", "array of strings");
        params("file.search", "{\"path\": \"a\", \"ignoreCase\": 1}", "true or false");
}

static void filter(const char *text, const char *path, int excluded, int included)
{
        static const char *const absent[] = {".git", "node_modules", NULL};
        json_t *value = json_loads(text, 0, NULL);
        struct files_request q = {.params = value};
        struct path_filter s = {0};
        struct cloche_err e = {0};
        int r = path_filter_open(&s, &q, absent, &e);

        CHECK(r == 0 && path_filter_excludes(&s, path) == excluded && path_filter_includes(&s, path) == included,
              "%s: %s is %s and %s %s", text, path, excluded ? "excluded" : "not excluded",
              included ? "included" : "not included", e.msg);
        path_filter_done(&s);
        json_decref(value);
}

static void test_path_filter(void)
{
        json_t *value = json_loads("{\"exclude\": [\"a\", \"+(b/c)\"]}", 0, NULL);
        struct files_request q = {.params = value};
        struct path_filter s = {0};
        struct cloche_err e = {0};

        filter("{}", "src/.git", 1, 1);
        filter("{}", "src/git", 0, 1);
        filter("{\"exclude\": []}", ".git", 0, 1);
        filter("{\"exclude\": [\"build\"]}", "a/build", 1, 1);
        filter("{\"exclude\": [\"build/\"]}", "a/build", 1, 1);
        filter("{\"exclude\": [\"/build\"]}", "a/build", 0, 1);
        filter("{\"exclude\": [\"./build\"]}", "build", 1, 1);
        filter("{\"exclude\": [\"a/**\"]}", "a/b/c", 1, 1);
        filter("{\"exclude\": [\"*.o\"]}", "a/b.o", 1, 1);
        filter("{\"include\": [\"*.c\", \"src/**/*.h\"]}", "x/y.c", 0, 1);
        filter("{\"include\": [\"*.c\", \"src/**/*.h\"]}", "src/deep/y.h", 0, 1);
        filter("{\"include\": [\"*.c\", \"src/**/*.h\"]}", "y.h", 0, 0);
        filter("{\"include\": [\"*.{ts,tsx}\"]}", "a/b.tsx", 0, 1);
        CHECK(path_filter_open(&s, &q, NULL, &e) < 0 && strstr(e.msg, "\"exclude\"[1]"), "a bad glob is named: %s",
              e.msg);
        path_filter_done(&s);
        json_decref(value);
}

int main(void)
{
        test_params();
        test_path_filter();
        return tap_done();
}
