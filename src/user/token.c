/* Where the token lies, and secrets of it. Runs in: the CLI, cloched; as the user who started
 * them. */
#include "token.h"
#include "xdg.h"

#include "base/fd.h"
#include "base/hex.h"
#include "base/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_FILE "/var/lib/cloche/token"

void token_default_path(char *ret, size_t size)
{
        if (privilege_is_root() || xdg_find("XDG_STATE_HOME", ".local/state", "cloche/token", ret, size) < 0)
                snprintf(ret, size, "%s", SYSTEM_FILE);
}

int token_read(const char *named, char *ret_path, size_t path_size, char ret[TOKEN_BYTES_MAX])
{
        _cleanup_fd_ int fd = -EBADF;
        ssize_t n;

        if (named)
                snprintf(ret_path, path_size, "%s", named);
        else
                token_default_path(ret_path, path_size);
        fd = open(ret_path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        n = fd < 0 ? -1 : read(fd, ret, TOKEN_BYTES_MAX - 1);
        if (n < 0)
                return -errno;
        ret[n] = '\0';
        ret[strcspn(ret, "\r\n")] = '\0';
        return *ret ? 0 : -ENODATA;
}

void token_derive(const char *token, const char *kind, const char *of, char ret[TOKEN_SECRET_SIZE])
{
        uint8_t digest[(TOKEN_SECRET_SIZE - 1) / 2];
        struct hmac_sha256_ctx ctx;

        hmac_sha256_set_key(&ctx, strlen(token), (const uint8_t *)token);
        hmac_sha256_update(&ctx, strlen(kind), (const uint8_t *)kind);
        hmac_sha256_update(&ctx, 1, (const uint8_t *)""); /* so that no kind and text read as another pair */
        hmac_sha256_update(&ctx, strlen(of), (const uint8_t *)of);
        hmac_sha256_digest(&ctx, sizeof(digest), digest);
        hex_write(ret, digest, sizeof(digest));
}
