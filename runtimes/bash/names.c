/* The contents of a context for tools: `describe` and `complete`. Runs no user code. */
#include "bash-agent.h"

#include "base/utf8.h"

#include <execute_cmd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VARIABLES_MAX 1000
#define SUMMARY_MAX 200
#define MATCHES_MAX 500
#define PRINTED_MAX ((size_t)1 << 20)

static json_t *known; /* names of variables and functions that existed before the first cell */

/* -- describe -------------------------------------------------------------------------------------------------- */

static void remember(SHELL_VAR **all, const char *prefix)
{
        char name[256];

        for (size_t i = 0; all && all[i]; i++) {
                snprintf(name, sizeof(name), "%s%s", prefix, all[i]->name);
                json_object_set_new(known, name, json_true());
        }
        free(all);
}

static int is_known(const SHELL_VAR *variable, const char *prefix)
{
        char name[256];

        snprintf(name, sizeof(name), "%s%s", prefix, variable->name);
        return json_object_get(known, name) != NULL;
}

void names_start(void)
{
        if (known)
                return;
        known = json_object();
        remember(all_shell_variables(), "");
        remember(all_shell_functions(), "()");
        /* Variables that the shell itself sets when a cell runs. */
        json_object_update_new(known, json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "BASH_REMATCH", 1, "OLDPWD", 1,
                                                "PIPESTATUS", 1, "REPLY", 1, "OPTARG", 1, "_", 1));
}

void names_hide(const json_t *env)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)env, name, value)
                json_object_set_new(known, name, json_true());
}

static const char *type_of(const SHELL_VAR *variable)
{
        static const struct {
                int attribute;
                const char *name;
        } types[] = {{att_array, "array"},
                     {att_assoc, "associative array"},
                     {att_nameref, "name reference"},
                     {att_integer, "integer"}};

        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
                if (variable->attributes & types[i].attribute)
                        return types[i].name;
        return "string";
}

/* Cuts between characters. */
static json_t *shortened(const char *text)
{
        return agent_text(text, utf8_cut(text, strnlen(text, SUMMARY_MAX + 1), SUMMARY_MAX));
}

static json_t *summary_of(SHELL_VAR *variable)
{
        long count = array_p(variable)   ? loadable_array_size(array_cell(variable))
                     : assoc_p(variable) ? assoc_num_elements(assoc_cell(variable))
                                         : -1;
        char text[32];

        if (count < 0)
                return shortened(value_cell(variable) ? value_cell(variable) : "");
        snprintf(text, sizeof(text), "%ld item%s", count, count == 1 ? "" : "s");
        return json_string(text);
}

static void add_row(json_t *rows, const char *name, const char *type, json_t *summary)
{
        if (json_array_size(rows) < VARIABLES_MAX)
                json_array_append_new(rows, json_pack("{s:o, s:s, s:o}", "name", shortened(name), "type", type,
                                                      "summary", summary));
        else
                json_decref(summary);
}

int answer_describe(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        SHELL_VAR **variables, **functions;
        json_t *rows;

        (void)params;
        if (refuse_unopened(a, "describe", refusal) < 0)
                return -1;
        rows = json_array();
        variables = all_shell_variables();
        for (size_t i = 0; variables && variables[i]; i++)
                if (!invisible_p(variables[i]) && !is_known(variables[i], ""))
                        add_row(rows, variables[i]->name, type_of(variables[i]), summary_of(variables[i]));
        free(variables);
        functions = all_shell_functions();
        for (size_t i = 0; functions && functions[i]; i++)
                if (!is_known(functions[i], "()"))
                        add_row(rows, functions[i]->name, "function", json_sprintf("%.100s ()", functions[i]->name));
        free(functions);
        *ret_result = json_pack("{s:o}", "variables", rows);
        return 0;
}

/* -- complete: the word at the cursor ----------------------------------------------------------------------------- */

static const char breaks[] = " \t\n;|&(){}<>\"'`=:,";

struct word {
        char text[4096];    /* up to the cursor, without the text before the $ of a variable */
        size_t start;       /* of the text to replace */
        const char *action; /* of compgen */
        const char *prefix; /* of each match */
};

static int begins_command(const char *code, size_t start)
{
        static const char *const openers[] = {"then", "do", "else", "elif", "if", "while", "until", "time", "!"};
        size_t end = start, begin;

        while (end > 0 && (code[end - 1] == ' ' || code[end - 1] == '\t'))
                end--;
        if (end == 0 || strchr("\n;|&({`", code[end - 1]))
                return 1;
        begin = end;
        while (begin > 0 && !strchr(breaks, code[begin - 1]))
                begin--;
        for (size_t i = 0; i < sizeof(openers) / sizeof(openers[0]); i++)
                if (strlen(openers[i]) == end - begin && strncmp(code + begin, openers[i], end - begin) == 0)
                        return 1;
        return 0;
}

/* 0, or -1 if there is nothing to complete. */
static int find_word(const char *code, size_t at, struct word *ret)
{
        size_t start = at, variable = at;

        while (variable > 0 && (isalnum((unsigned char)code[variable - 1]) || code[variable - 1] == '_'))
                variable--;
        if (variable > 1 && code[variable - 1] == '{' && code[variable - 2] == '$')
                *ret = (struct word){.start = variable, .action = "variable", .prefix = ""};
        else if (variable > 0 && code[variable - 1] == '$')
                *ret = (struct word){.start = variable - 1, .action = "variable", .prefix = "$"};
        else {
                while (start > 0 && !strchr(breaks, code[start - 1]))
                        start--;
                *ret = (struct word){.start = start, .action = "file", .prefix = ""};
                if (begins_command(code, start) && !memchr(code + start, '/', at - start))
                        ret->action = "command";
                variable = start;
        }
        if (at - variable >= sizeof(ret->text) || (strcmp(ret->action, "command") == 0 && at == start))
                return -1;
        memcpy(ret->text, code + variable, at - variable);
        return 0;
}

/* -- complete: matches ------------------------------------------------------------------------------------------ */

static int generate(void *data)
{
        const struct word *word = data;
        WORD_LIST *words = make_word_list(make_word("-A"),
                                          make_word_list(make_word(word->action),
                                                         make_word_list(make_word("--"),
                                                                        make_word_list(make_word(word->text), NULL))));
        int status = builtin_address_internal("compgen", 1)->function(words);

        dispose_words(words);
        return status;
}

struct sink {
        char *data;
        size_t size;
};

static ssize_t take(void *cookie, const char *data, size_t size)
{
        struct sink *sink = cookie;
        size_t taken = size < PRINTED_MAX - sink->size ? size : PRINTED_MAX - sink->size;

        memcpy(sink->data + sink->size, data, taken);
        sink->size += taken;
        return (ssize_t)size;
}

/* compgen prints to the C library's stdout, which is a variable. Terminated; NULL: none. Owned by the caller. */
static char *print_matches(struct word *word)
{
        struct sink sink = {.data = malloc(PRINTED_MAX + 1)};
        FILE *stream = sink.data ? fopencookie(&sink, "w", (cookie_io_functions_t){.write = take}) : NULL,
             *ordinary = stdout;
        int status;

        if (!stream) {
                free(sink.data);
                return NULL;
        }
        fflush(stdout);
        stdout = stream;
        messages_mute(1);
        loadable_guard(generate, word, NULL, &status);
        messages_mute(0);
        stdout = ordinary;
        fclose(stream);
        sink.data[sink.size] = '\0';
        return sink.data;
}

/* The match as code: a file's name quoted, and a directory's with its slash. */
static json_t *match(const struct word *word, const char *text)
{
        const int is_file = strcmp(word->action, "file") == 0;
        struct stat status;
        char *quoted = is_file ? sh_backslash_quote((char *)text, NULL, 0) : savestring(text);
        int is_directory = is_file && stat(text, &status) == 0 && S_ISDIR(status.st_mode);
        char *whole = NULL;
        json_t *made = NULL;

        if (asprintf(&whole, "%s%s%s", word->prefix, quoted, is_directory ? "/" : "") > 0)
                made = agent_text(whole, strlen(whole));
        free(quoted);
        free(whole);
        return made;
}

static int compare(const void *one, const void *other)
{
        return strcmp(*(char *const *)one, *(char *const *)other);
}

/* Each once, in order. */
static json_t *matches_of(struct word *word)
{
        json_t *matches = json_array();
        char *printed = print_matches(word), *lines[4 * MATCHES_MAX], *at = printed, *line;
        size_t count = 0;

        while (at && count < sizeof(lines) / sizeof(lines[0]) && (line = strsep(&at, "\n")))
                if (*line)
                        lines[count++] = line;
        qsort(lines, count, sizeof(lines[0]), compare);
        for (size_t i = 0; i < count && json_array_size(matches) < MATCHES_MAX; i++)
                if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0)
                        json_array_append_new(matches, match(word, lines[i]));
        free(printed);
        return matches;
}

int answer_complete(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        const json_t *code = json_object_get(params, "code"), *place = json_object_get(params, "at");
        const char *text = json_string_value(code);
        struct word word;
        json_t *matches;
        size_t at;

        if (refuse_unopened(a, "complete", refusal) < 0)
                return -1;
        if (!is_shell_text(code))
                return refuse_params(refusal, "code", "a string without NUL");
        if (!json_is_integer(place) || json_integer_value(place) < 0)
                return refuse_params(refusal, "at", "an integer from 0");
        at = utf8_offset(text, json_string_length(code), (size_t)json_integer_value(place));
        if (find_word(text, at, &word) < 0) {
                word.start = at;
                matches = json_array();
        } else {
                matches = matches_of(&word);
        }
        *ret_result = json_pack("{s:o, s:I, s:I}", "matches", matches, "from", (json_int_t)utf8_count(text, word.start),
                                "to", (json_int_t)utf8_count(text, at));
        return 0;
}
