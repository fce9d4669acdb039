/* Clients of the era before 2026-07-28, in which a message does not say all that is to be known of
 * its sender. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX 1000 /* of a caller; over this its one that was quiet for longest is forgotten */

static int is_of(const struct mcp_client *client, const struct mcp_exchange *x)
{
        if (client->principal != x->door.principal)
                return 0;
        if (x->connection)
                return client->connection == x->connection;
        return x->session && !client->connection && strcmp(client->session, x->session) == 0;
}

static int is_session(const char *id)
{
        return id && strlen(id) == MCP_SESSION_SIZE - 1 && strspn(id, "0123456789abcdef") == MCP_SESSION_SIZE - 1;
}

struct mcp_client *mcp_client_find(const struct mcp_exchange *x)
{
        struct mcp_clients *clients = &x->door.daemon->mcp->clients;
        struct mcp_client *client;

        TAILQ_FOREACH (client, clients, link)
                if (is_of(client, x)) {
                        TAILQ_REMOVE(clients, client, link);
                        TAILQ_INSERT_TAIL(clients, client, link);
                        return client;
                }
        return NULL;
}

void mcp_client_free(struct mcp *mcp, struct mcp_client *client)
{
        struct mcp_exchange *x;

        TAILQ_FOREACH (x, &mcp->exchanges, link)
                if (x->client == client) {
                        x->client = NULL;
                        x->session = x->session == client->session ? NULL : x->session;
                }
        TAILQ_REMOVE(&mcp->clients, client, link);
        mcp_watches_free(&client->watches);
        json_decref(client->capabilities);
        free(client);
}

static int is_crowded(const struct mcp *mcp, int64_t principal)
{
        const struct mcp_client *client;
        unsigned count = 0;

        TAILQ_FOREACH (client, &mcp->clients, link)
                count += client->principal == principal;
        return count >= CLIENTS_MAX;
}

/* The least used one of the caller that has no stream. */
static int forget_one(struct mcp *mcp, int64_t principal)
{
        struct mcp_client *client;

        TAILQ_FOREACH (client, &mcp->clients, link)
                if (client->principal == principal && !client->listener) {
                        mcp_client_free(mcp, client);
                        return 1;
                }
        return 0;
}

struct mcp_client *mcp_client_of(struct mcp_exchange *x)
{
        struct mcp *mcp = x->door.daemon->mcp;
        struct mcp_client *client = x->client ? x->client : mcp_client_find(x);

        x->client = client;
        if (client || (!x->connection && !is_session(x->session)))
                return client;
        if (is_crowded(mcp, x->door.principal) && !forget_one(mcp, x->door.principal))
                return NULL;
        client = calloc(1, sizeof(*client));
        if (!client)
                return NULL;
        client->principal = x->door.principal;
        client->connection = x->connection;
        client->level = MCP_SILENCE;
        if (!x->connection)
                strcpy(client->session, x->session);
        TAILQ_INIT(&client->watches);
        TAILQ_INSERT_TAIL(&mcp->clients, client, link);
        x->client = client;
        return client;
}

int mcp_is_same_client(const struct mcp_exchange *x, const struct mcp_exchange *other)
{
        if (x == other || x->door.principal != other->door.principal)
                return 0;
        if (x->connection)
                return x->connection == other->connection;
        return x->session && other->session && !other->connection && strcmp(x->session, other->session) == 0;
}

const json_t *mcp_capabilities(const struct mcp_exchange *x)
{
        if (x->is_modern)
                return mcp_meta(x, "clientCapabilities");
        return x->client ? x->client->capabilities : NULL;
}
