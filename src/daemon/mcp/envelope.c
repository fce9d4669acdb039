/* The two eras of the protocol: the era of a message, the members it must have, and those added
 * to its result. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include "wire/base64.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define META "io.modelcontextprotocol/"
#define ENCODED "=?base64?" /* and "?=" at the end: a header that is not plain ASCII */

static const char *const legacy[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
#define LEGACY_COUNT (sizeof(legacy) / sizeof(legacy[0]))

json_t *mcp_versions(void)
{
        json_t *versions = json_pack("[s]", MCP_MODERN_VERSION);

        for (size_t i = 0; i < LEGACY_COUNT; i++)
                json_array_append_new(versions, json_string(legacy[i]));
        return versions;
}

static int is_legacy(const char *version)
{
        for (size_t i = 0; i < LEGACY_COUNT; i++)
                if (strcmp(legacy[i], version) == 0)
                        return 1;
        return 0;
}

const char *mcp_legacy_version(const char *asked)
{
        return asked && is_legacy(asked) ? asked : legacy[0];
}

json_t *mcp_server_info(void)
{
        return json_pack("{s:s, s:s, s:s}", "name", "cloche", "title", "Cloche", "version", CLOCHE_VERSION);
}

json_t *mcp_meta(const struct mcp_exchange *x, const char *name)
{
        char whole[80];

        snprintf(whole, sizeof(whole), META "%s", name);
        return json_object_get(x->meta, whole);
}

/* -- headers ----------------------------------------------------------------------------------------------------- */

/* True if a header has this value, perhaps in its encoded form. */
static int is_value(const char *header, const char *value)
{
        _cleanup_buf_ struct buf bytes = BUF_INIT(64u << 10);
        size_t size, before = sizeof(ENCODED) - 1;

        header += strspn(header, " \t"); /* RFC 9110, 5.5: spaces around a value are none of it */
        for (size = strlen(header); size > 0 && strchr(" \t", header[size - 1]);)
                size--;
        if (size < before + 2 || strncasecmp(header, ENCODED, before) != 0 || strncmp(header + size - 2, "?=", 2) != 0)
                return strlen(value) == size && strncmp(header, value, size) == 0;
        return base64_decode(&bytes, header + before, size - before - 2) == 0 && bytes.size == strlen(value) &&
               memcmp(bytes.data ? bytes.data : "", value, bytes.size) == 0;
}

/* True if the header repeats the value. NULL: absent. */
static int repeats(struct mcp_exchange *x, const char *name, const char *value)
{
        const char *header = x->carrier->header(x, name);

        if (!header && !value)
                return 1;
        if (header && value && is_value(header, value))
                return 1;
        mcp_refuse(x, MCP_HEADER_MISMATCH,
                   "the header %s must be that of the body: it is '%.80s', the body has '%.80s'", name,
                   header ? header : "(absent)", value ? value : "(nothing)");
        return 0;
}

/* The member of params that the header Mcp-Name repeats. */
static const char *name_of(const struct mcp_exchange *x)
{
        static const struct {
                const char *method, *member;
        } names[] = {{"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
                     {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"}};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strcmp(names[i].method, x->method) == 0)
                        return mcp_text(x->params, names[i].member);
        return NULL;
}

static int check_headers(struct mcp_exchange *x, const char *version)
{
        const json_t *arguments = json_object_get(x->params, "arguments");

        return repeats(x, "MCP-Protocol-Version", version) && repeats(x, "Mcp-Method", x->method) &&
               repeats(x, "Mcp-Name", name_of(x)) &&
               (strcmp(x->method, "tools/call") != 0 ||
                repeats(x, "Mcp-Param-Sandbox", mcp_text(arguments, "sandbox")));
}

/* -- versions ---------------------------------------------------------------------------------------------------- */

static int refuse_version(struct mcp_exchange *x, const char *version)
{
        mcp_refuse_with(x, 400, MCP_BAD_VERSION,
                        json_pack("{s:o, s:o}", "supported", mcp_versions(), "requested",
                                  json_valid_text(version, strlen(version))),
                        "the protocol version '%.40s' is not supported", version);
        return 0;
}

/* Notifications carry nothing but their method. */
static int check_modern(struct mcp_exchange *x, const char *version)
{
        x->is_modern = 1;
        if (!x->id)
                return 1;
        if (!version || !json_is_object(json_object_get(x->meta, META "clientCapabilities"))) {
                mcp_refuse_with(x, 400, MCP_BAD_PARAMS, NULL,
                                "params._meta must have " META "protocolVersion and " META "clientCapabilities");
                return 0;
        }
        return !x->carrier->header || check_headers(x, version);
}

int mcp_envelope_check(struct mcp_exchange *x)
{
        const char *header = x->carrier->header ? x->carrier->header(x, "MCP-Protocol-Version") : NULL,
                   *meta = mcp_text(x->meta, META "protocolVersion"), *version = header ? header : meta;

        x->client = mcp_client_find(x);
        if (!version || (is_legacy(version) && !meta))
                return 1;
        if (x->id && meta && header && strcmp(meta, header) != 0)
                return repeats(x, "MCP-Protocol-Version", meta);
        if (strcmp(version, MCP_MODERN_VERSION) != 0)
                return refuse_version(x, version);
        return check_modern(x, meta);
}

/* -- results ----------------------------------------------------------------------------------------------------- */

void mcp_envelope_complete(const struct mcp_exchange *x, json_t *result)
{
        json_t *meta = json_object_get(result, "_meta");

        if (!x->is_modern)
                return;
        if (!json_object_get(result, "resultType"))
                json_object_set_new(result, "resultType", json_string("complete"));
        if (!meta)
                json_object_set_new(result, "_meta", meta = json_object());
        json_object_set_new(meta, META "serverInfo", mcp_server_info());
}
