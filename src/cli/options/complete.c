/* cloche __complete WORD…: print completions of the last word, for the scripts in completions/. One
 * line each, candidate and summary separated by a tab; nothing for file names or free text. The
 * data comes from the tables of help and parsing.
 * Runs in: the CLI, as its user. */
#include "complete.h"
#include "cli/sandbox/daemon-locate.h"

#include "cli/run/changes.h"
#include "cli/run/image-store.h"
#include "cli/run/store.h"
#include "cli/run/xdg.h"
#include "cli/sandbox/sandbox-options.h"
#include "options.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_S 2

static void offer(const char *candidate, size_t size, const char *typed, const char *summary)
{
        if (strncmp(candidate, typed, strlen(typed)) == 0 && strlen(typed) <= size)
                printf("%.*s\t%s\n", (int)size, candidate, summary);
}

/* has_contexts: only languages whose interpreters stay: those of templates that need no
 * compiler. */
static void offer_languages_with(int has_contexts, const char *typed)
{
        char *text = NULL;
        json_t *languages, *language;
        size_t i;

        if (cloche_languages(NULL, &text, NULL) < 0)
                return;
        languages = json_loads(text, 0, NULL);
        json_array_foreach (languages, i, language) {
                const char *name = json_string_value(json_object_get(language, "name"));

                if (has_contexts && (!json_is_true(json_object_get(language, "warm")) ||
                                     json_is_true(json_object_get(language, "build"))))
                        continue;
                offer(name, strlen(name), typed, json_string_value(json_object_get(language, "interpreter")));
        }
        json_decref(languages);
        free(text);
}

static void offer_languages(const char *typed)
{
        offer_languages_with(0, typed);
}

static void offer_context_languages(const char *typed)
{
        offer_languages_with(1, typed);
}

static void offer_names(int (*list)(char ***ret, size_t *ret_count), const char *typed, const char *summary)
{
        char **names = NULL;
        size_t count = 0;

        if (list(&names, &count) == 0)
                for (size_t i = 0; i < count; i++)
                        offer(names[i], strlen(names[i]), typed, summary);
        cli_xdg_list_free(names, count);
}

static void offer_prefixes(const char *typed)
{
        offer_names(store_names, typed, "prefix");
}

static void offer_sets(const char *typed)
{
        offer_names(changes_names, typed, "changes");
}

static void give_up(int number)
{
        (void)number;
        _exit(0);
}

/* Rows from an answer of the daemon. params is stolen. */
static void offer_rows(struct daemon_client *client, const char *method, json_t *params, const char *rows,
                       const char *name, const char *about, const char *typed)
{
        struct daemon_message message;
        struct cloche_err e;
        const json_t *row;
        size_t i;

        if (daemon_call(client, method, params, NULL, 0, &message, &e) < 0)
                return;
        json_array_foreach (json_object_get(message.body, rows), i, row)
                offer(sandbox_text(row, name), strlen(sandbox_text(row, name)), typed, sandbox_text(row, about));
        daemon_message_done(&message);
}

static const char *typed_socket; /* of --socket in the earlier words; NULL: none */

/* Uses a short timeout: the user is typing. */
static int open_daemon(struct daemon_client *client)
{
        char path[DAEMON_SOCKET_BYTES];
        struct cloche_err e;
        int found;

        signal(SIGALRM, give_up);
        alarm(PATIENCE_S);
        found = daemon_locate(typed_socket, LOCATE_ONLY, path, &e);
        return found == 1 ? daemon_open(path, 0, client, &e) : -1;
}

static void close_daemon(struct daemon_client *client)
{
        daemon_close(client);
        fflush(stdout);
        alarm(0);
}

static void offer_sandboxes(const char *typed)
{
        struct daemon_client client;

        if (open_daemon(&client) < 0)
                return;
        offer_rows(&client, "sandbox.list", json_object(), "sandboxes", "sandbox", "state", typed);
        close_daemon(&client);
}

/* A request for contexts would create or start a sandbox, so only running ones are queried. */
static int is_running(struct daemon_client *client, const char *sandbox)
{
        struct daemon_message message;
        struct cloche_err e;
        int runs;

        if (daemon_call(client, "sandbox.get", json_pack("{s:s}", "sandbox", sandbox), NULL, 0, &message, &e) < 0)
                return 0;
        runs = strcmp(sandbox_text(message.body, "state"), "running") == 0;
        daemon_message_done(&message);
        return runs;
}

static const char *typed_sandbox; /* from the earlier words; NULL: none */

static void offer_contexts(const char *typed)
{
        struct daemon_client client;

        if (!typed_sandbox || open_daemon(&client) < 0)
                return;
        if (is_running(&client, typed_sandbox))
                offer_rows(&client, "context.list", json_pack("{s:s}", "sandbox", typed_sandbox), "contexts", "context",
                           "language", typed);
        close_daemon(&client);
}

static void offer_volumes(const char *typed)
{
        struct daemon_client client;

        if (open_daemon(&client) < 0)
                return;
        offer_rows(&client, "volume.list", json_object(), "volumes", "volume", "createdAt", typed);
        close_daemon(&client);
}

static void offer_snapshots(const char *typed)
{
        struct daemon_client client;

        if (open_daemon(&client) < 0)
                return;
        offer_rows(&client, "snapshot.list", json_object(), "snapshots", "snapshot", "createdAt", typed);
        close_daemon(&client);
}

static int is_of_daemon; /* the images of the typed command */

static void offer_names_of(const json_t *answer, const char *typed)
{
        const json_t *image, *name;
        size_t i, k;

        json_array_foreach (json_object_get(answer, "images"), i, image)
                json_array_foreach (json_object_get(image, "names"), k, name)
                        offer(json_string_value(name), json_string_length(name), typed, "image");
}

static void offer_images_of_daemon(const char *typed)
{
        struct daemon_client client;
        struct daemon_message message;
        struct cloche_err e;

        if (open_daemon(&client) < 0)
                return;
        if (daemon_call(&client, "image.list", json_object(), NULL, 0, &message, &e) == 0) {
                offer_names_of(message.body, typed);
                daemon_message_done(&message);
        }
        close_daemon(&client);
}

static void offer_images(const char *typed)
{
        static const struct cli_request defaults;
        json_t *answer = NULL;

        if (is_of_daemon) {
                offer_images_of_daemon(typed);
                return;
        }
        if (image_store_request(&defaults, "list", NULL, -1, &answer) == 0)
                offer_names_of(answer, typed);
        json_decref(answer);
}

/* Commands that only a daemon carries out, and those that name one. */
static int names_daemon(const struct cli_command *command, const struct cli_option *given)
{
        const struct cli_option *socket = options_find(command, "--socket", strlen("--socket"));

        return (socket && strcmp(socket->group, "daemon") == 0) || (given && strcmp(given->group, "image_daemon") == 0);
}

static void offer_words_of(const struct cli_option *option, const char *typed)
{
        for (const char *word = option->words; *word; word += strcspn(word, " "), word += *word == ' ')
                offer(word, strcspn(word, " "), typed, option->argument);
}

/* In a comma-separated list only the last item is completed. */
static void offer_guards(const char *typed)
{
        const char *comma = strrchr(typed, ',');
        size_t before = comma ? (size_t)(comma - typed) + 1 : 0;
        char whole[600];

        for (int g = 0; g < CLOCHE_GUARD_COUNT; g++) {
                snprintf(whole, sizeof(whole), "%.*s%s", (int)before, typed, cloche_guard_name((enum cloche_guard)g));
                offer(whole, strlen(whole), typed, "guard");
        }
}

/* what: its placeholder in usage and help, "LANGUAGE" or "[LANGUAGE]". */
static void offer_value(const char *what, size_t size, const char *typed)
{
        static const struct {
                const char *word;
                void (*offer)(const char *typed);
        } rows[] = {{"LANGUAGE", offer_languages}, {"PREFIX", offer_prefixes}, {"GUARD", offer_guards},
                    {"IMAGE", offer_images},       {"SET", offer_sets},        {"SANDBOX", offer_sandboxes},
                    {"CONTEXT", offer_contexts},   {"VOLUME", offer_volumes},  {"SNAPSHOT", offer_snapshots}};

        what += *what == '[';
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (strncmp(what, rows[i].word, strlen(rows[i].word)) == 0 &&
                    strcspn(what, "]…,[ ") == strlen(rows[i].word) && size)
                        rows[i].offer(typed);
}

static void offer_options(const struct cli_command *command, const char *typed)
{
        const struct cli_option *option = NULL;

        while ((option = options_next(command, option)))
                if (strlen(option->name) > 1)
                        offer(option->name, strlen(option->name), typed, option->help);
        offer("--help", 6, typed, "say what it does");
}

/* Complete the positional word at that index, by the usage; the last one may repeat. */
static void offer_positional(const struct cli_command *command, int index, const char *typed)
{
        const char *word = command->usage;

        if (strcmp(command->name, "repl") == 0)
                return offer_context_languages(typed);

        while (index-- > 0 && strncmp(word + strcspn(word, " …"), "…", strlen("…")) != 0)
                word += strcspn(word, " ") + strspn(word + strcspn(word, " "), " ");
        offer_value(word, strcspn(word, " "), typed);
}

static void complete_command(const struct cli_command *command, int count, char **words)
{
        const char *typed = words[count - 1];
        int index = 0;

        is_of_daemon = names_daemon(command, NULL);
        for (int i = 0; i < count - 1; i++) {
                const struct cli_option *option = options_find(command, words[i], strlen(words[i]));

                is_of_daemon |= names_daemon(command, option);
                if (option && !*option->argument)
                        option = NULL;
                if (strcmp(words[i], "--") == 0)
                        return;
                if (!option && index == 0 && words[i][0] != '-' &&
                    strncmp(command->usage, "SANDBOX", strlen("SANDBOX")) == 0)
                        typed_sandbox = words[i];
                if (option && strcmp(option->name, "--socket") == 0 && i < count - 2)
                        typed_socket = words[i + 1];
                if (option && strcmp(option->name, "--sandbox") == 0)
                        typed_sandbox = words[i + 1];
                if (option && i == count - 2 && strcmp(option->name, "--language") == 0)
                        return offer_context_languages(typed); /* an option of contexts only */
                if (option && i == count - 2) {
                        offer_value(option->argument, strlen(option->argument), typed);
                        offer_words_of(option, typed);
                        return;
                }
                index += words[i][0] != '-';
                i += option != NULL;
        }
        if (typed[0] == '-')
                offer_options(command, typed);
        else
                offer_positional(command, index, typed);
}

/* Complete the next word of two-word names, without duplicates. */
static void complete_name(const struct cli_command *commands, size_t command_count, int count, char **words)
{
        const char *before = "", *typed = words[count - 1];
        size_t before_size = 0;

        for (size_t i = 0; i < command_count; i++) {
                const char *name = commands[i].name;

                if (count == 2) {
                        size_t first = strlen(words[0]);

                        if (strncmp(name, words[0], first) != 0 || name[first] != ' ')
                                continue;
                        name += first + 1;
                }
                if (before_size == strcspn(name, " ") && memcmp(before, name, before_size) == 0)
                        continue;
                before = name;
                before_size = strcspn(name, " ");
                offer(name, before_size, typed, commands[i].summary);
        }
}

/* The user is typing: messages, also of programs that are started here, would land in the line. */
int complete(const struct cli_command *commands, size_t command_count, int count, char **words)
{
        if (!freopen("/dev/null", "w", stderr))
                return 1;
        for (size_t i = 0; count > 0 && i < command_count; i++) {
                int taken = cli_matches(&commands[i], count - 1, words);

                if (taken > 0) {
                        complete_command(&commands[i], count - taken, words + taken);
                        return 0;
                }
        }
        if (count == 1 || count == 2)
                complete_name(commands, command_count, count, words);
        if (count == 1)
                offer("help", 4, words[0], "show the help of a command");
        return 0;
}
