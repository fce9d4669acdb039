/* Keys and tokens of the API. All follow from the daemon's token, so that nothing is
 * kept and a restart changes none. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "internal.h"

#include "base/clock.h"
#include "wire/base64.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#define SIGNATURE_PREFIX "v1_"

static int is_same(const char *text, const char *secret)
{
        size_t size = strlen(secret);

        return strlen(text) == size && memeql_sec(text, secret, size);
}

#define ACCESS "e2b access" /* purposes of tokens */
#define TRAFFIC "e2b traffic"

static int is_derived(const struct daemon *d, const char *purpose, const char *of, const char *token)
{
        char secret[TOKEN_SECRET_SIZE];

        token_derive(d->options.token, purpose, of, secret);
        return is_same(token, secret);
}

void e2b_access_token(const struct daemon *d, const char *sandbox, char ret[TOKEN_SECRET_SIZE])
{
        token_derive(d->options.token, ACCESS, sandbox, ret);
}

int e2b_is_access_token(const struct daemon *d, const char *sandbox, const char *token)
{
        return is_derived(d, ACCESS, sandbox, token);
}

void e2b_traffic_token(const struct daemon *d, const char *sandbox, char ret[TOKEN_SECRET_SIZE])
{
        token_derive(d->options.token, TRAFFIC, sandbox, ret);
}

int e2b_is_traffic_token(const struct daemon *d, const char *sandbox, const char *token)
{
        return is_derived(d, TRAFFIC, sandbox, token);
}

/* cloche e2b env prints it. */
int e2b_is_api_key(const struct daemon *d, const char *key)
{
        return strncmp(key, TOKEN_E2B_KEY_PREFIX, sizeof(TOKEN_E2B_KEY_PREFIX) - 1) == 0 &&
               is_derived(d, TOKEN_E2B_KEY, "", key + sizeof(TOKEN_E2B_KEY_PREFIX) - 1);
}

/* The header is a common one, which programs in a sandbox may use for tokens of their own. */
static int is_like_token(const char *value)
{
        return strlen(value) == TOKEN_SECRET_SIZE - 1 && strspn(value, "0123456789abcdef") == TOKEN_SECRET_SIZE - 1;
}

int e2b_is_secret(const struct daemon *d, const char *name, const char *value)
{
        return d->e2b && (strcasecmp(name, E2B_TRAFFIC_HEADER) == 0 ||
                          (strcasecmp(name, E2B_ACCESS_HEADER) == 0 && is_like_token(value)) ||
                          (strcasecmp(name, "X-API-KEY") == 0 && e2b_is_api_key(d, value)));
}

/* -- signatures -------------------------------------------------------------------------------------------------- */

struct signature {
        char *path, *user, *text, *expiration;
};

static void signature_done(struct signature *s)
{
        free(s->path);
        free(s->user);
        free(s->text);
        free(s->expiration);
}

/* v1_ and base64 without padding of sha256("path:operation:user:token[:expiration]"). */
static int is_signature(const struct signature *s, const char *operation, const char *token)
{
        const char *parts[] = {s->path ? s->path : "",
                               ":",
                               operation,
                               ":",
                               s->user ? s->user : "",
                               ":",
                               token,
                               s->expiration ? ":" : "",
                               s->expiration ? s->expiration : ""};
        _cleanup_buf_ struct buf expected = BUF_INIT(256);
        uint8_t digest[SHA256_DIGEST_SIZE];
        struct sha256_ctx ctx;

        sha256_init(&ctx);
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                sha256_update(&ctx, strlen(parts[i]), (const uint8_t *)parts[i]);
        sha256_digest(&ctx, sizeof(digest), digest);
        if (base64_encode(&expected, digest, sizeof(digest)) < 0)
                return 0;
        while (expected.size > 0 && expected.data[expected.size - 1] == '=')
                expected.size--;
        return buf_append(&expected, "", 1) == 0 &&
               strncmp(s->text, SIGNATURE_PREFIX, sizeof(SIGNATURE_PREFIX) - 1) == 0 &&
               is_same(s->text + sizeof(SIGNATURE_PREFIX) - 1, expected.data);
}

int e2b_is_signed(const struct e2b_request *q, const char *operation)
{
        struct signature s = {e2b_query(q, "path"), e2b_query(q, "username"), e2b_query(q, "signature"),
                              e2b_query(q, "signature_expiration")};
        char token[TOKEN_SECRET_SIZE];
        int is_signed;

        e2b_access_token(q->door.daemon, q->door.sandbox, token);
        /* The text that is signed has no limits between its parts: a user "x:read:" would turn
         * the signature of a download of "file:write:x" into one of an upload to "file". */
        is_signed = s.text && (!s.user || !*s.user || strcmp(s.user, E2B_USER) == 0) &&
                    is_signature(&s, operation, token) &&
                    (!s.expiration || strtoull(s.expiration, NULL, 10) >= clock_real_ms() / 1000);
        signature_done(&s);
        return is_signed;
}

/* -- ids --------------------------------------------------------------------------------------------------------- */

/* As the service makes them: i and letters and digits, which fit into a host name. */
void e2b_random_id(char *ret, size_t size)
{
        static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
        unsigned char bytes[64];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        ret[0] = 'i';
        for (size_t i = 1; i + 1 < size; i++)
                ret[i] = digits[bytes[i] % (sizeof(digits) - 1)];
        ret[size - 1] = '\0';
}
