/* The end of a run: one verdict from all that is known, and the result object of the contract. Runs
 * in: the engine; everything of the guest in it is untrusted. */
#include "base/err.h"
#include "base/utf8.h"
#include "engine/box/limits.h"
#include "engine/loop/engine.h"
#include "helpers/fs/rules/glob.h"
#include "wire/base64.h"
#include "wire/json.h"
#include "wire/value.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct cloche_result {
        cloche_changeset *changeset;
        enum cloche_status status;
        int exit_code;
        json_t *root;
        char *value, *json;
        struct buf out[2];
};

static const int status_exit_codes[CLOCHE_STATUS_COUNT] = {
#define CLOCHE_STATUS(symbol, name, exit_code, doc) [CLOCHE_STATUS_##symbol] = exit_code,
#include <cloche/statuses.def>
#undef CLOCHE_STATUS
};

/* -- the verdict ---------------------------------------------------------------------------------------------- */

struct verdict {
        enum cloche_status status;
        int exit_code;
        const char *limit; /* the limit that ended the run, or NULL */
        char type[64], message[512];
};

static void set_verdict(struct verdict *v, enum cloche_status status, const char *type, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

static void set_verdict(struct verdict *v, enum cloche_status status, const char *type, const char *format, ...)
{
        va_list ap;

        v->status = status;
        v->exit_code = status_exit_codes[status];
        snprintf(v->type, sizeof(v->type), "%s", type);
        va_start(ap, format);
        vsnprintf(v->message, sizeof(v->message), format, ap);
        va_end(ap);
}

static double run_ms(const struct cloche_run *run)
{
        return (double)(run->ended_ns - run->started_ns) / 1e6;
}

static void set_timeout_verdict(struct verdict *v, const char *type, double used_ms, const char *of_what,
                                uint64_t limit_ms)
{
        char used[LIMITS_TEXT_BYTES], limit[LIMITS_TEXT_BYTES];

        set_verdict(v, CLOCHE_STATUS_TIMEOUT, type, "stopped after %s%s; the limit is %s",
                    limits_ms_text(used_ms, used), of_what, limits_ms_text((double)limit_ms, limit));
}

static void judge_end(const struct cloche_run *run, const struct keeper_usage *usage, struct verdict *v)
{
        char text[LIMITS_TEXT_BYTES];

        switch (run->end) {
        case RUN_END_WALL:
                v->limit = "wallMs";
                set_timeout_verdict(v, "WallTimeLimit", run_ms(run), "", run->limits.wall_ms);
                break;
        case RUN_END_CPU:
                v->limit = "cpuMs";
                set_timeout_verdict(v, "CpuTimeLimit", (double)usage->cpu_ns / 1e6, " of processor time",
                                    run->limits.cpu_ms);
                break;
        case RUN_END_CANCELLED:
                set_verdict(v, CLOCHE_STATUS_TERMINATED, "Cancelled", "cancelled by the caller after %s",
                            limits_ms_text(run_ms(run), text));
                break;
        case RUN_END_PROTOCOL:
                set_verdict(v, CLOCHE_STATUS_CRASH, "ProtocolError",
                            "the interpreter was killed: its agent sent an invalid message: %s", run->problem.msg);
                break;
        case RUN_END_BRIDGE:
                v->limit = run->bridge.calls > run->limits.bridge_calls ? "bridgeCalls" : "bridgeBytes";
                set_verdict(v, CLOCHE_STATUS_ERROR, "BridgeLimit", "%s", run->problem.msg);
                break;
        case RUN_END_FAILED:
        case RUN_END_NONE:
                break;
        }
}

/* The interpreter is gone, and the engine did not kill it. */
static void judge_death(const struct cloche_run *run, const struct keeper_usage *usage, struct verdict *v)
{
        int status = run->box.exit.wait_status, by_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        char text[LIMITS_TEXT_BYTES];
        uint64_t cpu_ms = (run->box.exit.user_us + run->box.exit.system_us) / 1000;

        if (usage->oom_kills > 0 && (!run->box.exited || by_signal == SIGKILL)) {
                v->limit = "memoryBytes";
                set_verdict(v, CLOCHE_STATUS_CRASH, "MemoryLimit", "killed: it ran out of memory; the limit is %s",
                            limits_bytes_text(run->limits.memory_bytes, text));
        } else if (!run->box.exited) {
                set_verdict(v, CLOCHE_STATUS_CRASH, "BoxDied", "the box ended before the run did");
        } else if ((by_signal == SIGXCPU || by_signal == SIGKILL) && cpu_ms >= run->limits.cpu_ms) {
                v->limit = "cpuMs";
                set_timeout_verdict(v, "CpuTimeLimit", (double)cpu_ms, " of processor time", run->limits.cpu_ms);
        } else if (by_signal) {
                set_verdict(v, CLOCHE_STATUS_CRASH, "Signal", "killed by signal %d (SIG%s)", by_signal,
                            sigabbrev_np(by_signal) ? sigabbrev_np(by_signal) : "?");
                if (run->kind == CLOCHE_SCRIPT)
                        v->exit_code = 128 + by_signal;
        } else if (run->kind == CLOCHE_CALL) {
                set_verdict(v, CLOCHE_STATUS_CRASH, "NoResult",
                            "the interpreter exited with %d before there was a result", WEXITSTATUS(status));
        } else if (WEXITSTATUS(status) != 0) {
                set_verdict(v, CLOCHE_STATUS_ERROR, "ExitStatus", "the script exited with %d", WEXITSTATUS(status));
                v->exit_code = WEXITSTATUS(status);
        }
}

static void judge_error(const struct cloche_run *run, struct verdict *v)
{
        const json_t *data = json_object_get(run->answer, "data");
        const char *type = json_string_value(json_object_get(data, "type"));

        set_verdict(v, CLOCHE_STATUS_ERROR, type ? type : "Error", "%s", "");
        if (run->kind == CLOCHE_SCRIPT && run->runtime->is_compiled && !run->is_forked)
                v->exit_code = CLOCHE_EXIT_NOT_COMPILED;
}

static struct verdict judge(const struct cloche_run *run, const struct keeper_usage *usage)
{
        struct verdict v = {.status = CLOCHE_STATUS_SUCCESS};

        if (run->end != RUN_END_NONE)
                judge_end(run, usage, &v);
        else if (run->answer && run->answer_is_error)
                judge_error(run, &v);
        else if (!run->answer)
                judge_death(run, usage, &v);
        return v;
}

enum cloche_status result_status(const struct cloche_run *run, const struct keeper_usage *usage)
{
        return judge(run, usage).status;
}

/* The contract's codes of errors that no code of the guest threw (isolate contract, 2.2). */
static const struct {
        const char *type, *code, *name;
} evaluate_codes[] = {
        {"MemoryLimit", "ERR_MEMORY_LIMIT", "Error"},
        {"CpuTimeLimit", "ERR_CPU_TIMEOUT", "Error"},
        {"WallTimeLimit", "ERR_WALL_TIMEOUT", "Error"},
        {"Cancelled", "ERR_ABORTED", "AbortError"},
};

static const char *evaluate_code(const struct cloche_run *run, const char *type, const char **ret_name)
{
        *ret_name = "Error";
        if (run->end == RUN_END_BRIDGE)
                return run->bridge.calls > run->limits.bridge_calls ? "ERR_BRIDGE_CALL_LIMIT_EXCEEDED"
                                                                    : "ERR_BRIDGE_PAYLOAD_TOO_LARGE";
        for (size_t i = 0; i < sizeof(evaluate_codes) / sizeof(evaluate_codes[0]); i++)
                if (strcmp(evaluate_codes[i].type, type) == 0) {
                        *ret_name = evaluate_codes[i].name;
                        return evaluate_codes[i].code;
                }
        return "ERR_INTERNAL";
}

/* -- the object ----------------------------------------------------------------------------------------------- */

/* Guests choose names and texts, and cutting can break a character. */
static json_t *text_of(const char *text)
{
        return json_valid_text(text, strlen(text));
}

/* Make {code, name, message, stack, fields}, and a type, as in every error. */
static json_t *evaluate_error(const struct cloche_run *run, const struct verdict *v)
{
        const json_t *data =
                run->end == RUN_END_NONE && run->answer_is_error ? json_object_get(run->answer, "data") : NULL;
        json_t *error = json_is_object(data) ? json_deep_copy(data) : json_object();
        const char *name, *code = evaluate_code(run, v->type, &name);

        if (!json_is_object(data)) {
                json_object_set_new(error, "code", json_string(code));
                json_object_set_new(error, "name", json_string(name));
                json_object_set_new(error, "message", text_of(v->message));
        }
        json_object_set_new(error, "type", text_of(json_is_object(data) ? "Error" : v->type));
        json_object_del(error, "cpuMs");
        json_object_del(error, "heapBytes");
        if (json_is_string(json_object_get(data, "name")))
                json_object_set(error, "type", json_object_get(data, "name"));
        return error;
}

static json_t *error_object(const struct cloche_run *run, const struct verdict *v)
{
        const json_t *data = json_object_get(run->answer, "data");
        json_t *message = json_object_get(data, "message"), *stack = json_object_get(data, "stack");

        if (v->status == CLOCHE_STATUS_SUCCESS)
                return json_null();
        if (run->kind == CLOCHE_EVALUATE)
                return evaluate_error(run, v);
        if (run->end == RUN_END_NONE && run->answer_is_error) {
                if (!json_is_string(message))
                        message = json_object_get(run->answer, "message");
                return json_pack("{s:o, s:O, s:O}", "type", text_of(v->type), "message", message, "stack",
                                 json_is_string(stack) ? stack : json_null());
        }
        return json_pack("{s:o, s:o, s:n}", "type", text_of(v->type), "message", text_of(v->message), "stack");
}

/* The agent measures its evaluation, which cannot cost more than the box used, and the heap left.
 * For an evaluation that was killed, subtract the CPU time at its begin from the box's; one that
 * was killed before its begin used none. */
static void add_evaluation(json_t *usage, const struct cloche_run *run, double box_ms)
{
        const json_t *from = run->end != RUN_END_NONE ? NULL
                             : run->answer_is_error   ? json_object_get(run->answer, "data")
                                                      : run->answer;
        const json_t *cpu_ms = json_object_get(from, "cpuMs"), *heap_bytes = json_object_get(from, "heapBytes");
        double own_ms = json_is_number(cpu_ms)     ? json_number_value(cpu_ms)
                        : run->began_cpu_ms > 0    ? box_ms - run->began_cpu_ms
                        : run->end != RUN_END_NONE ? 0
                                                   : -1;

        if (run->kind != CLOCHE_EVALUATE)
                return;
        if (own_ms >= 0)
                json_object_set_new(usage, "evaluationCpuMs", json_real(own_ms < box_ms ? own_ms : box_ms));
        if (json_is_integer(heap_bytes) && json_integer_value(heap_bytes) >= 0)
                json_object_set(usage, "heapUsedBytes", (json_t *)heap_bytes);
}

static json_t *usage_object(const struct cloche_run *run, const struct keeper_usage *usage,
                            const struct init_answer *quiet)
{
        /* Without a control group, the program's own CPU time is the best there is. */
        double cpu_ms = usage->cpu_known ? (double)usage->cpu_ns / 1e6
                                         : (double)(run->box.exit.user_us + run->box.exit.system_us) / 1e3;

        json_t *made =
                json_pack("{s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I}", "wallMs", run_ms(run), "cpuMs", cpu_ms,
                          "memoryPeakBytes",
                          (json_int_t)(usage->memory_known ? usage->memory_peak_bytes : run->box.exit.max_rss_bytes),
                          "pidsPeak", (json_int_t)usage->pids_peak, "diskBytes", (json_int_t)quiet->disk_bytes_used,
                          "diskInodes", (json_int_t)quiet->disk_inodes_used, "stdoutBytes",
                          (json_int_t)run->streams[0].kept.total, "stderrBytes",
                          (json_int_t)run->streams[1].kept.total);

        add_evaluation(made, run, cpu_ms);
        return made;
}

static json_t *limits_hit(const struct cloche_run *run, const struct verdict *v, const struct keeper_usage *usage,
                          const struct init_answer *quiet)
{
        json_t *list = json_array();
        int bounded_disk = run->limits.disk_bytes != CLOCHE_UNLIMITED,
            bounded_inodes = run->limits.disk_inodes != CLOCHE_UNLIMITED;

        if (v->limit)
                json_array_append_new(list, json_string(v->limit));
        if (usage->oom_kills > 0 && (!v->limit || strcmp(v->limit, "memoryBytes") != 0))
                json_array_append_new(list, json_string("memoryBytes"));
        if (usage->pids_refused > 0 || (usage->pids_known && usage->pids_peak >= run->limits.pids))
                json_array_append_new(list, json_string("pids"));
        if (bounded_disk && quiet->op && quiet->disk_bytes_free < 4096)
                json_array_append_new(list, json_string("diskBytes"));
        if (bounded_inodes && quiet->op && quiet->disk_inodes_free == 0)
                json_array_append_new(list, json_string("diskInodes"));
        for (int i = 0; i < 2; i++)
                if (!run->streams[i].relayed && output_dropped(&run->streams[i].kept) > 0) {
                        json_array_append_new(list, json_string("outputBytes"));
                        break;
                }
        return list;
}

/* The agent is untrusted: only these values are accepted. */
static int is_signature_source(const json_t *source)
{
        static const char *const sources[] = {"schema", "inferred", "convention"};

        for (size_t i = 0; json_is_string(source) && i < sizeof(sources) / sizeof(sources[0]); i++)
                if (strcmp(json_string_value(source), sources[i]) == 0)
                        return 1;
        return 0;
}

static json_t *meta_object(struct cloche_run *run, const struct verdict *v, const struct keeper_usage *usage,
                           const struct init_answer *quiet)
{
        const json_t *answer = run->answer_is_error ? json_object_get(run->answer, "data") : run->answer;
        json_t *source = json_object_get(answer, "signatureSource");
        json_t *meta =
                json_pack("{s:f, s:o, s:o, s:o, s:o, s:O}", "duration", run_ms(run), "signatureSource",
                          run->schema                   ? json_string("schema")
                          : is_signature_source(source) ? json_incref(source)
                                                        : json_null(),
                          "usage", usage_object(run, usage, quiet), "limitsHit", limits_hit(run, v, usage, quiet),
                          "limits", limits_to_json(&run->limits), "warnings", run->warnings);

        if (meta && run->is_output_lost)
                json_object_set_new(meta, "outputLost", json_true());
        if (meta && run->network.policy)
                json_object_set_new(meta, "network",
                                    json_pack("{s:O, s:I}", "denied", run->network.denied, "lost",
                                              (json_int_t)run->network.lost));
        return meta;
}

static void add_output(json_t *root, const char *name, const char *base64_name, const struct buf *bytes)
{
        _cleanup_buf_ struct buf encoded = BUF_INIT(SIZE_MAX / 2);

        if (utf8_is_valid(bytes->data, bytes->size)) {
                json_object_set_new(root, name, json_stringn_nocheck(bytes->size > 0 ? bytes->data : "", bytes->size));
                return;
        }
        json_object_set_new(root, name, json_valid_text(bytes->data, bytes->size));
        if (base64_encode(&encoded, bytes->data, bytes->size) == 0)
                json_object_set_new(root, base64_name, json_stringn(encoded.data, encoded.size));
}

/* A glob that matches this path alone. NULL: the path is too long for one. */
static json_t *pattern_of(const char *path)
{
        char pattern[GLOB_BYTES_MAX];
        size_t size = 0;

        for (const char *c = path; *c; c++) {
                if (size + 3 > sizeof(pattern))
                        return NULL;
                if (strchr("\\*?[]{}()!@+|,", *c))
                        pattern[size++] = '\\';
                pattern[size++] = *c;
        }
        return json_stringn(pattern, size);
}

/* The rule that permits what no rule decided on, so that the default refused it. NULL: a rule
 * refused it, or no rule can name the path. */
static json_t *permitting_rule(const json_t *denial)
{
        const json_t *path = json_object_get(denial, "path"), *action = json_object_get(denial, "operation");

        if (json_string_length(json_object_get(denial, "rule")) > 0 || json_string_length(path) == 0)
                return NULL;
        return json_pack("{s:o, s:[O]}", "pattern", pattern_of(json_string_value(path)), "allow", action);
}

/* Convert a path below a mount, text or tagged bytes, to the box's path. */
json_t *result_denial(const struct changeset_row *row, const json_t *denial)
{
        json_t *described = json_copy((json_t *)denial), *named = changeset_describe_one(row, denial),
               *rule = permitting_rule(denial);

        json_object_set(described, "path", json_object_get(named, "path"));
        json_decref(named);
        if (json_string_length(json_object_get(described, "rule")) == 0) /* the default applied, not a rule */
                json_object_del(described, "rule");
        if (rule)
                json_object_set_new(described, "allow", json_pack("[o]", rule));
        return described;
}

static void add_denials(const struct cloche_run *run, json_t *denied)
{
        size_t k;
        json_t *denial;

        for (size_t i = 0; i < run->mounts->options.count; i++)
                json_array_foreach (run->mounts->rows[i].denials, k, denial)
                        json_array_append_new(denied, result_denial(&run->changeset->rows[i], denial));
}

static void add_mounts(const struct cloche_run *run, json_t *files)
{
        uint64_t left = FILES_CONTENTS_TOTAL_MAX;

        if (!run->omit_changes &&
            changeset_describe(run->changeset, run->omit_contents, &left, json_object_get(files, "created"),
                               json_object_get(files, "modified"), json_object_get(files, "deleted")) < 0)
                json_array_append_new(run->warnings, json_string("no memory to list the changes of the mounts"));
        add_denials(run, json_object_get(files, "denied"));
}

static json_t *files_object(const struct cloche_run *run, json_t *changes)
{
        if (!changes)
                changes = json_pack("{s:[], s:[], s:[], s:[]}", "created", "modified", "deleted", "denied");
        if (run->changeset)
                add_mounts(run, changes);
        if (run->omit_denied)
                json_object_del(changes, "denied");
        if (run->collected)
                json_object_set(changes, "collected", run->collected);
        return changes;
}

static int write_texts(cloche_result *result, const json_t *value)
{
        if (value)
                result->value = value_dump(value, JSON_COMPACT | JSON_ENCODE_ANY);
        result->json = value_dump(result->root, JSON_COMPACT);
        return result->json && (!value || result->value) ? 0 : -ENOMEM;
}

int result_make(struct cloche_run *run, const struct keeper_usage *usage, const struct init_answer *quiet,
                json_t *changes, cloche_result **ret, struct cloche_err *e)
{
        struct verdict v = judge(run, usage);
        cloche_result *result = calloc(1, sizeof(*result));
        json_t *value = v.status == CLOCHE_STATUS_SUCCESS ? json_object_get(run->answer, "value") : NULL;

        if (!result) {
                json_decref(changes);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make the result");
        }
        result->status = v.status;
        result->exit_code = v.exit_code;
        for (int i = 0; i < 2; i++)
                (void)output_text(&run->streams[i].kept, &result->out[i]);
        result->root = json_pack("{s:s, s:b, s:O, s:o}", "status", cloche_status_name(v.status), "success",
                                 v.status == CLOCHE_STATUS_SUCCESS, "result", value ? value : json_null(), "error",
                                 error_object(run, &v));
        add_output(result->root, "stdout", "stdoutBase64", &result->out[0]);
        add_output(result->root, "stderr", "stderrBase64", &result->out[1]);
        if (run->kind == CLOCHE_EVALUATE)
                json_object_set_new(result->root, "console",
                                    json_pack("{s:O, s:O}", "stdout", run->console[0].lines, "stderr",
                                              run->console[1].lines));
        if (value && json_object_get(run->answer, "late"))
                json_object_set(result->root, "late", json_object_get(run->answer, "late"));
        json_object_set_new(result->root, "exitCode", json_integer(v.exit_code));
        json_object_set_new(result->root, "files", files_object(run, changes));
        if (run->synced)
                json_object_set(result->root, "sync", run->synced);
        if (v.status != CLOCHE_STATUS_SUCCESS)
                run_explain_network(run);
        json_object_set_new(result->root, "meta", meta_object(run, &v, usage, quiet));
        if (!result->root || (run->has_texts && write_texts(result, value) < 0)) {
                cloche_result_free(result);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "write the result");
        }
        result->changeset = run->changeset;
        run->changeset = NULL;
        *ret = result;
        return 0;
}

/* -- accessors ------------------------------------------------------------------------------------------------ */

enum cloche_status cloche_result_status(const cloche_result *result)
{
        return result->status;
}

int cloche_result_exit_code(const cloche_result *result)
{
        return result->exit_code;
}

const char *cloche_result_value(const cloche_result *result)
{
        return result->value;
}

json_t *result_root(cloche_result *result)
{
        return result->root;
}

const char *cloche_result_json(const cloche_result *result)
{
        return result->json;
}

static const char *output(const struct buf *bytes, size_t *ret_size)
{
        if (ret_size)
                *ret_size = bytes->size;
        return bytes->data ? bytes->data : "";
}

const char *cloche_result_stdout(const cloche_result *result, size_t *ret_size)
{
        return output(&result->out[0], ret_size);
}

const char *cloche_result_stderr(const cloche_result *result, size_t *ret_size)
{
        return output(&result->out[1], ret_size);
}

static const char *error_member(const cloche_result *result, const char *name)
{
        return json_string_value(json_object_get(json_object_get(result->root, "error"), name));
}

const char *cloche_result_error_type(const cloche_result *result)
{
        return error_member(result, "type");
}

const char *cloche_result_error_message(const cloche_result *result)
{
        return error_member(result, "message");
}

const char *cloche_result_error_stack(const cloche_result *result)
{
        return error_member(result, "stack");
}

cloche_changeset *cloche_result_take_changeset(cloche_result *result)
{
        cloche_changeset *set = result->changeset;

        result->changeset = NULL;
        return set;
}

void cloche_result_free(cloche_result *result)
{
        if (!result)
                return;
        cloche_changeset_free(result->changeset);
        json_decref(result->root);
        free(result->value);
        free(result->json);
        buf_done(&result->out[0]);
        buf_done(&result->out[1]);
        free(result);
}
