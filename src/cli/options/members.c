/* Names of options for members of requests, in messages. Runs in: the CLI, as its user. */
#include "members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
        const char *member, *option;
        const char *set; /* a member of `mount` that only the option sets in this place; NULL: any */
} rows[] = {
        {"args: ", "--args: "},
        {"kwargs: ", "--kwargs: "},
        {"schema: ", "--schema: "},
        {"build: ", "--build: "},
        {"mount.sync.mode ", "--sync "},
        {"mount.sync.onError ", "--on-error "},
        {"mount.sync.conflict ", "--conflict "},
        {"mount.sync.links ", "--links "},
        {"mount: onPermissionDenied: ", "--on-denied: ", "onPermissionDenied"},
        {"mount.dirs: ", "--mount: "},
        {"mount: ", "--mount: "},
        {"mount.", "--mount: "},
        {"make box: a mount at ", "--mount: a mount at "},
        {"the place of a mount ", "--mount: the place "},
        {"the path ", "--file: the path "},
};

static const struct {
        const char *member, *option;
} sandbox_rows[] = {
        {"cwd must ", "-C must "},    {"env: ", "--env: "},    {"session: ", "-s: "},
        {"process: ", "--process: "}, {"url ", "URL "},        {"mount.dirs: ", "--mount: "},
        {"mount: ", "--mount: "},     {"mount.", "--mount: "}, {"sizeBytes is ", "--size is "},
};

/* The text after "BEGIN[NUMBER]" and the number; NULL: no such text. */
static const char *after_index(const char *text, const char *begin, size_t *ret)
{
        size_t size = strlen(begin);
        char *end;

        if (strncmp(text, begin, size) != 0 || text[size] != '[')
                return NULL;
        *ret = strtoul(text + size + 1, &end, 10);
        return *end == ']' ? end + 1 : NULL;
}

/* Rules of --rule precede those of a file. */
static const char *rule_error(const struct cli_request *request, const char *message, char ret[MEMBERS_TEXT_BYTES])
{
        const json_t *given = json_object_get(json_object_get(request->mounts.object, "permissions"), "rules");
        size_t index, count = json_array_size(given);
        const char *rest = after_index(message, "mount: rules", &index), *colon = rest ? strstr(rest, ": ") : NULL;

        if (!colon)
                return NULL;
        if (index < count)
                snprintf(ret, MEMBERS_TEXT_BYTES, "--rule%s", colon);
        else
                snprintf(ret, MEMBERS_TEXT_BYTES, "--mount: rules[%zu]%s", index - count, rest);
        return ret;
}

static const char *network_error(const char *message, const char *allow, const char *deny, char ret[MEMBERS_TEXT_BYTES])
{
        const struct {
                const char *member, *option;
        } lists[] = {{"network.allow", allow},
                     {"network.deny", deny},
                     {"addNetwork.allow", "--add"},
                     {"addNetwork.deny", "--add-deny"}};

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
                size_t index;
                const char *after = after_index(message, lists[i].member, &index);

                if (!after)
                        continue;
                snprintf(ret, MEMBERS_TEXT_BYTES, "%s%s", lists[i].option, after);
                return ret;
        }
        return NULL;
}

static int is_row(const struct cli_request *request, size_t i, const char *message)
{
        return strncmp(message, rows[i].member, strlen(rows[i].member)) == 0 &&
               (!rows[i].set || json_object_get(request->mounts.object, rows[i].set));
}

const char *members_of_run(const struct cli_request *request, const char *message, char ret[MEMBERS_TEXT_BYTES])
{
        if (rule_error(request, message, ret) || network_error(message, "--network", "--network", ret))
                return ret;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                if (is_row(request, i, message)) {
                        snprintf(ret, MEMBERS_TEXT_BYTES, "%s%s", rows[i].option, message + strlen(rows[i].member));
                        return ret;
                }
        return message;
}

/* A piece of a message that names an operation or a member, as the command or the option that
 * does it. A longer piece precedes those that it contains. */
static const char *way_out(const char *message, char ret[MEMBERS_TEXT_BYTES])
{
        static const struct {
                const char *piece, *words;
        } pieces[] = {
                {" (volume.list lists them): make it by volume.create",
                 " (cloche volume ls lists them): make it by cloche volume create"},
                {" (sandbox.list lists them)", " (cloche sandbox ls lists them)"},
                {" (packages.list lists them)", " (cloche packages ls lists them)"},
                {" (volume.list lists them)", " (cloche volume ls lists them)"},
                {" (snapshot.list lists them)", " (cloche snapshot ls lists them)"},
                {", delete it (snapshot.delete), or replace it (replace: true)",
                 ", remove it (cloche snapshot rm), or give --replace"},
                {"writableRoot: name an image of the store (image)",
                 "--writable-root: name an image of the store (--image)"},
                {"root: name an image of the store (image)", "--root: name an image of the store (--image)"},
                {": leave them out, or root", ": leave them out, or --root"},
                {"a sandbox without an end has no endAction: give it a lifetimeMs",
                 "--end-action needs an end: give it a --lifetime"},
                {": make it (prefix.create)", " (cloche prefix list lists them): make it by cloche prefix create"},
                {" (process.list lists them)", " (cloche ps SANDBOX lists them)"},
                {" (context.list lists them)", " (cloche context list SANDBOX lists them)"},
                {" (context.checkpoints lists them)", " (cloche context checkpoints SANDBOX CONTEXT lists them)"},
                {" (context.create with forkable, context create --forkable)", " (cloche context create --forkable)"},
                {" (context.delete)", " (cloche context delete)"},
                {" (context.interrupt)", " (cloche context interrupt)"},
                {" (context.restart)", " (cloche context restart)"},
                {" (context.forget)", " (cloche context forget)"},
                {" (context.checkpoint)", " (cloche context checkpoint)"},
                {" (sandbox.stop)", " (cloche sandbox stop)"},
                {" (port.unexpose)", " (cloche ports --unexpose)"},
                {" (save: false omits that)", " (--no-save omits that)"},
                {"memory: false and save: false would keep nothing", "--no-memory and --no-save would keep nothing"},
                {" has no changes of its image: make it with writableRoot",
                 " has no changes of its image: make it with --writable-root"},
                {", or start it with writableRoot", ", or start it with --writable-root"},
                {": leave count out, or give as many names", ": leave --count out, or give as many names"},
                {"count must be 1 to ", "--count must be 1 to "},
        };

        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
                const char *at = strstr(message, pieces[i].piece);

                if (!at)
                        continue;
                snprintf(ret, MEMBERS_TEXT_BYTES, "%.*s%s%s", (int)(at - message), message, pieces[i].words,
                         at + strlen(pieces[i].piece));
                return ret;
        }
        return NULL;
}

/* The rule that an installation of packages lacked. */
static const char *missing_rule(const char *message, char ret[MEMBERS_TEXT_BYTES])
{
        static const char begin[] = "packages.", rule[] = " (the rule ";
        const char *at = strncmp(message, begin, sizeof(begin) - 1) == 0 ? strstr(message, rule) : NULL;

        if (!at)
                return NULL;
        snprintf(ret, MEMBERS_TEXT_BYTES, "%.*s (--allow %s", (int)(at - message), message, at + sizeof(rule) - 1);
        return ret;
}

const char *members_of_sandbox(const char *message, char ret[MEMBERS_TEXT_BYTES])
{
        if (network_error(message, "--allow", "--deny", ret) || way_out(message, ret) || missing_rule(message, ret))
                return ret;
        for (size_t i = 0; i < sizeof(sandbox_rows) / sizeof(sandbox_rows[0]); i++)
                if (strncmp(message, sandbox_rows[i].member, strlen(sandbox_rows[i].member)) == 0) {
                        snprintf(ret, MEMBERS_TEXT_BYTES, "%s%s", sandbox_rows[i].option,
                                 message + strlen(sandbox_rows[i].member));
                        return ret;
                }
        return message;
}
