#include "bash-agent.h"

#include "wire/value.h"

#include <execute_cmd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int find_reserved_word(const char *word); /* from parse.y, without a header */

#define BYTES_MAX ((size_t)1 << 30)
#define OWN_PREFIX "host." /* prefix for names that have a meaning in the shell */

/* A nested name of the host's declaration is a command: a function is called, a value is printed. */
struct host_command {
        char *name;
        json_t *target; /* a function's path */
        char *value;    /* a constant's text */
};

static struct {
        struct agent *agent;
        struct host_command *commands;
        size_t count;
} host;

/* -- calling --------------------------------------------------------------------------------------------------- */

static const struct host_command *find_command(const char *name)
{
        for (size_t i = 0; i < host.count; i++)
                if (strcmp(host.commands[i].name, name) == 0)
                        return &host.commands[i];
        return NULL;
}

static json_t *bytes_value(const char *text, struct buf *attachments)
{
        size_t at = attachments->size, size = strlen(text);

        if (buf_append(attachments, text, size) < 0)
                return NULL;
        return json_pack("{s:s, s:I, s:I}", "$", "bytes", "at", (json_int_t)at, "n", (json_int_t)size);
}

/* The same rules as for results: complete JSON is its value, any other text is a string, and invalid UTF-8 is bytes. */
static json_t *word_value(const char *text, struct buf *attachments, struct cloche_err *e)
{
        json_t *json = json_of(text, strlen(text)), *value = NULL;

        if (!json) {
                value = json_string(text);
                return value ? value : bytes_value(text, attachments);
        }
        if (value_text_to_frame(json, attachments, &value, e) < 0)
                value = NULL;
        json_decref(json);
        return value;
}

static json_t *word_values(WORD_LIST *words, struct buf *attachments)
{
        json_t *values = json_array();

        for (int i = 1; words; words = words->next, i++) {
                struct cloche_err e = {.msg = "no memory"};
                json_t *value = word_value(words->word->word, attachments, &e);

                if (!value || json_array_append_new(values, value) < 0) {
                        builtin_error("argument %d: %s", i, e.msg);
                        json_decref(values);
                        return NULL;
                }
        }
        return values;
}

/* Bytes are printed as they are; anything else as a line. */
static int print_value(const struct agent_answer *answer)
{
        const unsigned char *data;
        const char *tag = agent_tag(answer->value), *why;
        size_t size;
        char *word;

        if (tag && strcmp(tag, "array") != 0 && agent_bytes(&answer->origin, answer->value, &data, &size)) {
                fwrite(data, 1, size, stdout);
        } else if (json_is_string(answer->value)) {
                fwrite(json_string_value(answer->value), 1, json_string_length(answer->value), stdout);
                putchar('\n');
        } else {
                word = value_word(&answer->origin, answer->value, &why);
                if (!word) {
                        builtin_error("%s", why);
                        return EXECUTION_FAILURE;
                }
                puts(word);
                free(word);
        }
        return sh_chkwrite(EXECUTION_SUCCESS);
}

static int print_error(const json_t *error)
{
        const char *name = json_string_value(json_object_get(error, "name"));
        const char *message = json_string_value(json_object_get(error, "message"));

        builtin_error("%s: %s", name ? name : "Error", message ? message : "");
        return EXECUTION_FAILURE;
}

static int ask(const struct host_command *command, WORD_LIST *words)
{
        _cleanup_buf_ struct buf attachments = BUF_INIT(BYTES_MAX);
        json_t *args = word_values(words, &attachments);
        struct agent_answer answer;
        int status;

        if (!args)
                return EXECUTION_FAILURE;
        if (agent_bridge(host.agent, json_incref(command->target), args, NULL, attachments.data, attachments.size,
                         &answer) < 0) {
                builtin_error("the host is gone");
                return EXECUTION_FAILURE;
        }
        status = answer.error ? print_error(answer.error) : print_value(&answer);
        agent_answer_done(&answer);
        return status;
}

static int run_command(WORD_LIST *words)
{
        const struct host_command *command = find_command(this_command_name);

        if (!command) {
                builtin_error("not a name of the host's");
                return EXECUTION_FAILURE;
        }
        if (command->target)
                return ask(command, words);
        puts(command->value);
        return sh_chkwrite(EXECUTION_SUCCESS);
}

/* -- declaring ------------------------------------------------------------------------------------------------- */

/* An old table is not freed: the shell keeps a pointer to the row that it executes. */
static void make_room(void)
{
        static int room;
        struct builtin *grown;

        if (num_shell_builtins + 2 <= room)
                return;
        room = 2 * (num_shell_builtins + 2);
        grown = xmalloc((size_t)room * sizeof(*grown));
        memcpy(grown, shell_builtins, ((size_t)num_shell_builtins + 1) * sizeof(*grown));
        shell_builtins = grown;
}

void add_builtin(const char *name, sh_builtin_func_t *function, char *const *about, const char *usage)
{
        make_room();
        shell_builtins[num_shell_builtins + 1] = shell_builtins[num_shell_builtins]; /* the end of the table */
        shell_builtins[num_shell_builtins++] = (struct builtin){.name = savestring(name),
                                                                .function = function,
                                                                .flags = BUILTIN_ENABLED,
                                                                .long_doc = about,
                                                                .short_doc = usage};
        initialize_shell_builtins();
}

static int refuse_name(struct agent_reply *reply, const char *name, const char *why)
{
        return agent_throw(reply, "NameError", NULL, "the host's '%s': %s", name, why);
}

/* builtin_address_internal: also finds disabled ones. */
static int is_shells_own(const char *name)
{
        return find_reserved_word(name) >= 0 || builtin_address_internal((char *)name, 1) != NULL;
}

/* Takes ownership of target and value. */
static int add_command(struct agent_reply *reply, const char *name, json_t *target, char *value)
{
        static char *const about[] = {"Declared by the host.", NULL};
        struct host_command *known = (struct host_command *)find_command(name);
        char *other = NULL;
        int r;

        if (!known && is_shells_own(name) && strncmp(name, OWN_PREFIX, strlen(OWN_PREFIX)) != 0 &&
            asprintf(&other, OWN_PREFIX "%s", name) > 0) {
                r = add_command(reply, other, target, value);
                free(other);
                return r;
        }
        if (!known && (!*name || is_shells_own(name))) {
                json_decref(target);
                free(value);
                return refuse_name(reply, name, "not a name that a command can have");
        }
        if (!known) {
                host.commands = xrealloc(host.commands, (host.count + 1) * sizeof(*host.commands));
                known = &host.commands[host.count++];
                *known = (struct host_command){.name = savestring(name)};
                add_builtin(name, run_command, about, about[0]);
        }
        json_decref(known->target);
        free(known->value);
        known->target = target;
        known->value = value;
        return 0;
}

struct place {
        const struct agent_request *request;
        struct agent_reply *reply;
        const char *name;   /* "a.b", or "specifier/a.b" */
        const json_t *path; /* the path that the engine receives */
        int is_nested;
};

static int declare_constant(const struct place *place, const json_t *declaration)
{
        char why[256];
        const char *reason = why;
        json_t *value = agent_value(place->request, json_object_get(declaration, "value"), why, sizeof(why));
        char *word = value ? value_word(place->request, value, &reason) : NULL;
        int r = 0;

        json_decref(value);
        if (!word)
                return refuse_name(place->reply, place->name, reason);
        if (place->is_nested)
                return add_command(place->reply, place->name, NULL, word);
        if (!legal_identifier(place->name) || !bind_variable(place->name, word, 0))
                r = refuse_name(place->reply, place->name, "not a name of a shell variable");
        free(word);
        return r;
}

static int declare_members(const struct place *place, const json_t *members, const char *between);

static int declare(const struct place *place, const json_t *declaration)
{
        const char *kind = json_string_value(json_object_get(declaration, "kind"));

        if (kind && strcmp(kind, "function") == 0)
                return add_command(place->reply, place->name, json_deep_copy(place->path), NULL);
        if (kind && strcmp(kind, "value") == 0)
                return declare_constant(place, declaration);
        if (kind && strcmp(kind, "object") == 0)
                return declare_members(place, json_object_get(declaration, "members"), ".");
        return refuse_name(place->reply, place->name, "a declaration of a kind that the shell does not know");
}

static int declare_member(const struct place *outer, const char *between, const char *key, const json_t *declaration)
{
        struct place place = *outer;
        json_t *path = json_deep_copy(outer->path);
        char *name = NULL;
        int r;

        json_array_append_new(path, json_string(key));
        if (asprintf(&name, "%s%s%s", outer->name, between, key) < 0 || !path)
                return agent_throw(outer->reply, "NameError", NULL, "no memory for the host's names");
        place.name = name;
        place.path = path;
        place.is_nested = *between != '\0';
        r = declare(&place, declaration);
        free(name);
        json_decref(path);
        return r;
}

static int declare_members(const struct place *place, const json_t *members, const char *between)
{
        const char *key;
        json_t *declaration;

        json_object_foreach ((json_t *)members, key, declaration)
                if (declare_member(place, between, key, declaration) < 0)
                        return -1;
        return 0;
}

static int declare_import(const struct agent_request *request, struct agent_reply *reply, const char *specifier,
                          const json_t *import)
{
        json_t *path = json_pack("[s, s]", "import", specifier);
        struct place place = {.request = request, .reply = reply, .name = specifier, .path = path};
        int r;

        if (json_object_get(import, "members"))
                r = declare_members(&place, json_object_get(import, "members"), "/");
        else
                r = refuse_name(reply, specifier, "modules of source text cannot be imported into the shell");
        json_decref(path);
        return r;
}

int host_declare(struct agent *a, const struct agent_request *request, struct agent_reply *reply)
{
        json_t *path = json_pack("[s]", "global");
        struct place place = {.request = request, .reply = reply, .name = "", .path = path};
        const char *specifier;
        json_t *import;
        int r;

        host.agent = a;
        r = declare_members(&place, request->globals, "");
        json_decref(path);
        json_object_foreach ((json_t *)request->imports, specifier, import)
                if (r == 0)
                        r = declare_import(request, reply, specifier, import);
        return r;
}
