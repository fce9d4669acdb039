/* Columns of the lists of processes and contexts. Runs in: the CLI, as its user. */
#include "columns.h"
#include "print.h"

#include "cli/sandbox/sandbox-options.h"

static void make_status(FILE *out, const json_t *process, int is_plain)
{
        const json_t *code = json_object_get(process, "exitCode"), *signal = json_object_get(process, "signal");

        (void)is_plain;
        fputs(sandbox_text(process, "status"), out);
        if (json_is_string(signal))
                fprintf(out, " %s", json_string_value(signal));
        else if (json_integer_value(code) != 0)
                fprintf(out, " %lld", (long long)json_integer_value(code));
}

const struct table_column columns_of_processes[COLUMNS_OF_PROCESSES] = {
        {"PROCESS", CELL_NAME, "process", 20, NULL},  {"PID", CELL_COUNT, "pid", 0, NULL},
        {"STATUS", CELL_STATE, NULL, 0, make_status}, {"SESSION", CELL_NAME, "session", 8, NULL},
        {"STARTED", CELL_TIME, "startedAt", 0, NULL}, {"COMMAND", CELL_NAME, "command", 20, NULL},
};

/* The rest, each behind its name. */
static void make_notes(FILE *out, const json_t *context, int is_plain)
{
        static const struct {
                const char *name, *member;
        } rows[] = {{"prefix", "prefix"}, {"of", "forkedFrom"}, {"cold:", "coldWhy"}, {"ended:", "endedWhy"}};
        const char *before = "";

        (void)is_plain;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const json_t *text = json_object_get(context, rows[i].member);

                if (!json_is_string(text))
                        continue;
                fprintf(out, "%s%s ", before, rows[i].name);
                print_name(out, json_string_value(text));
                before = "  ";
        }
}

const struct table_column columns_of_contexts[COLUMNS_OF_CONTEXTS] = {
        {"CONTEXT", CELL_NAME, "context", 20, NULL},
        {"LANGUAGE", CELL_NAME, "language", 0, NULL},
        {"STATE", CELL_STATE, "state", 0, NULL},
        {"CELLS", CELL_COUNT, "executionCount", 0, NULL},
        {"CHECKPOINTS", CELL_COUNT, "checkpoints", 0, NULL},
        {"USED", CELL_TIME, "lastUsedAt", 0, NULL},
        {"INTERPRETER", CELL_NAME, "interpreter", 12, NULL},
        {"NOTES", CELL_NAME, NULL, 16, make_notes},
};
