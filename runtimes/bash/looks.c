/* Looks at code and at names: `inspect` and `isComplete`. Runs no user code. */
#include "bash-agent.h"

#include "base/utf8.h"

#include <alias.h>

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_MAX ((size_t)64 << 10)
#define VALUE_MAX 2000
#define ITEMS_MAX 1000
#define WORD_MAX 255
#define SHALLOW_MAX 512 /* bytes of code whose levels fit on any stack */
#define APART_SECONDS 10

/* From findcmd.h and parser.h, which Debian does not ship. */
char *find_user_command(const char *name);
int find_reserved_word(char *word);

/* -- inspect: the word at the cursor -------------------------------------------------------------------------- */

struct place {
        char word[WORD_MAX + 1];
        int is_variable; /* its value is used, or set */
};

static int is_name(char c)
{
        return isalnum((unsigned char)c) || c == '_';
}

static int breaks_word(char c)
{
        return strchr(" \t\n;|&(){}<>\"'`=:,$\\", c) != NULL;
}

/* 0, or -1 if there is no word. */
static int find_place(const char *code, size_t size, size_t at, struct place *ret)
{
        size_t first = at, end = at;

        while (first > 0 && is_name(code[first - 1]))
                first--;
        while (end < size && is_name(code[end]))
                end++;
        ret->is_variable = (first > 0 && code[first - 1] == '$') || (end < size && code[end] == '=') ||
                           (first > 1 && code[first - 1] == '{' && code[first - 2] == '$');
        if (!ret->is_variable) {
                while (first > 0 && !breaks_word(code[first - 1]))
                        first--;
                while (end < size && !breaks_word(code[end]))
                        end++;
        }
        if (end == first || end - first > WORD_MAX)
                return -1;
        memcpy(ret->word, code + first, end - first);
        ret->word[end - first] = '\0';
        return 0;
}

/* -- inspect: its meaning ------------------------------------------------------------------------------------- */

static void put_attributes(FILE *out, const SHELL_VAR *variable)
{
        static const struct {
                int attribute;
                const char *name;
        } names[] = {{att_array, "array"},         {att_assoc, "associative array"}, {att_nameref, "name reference"},
                     {att_integer, "integer"},     {att_exported, "exported"},       {att_readonly, "readonly"},
                     {att_lowercase, "lowercase"}, {att_uppercase, "uppercase"}};

        fputs("Type: variable", out);
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (variable->attributes & names[i].attribute)
                        fprintf(out, ", %s", names[i].name);
}

static void put_items(FILE *out, SHELL_VAR *variable)
{
        long count = array_p(variable) ? loadable_array_size(array_cell(variable))
                                       : assoc_num_elements(assoc_cell(variable));
        char *text = NULL;

        if (count <= ITEMS_MAX)
                text = array_p(variable) ? array_to_assign(array_cell(variable), 0)
                                         : assoc_to_assign(assoc_cell(variable), 0);
        fprintf(out, "Value: %ld item%s", count, count == 1 ? "" : "s");
        if (text)
                fprintf(out, ": %.*s", (int)utf8_cut(text, strlen(text), VALUE_MAX), text);
        fputc('\n', out);
        free(text);
}

/* The shell's own look-up computes values such as that of RANDOM, and changes them by that. */
static int put_variable(FILE *out, const char *name)
{
        SHELL_VAR *variable = var_lookup(name, shell_variables);
        const char *value;
        size_t size;

        if (!variable)
                return 0;
        value = invisible_p(variable) || !value_cell(variable) ? "" : value_cell(variable);
        size = strnlen(value, VALUE_MAX + 4);
        if (variable->dynamic_value)
                fputs("Value: computed when it is read\n", out);
        else if (array_p(variable) || assoc_p(variable))
                put_items(out, variable);
        else
                fprintf(out, "Value: %.*s%s\n", (int)utf8_cut(value, size, VALUE_MAX), value,
                        size > VALUE_MAX ? "..." : "");
        put_attributes(out, variable);
        return 1;
}

static void put_function(FILE *out, SHELL_VAR *function, int is_detailed)
{
        fputs("Type: function", out);
        if (is_detailed)
                fprintf(out, "\nSource:\n%s",
                        named_function_string(function->name, function_cell(function), FUNC_MULTILINE | FUNC_EXTERNAL));
}

static void put_builtin(FILE *out, const struct builtin *builtin)
{
        fprintf(out, "Usage: %s\n", builtin->short_doc ? builtin->short_doc : builtin->name);
        for (size_t i = 0; builtin->long_doc && builtin->long_doc[i]; i++)
                fprintf(out, "%s\n", builtin->long_doc[i]);
        fputs("Type: builtin", out);
}

static int put_file(FILE *out, const char *name)
{
        char *path = find_user_command(name);

        if (path)
                fprintf(out, "File: %s\nType: program", path);
        free(path);
        return path != NULL;
}

/* In the order in which the shell looks for a command. */
static int put_command(FILE *out, char *name, int is_detailed)
{
        alias_t *alias = find_alias(name);
        SHELL_VAR *function = find_function(name);
        const struct builtin *builtin = builtin_address_internal(name, 0);

        if (alias)
                fprintf(out, "Value: %.*s\nType: alias", VALUE_MAX, alias->value);
        else if (find_reserved_word(name) >= 0)
                fputs("Type: keyword", out);
        else if (function)
                put_function(out, function, is_detailed);
        else if (builtin)
                put_builtin(out, builtin);
        else
                return put_file(out, name);
        return 1;
}

static json_t *told(const struct place *place, int is_detailed)
{
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        json_t *data = json_object();
        char word[sizeof(place->word)];
        int is_found;

        if (!out)
                return data;
        memcpy(word, place->word, sizeof(word));
        is_found = (!place->is_variable && put_command(out, word, is_detailed)) || put_variable(out, word);
        fclose(out);
        if (is_found && text)
                json_object_set_new(data, "text/plain", agent_text(text, utf8_cut(text, size, TEXT_MAX)));
        free(text);
        return data;
}

int answer_inspect(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        const json_t *code = json_object_get(params, "code"), *at = json_object_get(params, "at"),
                     *detail = json_object_get(params, "detail");
        struct place place;

        if (refuse_unopened(a, "inspect", refusal) < 0)
                return -1;
        if (!is_shell_text(code))
                return refuse_params(refusal, "code", "a string without NUL");
        if (!json_is_integer(at) || json_integer_value(at) < 0)
                return refuse_params(refusal, "at", "an integer from 0");
        if (!json_is_integer(detail))
                return refuse_params(refusal, "detail", "an integer");
        if (find_place(json_string_value(code), json_string_length(code),
                       utf8_offset(json_string_value(code), json_string_length(code), (size_t)json_integer_value(at)),
                       &place) < 0)
                *ret_result = json_pack("{s:{}}", "data");
        else
                *ret_result = json_pack("{s:o}", "data", told(&place, json_integer_value(detail) > 0));
        return 0;
}

/* -- isComplete ------------------------------------------------------------------------------------------------- */

/* A line that ends in a backslash goes on, for which the parser needs no more text. */
static int goes_on(const char *code, size_t size)
{
        size_t first = size, slashes = 0;

        while (first > 0 && code[first - 1] != '\n')
                first--;
        while (slashes < size - first && code[size - 1 - slashes] == '\\')
                slashes++;
        return slashes % 2 == 1 && !memchr(code + first, '#', size - first);
}

enum { COMPLETE, INCOMPLETE, INVALID, UNKNOWN, STATUSES };

static int status_of(const char *code, size_t size)
{
        static const char *const open[] = {"unexpected end of file", "unexpected EOF while looking for",
                                           "delimited by end-of-file"};
        char message[1024];
        int status = read_code(code, message, sizeof(message));

        for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
                if (strstr(message, open[i]))
                        return INCOMPLETE;
        if (status)
                return *message ? INVALID : UNKNOWN;
        return goes_on(code, size) ? INCOMPLETE : COMPLETE;
}

/* The parser calls itself for each level, without a limit. An overflow of its stack must not end
 * the shell that has the context's state. A child without a signal of its end is none that the
 * shell waits for. */
static int status_apart(const char *code, size_t size)
{
        static const struct rlimit seconds = {APART_SECONDS, APART_SECONDS}, no_core = {0, 0};
        pid_t pid = (pid_t)syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
        int status = 0;

        if (pid == 0) {
                signal(SIGSEGV, SIG_DFL); /* else the traps of cells would run */
                setrlimit(RLIMIT_CPU, &seconds);
                setrlimit(RLIMIT_CORE, &no_core);
                _exit(status_of(code, size));
        }
        while (pid > 0 && waitpid(pid, &status, __WCLONE) < 0)
                if (errno != EINTR)
                        return UNKNOWN;
        return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) < STATUSES ? WEXITSTATUS(status) : UNKNOWN;
}

int answer_is_complete(struct agent *a, const json_t *params, json_t **ret_result, struct agent_refusal *refusal)
{
        static const char *const statuses[STATUSES] = {"complete", "incomplete", "invalid", "unknown"};
        const json_t *code = json_object_get(params, "code");
        size_t size = json_string_length(code);
        char *language = NULL;
        const char *text = json_string_value(code), *last;
        int status;

        if (refuse_unopened(a, "isComplete", refusal) < 0)
                return -1;
        if (!is_shell_text(code))
                return refuse_params(refusal, "code", "a string without NUL");
        language = strdup(setlocale(LC_MESSAGES, NULL)); /* the parser tells by messages only */
        setlocale(LC_MESSAGES, "C");
        status = size > SHALLOW_MAX ? status_apart(text, size) : status_of(text, size);
        setlocale(LC_MESSAGES, language);
        free(language);
        last = strrchr(text, '\n');
        last = last ? last + 1 : text;
        *ret_result = json_pack("{s:s, s:s%}", "status", statuses[status], "indent", last,
                                status == INCOMPLETE ? strspn(last, " \t") : (size_t)0);
        return 0;
}
