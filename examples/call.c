/* A Python function called from C. Build: cc call.c $(pkg-config --cflags --libs libcloche) */
#include <cloche/cloche.h>
#include <stdio.h>

static int call(cloche_engine *engine, struct cloche_err *e)
{
        struct cloche_run_options options = {
                .kind = CLOCHE_CALL,
                .language = "python",
                .code = "def add(a, b):\n    return a + b\n",
                .function = "add",
                .args = "[40, 2]",
                .limits = {.wall_ms = 10000, .memory_bytes = 128u << 20},
        };
        cloche_run *run = NULL;
        cloche_result *result = NULL;
        int r = cloche_run_start(engine, &options, &run, e);

        if (r == 0)
                r = cloche_run_wait(run, &result, e);
        if (r == 0)
                printf("%s: %s\n", cloche_status_name(cloche_result_status(result)), cloche_result_value(result));
        cloche_result_free(result);
        cloche_run_free(run);
        return r;
}

int main(void)
{
        cloche_engine *engine = NULL;
        struct cloche_err e = {0};
        int r = cloche_engine_new(NULL, &engine, &e);

        if (r == 0)
                r = call(engine, &e);
        cloche_engine_free(engine);
        if (r < 0)
                fprintf(stderr, "%s: %s\n", cloche_code_name(e.code), e.msg);
        return r < 0;
}
